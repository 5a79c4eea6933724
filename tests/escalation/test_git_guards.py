"""What a repository planted for an escalated git does not run, shown with the real git."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.escalation.git_guards import git_guards, settings

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Planted:
    """A repository in which everything leads to `trap`, which notes what it was run as."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.work = folder / "work"
        self.trap = folder / "trap"
        self.trap.write_text(f'#!/bin/sh\necho "$0 $*" >>{self.log}\nexit 1\n')
        self.trap.chmod(0o755)
        (folder / "home").mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.com",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.com",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        self.plain("init", "-q", str(self.work), cwd=folder)
        (self.work / "file").write_text("1\n")
        self.plain("add", "file")
        self.plain("commit", "-q", "-m", "first")

    def plain(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run git as nobody guards it, and successfully."""
        done = self._run(words, self.environment, cwd)
        assert done.returncode == 0, done.stderr
        return done

    def guarded(
        self, *words: str, cwd: Path | None = None, **options: object
    ) -> subprocess.CompletedProcess[str]:
        guards = git_guards("/usr/bin/git", words, self.environment, **options)  # type: ignore[arg-type]  # options of each test
        return self._run(words, {**self.environment, **guards}, cwd)

    def unguarded(self, *words: str, cwd: Path | None = None) -> None:
        self._run(words, self.environment, cwd)

    def _run(
        self, words: tuple[str, ...], environment: dict[str, str], cwd: Path | None
    ) -> subprocess.CompletedProcess[str]:
        self.log.unlink(missing_ok=True)
        return subprocess.run(
            ["git", *words], env=environment, cwd=cwd or self.work, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def sprung(self) -> bool:
        return self.log.exists()

    def hook(self, name: str, repository: Path | None = None) -> None:
        hooks = (repository or self.work / ".git") / "hooks"
        hooks.mkdir(exist_ok=True)
        shutil.copy(self.trap, hooks / name)


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


COMMIT = ("commit", "-q", "--allow-empty", "-m", "m")


@needs_git
@pytest.mark.parametrize(
    "hook", ["pre-commit", "commit-msg", "post-commit", "reference-transaction"]
)
def test_a_hook_does_not_run(planted: Planted, hook: str) -> None:
    planted.hook(hook)
    planted.unguarded(*COMMIT)
    assert planted.sprung()
    assert planted.guarded(*COMMIT).returncode == 0
    assert not planted.sprung()


@needs_git
def test_a_folder_of_hooks_the_repository_names_is_not_used(planted: Planted) -> None:
    hooks = planted.work / "hooks"
    hooks.mkdir()
    shutil.copy(planted.trap, hooks / "pre-commit")
    planted.plain("config", "core.hooksPath", "hooks")
    planted.unguarded(*COMMIT)
    assert planted.sprung()
    assert planted.guarded(*COMMIT).returncode == 0
    assert not planted.sprung()


@needs_git
def test_hooks_run_for_who_asks_for_them(planted: Planted) -> None:
    planted.hook("pre-commit")
    assert planted.guarded(*COMMIT, hooks=True).returncode == 1
    assert planted.sprung()


# Each: the setting that is planted, and a command that runs it.
PLANTED = [
    ("core.fsmonitor", "{}", ("status",)),
    ("core.sshCommand", "{}", ("ls-remote", "ssh://host.invalid/x")),
    ("core.gitProxy", "{}", ("ls-remote", "git://127.0.0.1:1/x")),
    ("core.editor", "{}", ("commit", "--allow-empty")),
    ("sequence.editor", "{}", ("rebase", "-i", "--root")),
    ("gpg.program", "{}", (*COMMIT, "-S")),
    ("gpg.openpgp.program", "{}", (*COMMIT, "-S")),
    ("alias.st", "!{}", ("st",)),
    ("alias.st", "!{}", ("--no-pager", "-C", ".", "ST", "-s")),
    ("credential.helper", "!{}", ("credential", "fill")),
    ("credential.https://host.invalid.helper", "!{}", ("credential", "fill")),
    ("core.askPass", "{}", ("credential", "fill")),
    ("protocol.ext.allow", "always", ("ls-remote", "ext::{} %S")),
]


@needs_git
@pytest.mark.parametrize(("key", "value", "words"), PLANTED)
def test_a_planted_setting_is_not_followed(
    planted: Planted, key: str, value: str, words: tuple[str, ...]
) -> None:
    planted.plain("config", key, value.replace("{}", str(planted.trap)))
    command = [word.replace("{}", str(planted.trap)) for word in words]
    if command[0] == "credential":
        # The question goes in by the command line: `credential fill` reads it from its input.
        asked = planted.folder / "credential"
        asked.write_text('#!/bin/sh\nprintf "protocol=https\\nhost=host.invalid\\n\\n" |'
                         " git credential fill\n")  # fmt: skip
        asked.chmod(0o755)
        command = ["-c", f"alias.asked=!{asked}", "asked"]
    planted.unguarded(*command)
    assert planted.sprung()
    planted.guarded(*command)
    assert not planted.sprung()


@needs_git
def test_an_alias_leads_to_the_users_own_or_nowhere(planted: Planted) -> None:
    planted.plain("config", "alias.st", f"!{planted.trap}")
    assert planted.guarded("st").returncode != 0
    done = planted.guarded("st", own=(("alias.st", "status --short"),))
    assert (done.returncode, planted.sprung()) == (0, False)


@needs_git
def test_an_alias_of_the_users_does_not_lead_to_one_of_the_repository(planted: Planted) -> None:
    planted.plain("config", "alias.second", f"!{planted.trap}")
    planted.guarded("first", own=(("alias.first", "second -x"),))
    assert not planted.sprung()


@needs_git
@pytest.mark.parametrize("words", [("status",), ("no_such_command",), ("é x",), ("log", "-1")])
def test_guards_do_not_disturb_a_command(planted: Planted, words: tuple[str, ...]) -> None:
    planted.unguarded(*words)
    done = planted.guarded(*words)
    assert "config" not in done.stderr
    assert done.returncode == (0 if words[0] in ("status", "log") else 1)


@needs_git
def test_a_command_of_git_in_path_still_runs(planted: Planted) -> None:
    program = planted.folder / "git-extra"
    program.write_text("#!/bin/sh\necho extra\n")
    program.chmod(0o755)
    planted.environment["PATH"] = f"{planted.folder}:{planted.environment['PATH']}"
    assert planted.guarded("extra").stdout == "extra\n"


@needs_git
def test_the_hooks_of_a_local_remote_do_not_run(planted: Planted) -> None:
    remote = planted.folder / "remote.git"
    planted.plain("init", "-q", "--bare", str(remote))
    planted.hook("pre-receive", remote)
    push = ("push", str(remote), "HEAD:refs/heads/x")
    planted.guarded(*push, local_remotes=True)
    assert planted.sprung()
    done = planted.guarded(*push)
    assert "transport 'file' not allowed" in done.stderr
    assert not planted.sprung()


@needs_git
def test_a_program_named_for_the_other_side_does_not_run(planted: Planted) -> None:
    words = ("ls-remote", f"--upload-pack={planted.trap}", ".")
    planted.unguarded(*words)
    assert planted.sprung()
    planted.guarded(*words)
    assert not planted.sprung()


@needs_git
def test_files_that_look_like_a_repository_are_none(planted: Planted) -> None:
    inner = planted.work / "inner"
    planted.plain("init", "-q", "--bare", str(inner))
    planted.plain("config", "--file", str(inner / "config"), "core.bare", "false")
    planted.plain("config", "--file", str(inner / "config"), "core.worktree", str(planted.folder))
    planted.plain("config", "--file", str(inner / "config"), "core.fsmonitor", str(planted.trap))
    planted.unguarded("status", cwd=inner)
    assert planted.sprung()
    done = planted.guarded("status", cwd=inner)
    assert "safe.bareRepository" in done.stderr
    assert not planted.sprung()


@needs_git
def test_guards_reach_submodules(planted: Planted) -> None:
    module = planted.folder / "module"
    shutil.copytree(planted.work, module)
    local = ("-c", "protocol.file.allow=always")
    planted.plain(*local, "submodule", "--quiet", "add", str(module), "m")
    planted.plain(*COMMIT)
    planted.hook("pre-commit", planted.work / ".git/modules/m")
    planted.plain("config", "core.fsmonitor", str(planted.trap), cwd=planted.work / "m")
    planted.unguarded("submodule", "foreach", "git status; git commit --allow-empty -m x")
    assert planted.sprung()
    planted.guarded("submodule", "foreach", "git status; git commit --allow-empty -m x")
    assert not planted.sprung()


def value_of(guards: dict[str, str], key: str) -> list[str]:
    count = int(guards["GIT_CONFIG_COUNT"])
    return [
        guards[f"GIT_CONFIG_VALUE_{index}"]
        for index in range(count)
        if guards.get(f"GIT_CONFIG_KEY_{index}") == key
    ]


def test_the_users_own_settings_stay_in_force() -> None:
    own = (
        ("credential.helper", "store"),
        ("credential.https://a.example.helper", "!login"),
        ("core.sshcommand", "ssh -i key"),
        ("gpg.program", "gpg2"),
        ("core.editor", "nano"),
        ("core.pager", "delta"),
        ("core.hookspath", "/home/me/hooks"),
        ("user.name", "Me"),
    )
    guards = git_guards("git", ["push"], {"EDITOR": "ed"}, own=own)
    assert value_of(guards, "credential.helper") == ["", "store"]
    assert value_of(guards, "credential.https://a.example.helper") == ["!login"]
    assert value_of(guards, "core.sshCommand") == ["ssh -i key"]
    assert value_of(guards, "gpg.openpgp.program") == ["gpg2"]
    assert value_of(guards, "core.editor") == ["nano"]
    assert value_of(guards, "core.hooksPath") == ["/dev/null"]
    assert value_of(guards, "user.name") == []
    assert guards["GIT_PAGER"] == "delta"


def test_the_users_own_variables_go_before_defaults() -> None:
    environment = {"EDITOR": "ed", "VISUAL": "vi", "TERM": "xterm", "PAGER": "more"}
    guards = git_guards("git", (), {**environment, "GIT_EDITOR": "ge", "SSH_ASKPASS": "ask"})
    assert value_of(guards, "core.editor") == ["vi"]
    assert value_of(guards, "sequence.editor") == ["ge"]
    assert value_of(guards, "core.askPass") == ["ask"]
    assert guards["GIT_PAGER"] == "more"
    assert git_guards("git", (), {"GIT_PAGER": ""})["GIT_PAGER"] == ""


def test_settings_the_environment_holds_already_are_added_to() -> None:
    guards = git_guards("git", (), {"GIT_CONFIG_COUNT": "2"})
    assert "GIT_CONFIG_KEY_0" not in guards
    assert "GIT_CONFIG_KEY_2" in guards
    assert f"GIT_CONFIG_KEY_{int(guards['GIT_CONFIG_COUNT']) - 1}" in guards


@pytest.mark.parametrize("count", ["", "x", "-1", "9" * 5000, "²"])
def test_a_count_that_is_none_is_replaced(count: str) -> None:
    assert "GIT_CONFIG_KEY_0" in git_guards("git", (), {"GIT_CONFIG_COUNT": count})


@pytest.mark.parametrize(
    ("program", "guarded"),
    [("git", True), ("/usr/bin/git", True), ("/usr/lib/git-core/git-push", True), ("gh", True),
     ("ls", False), ("github", False), ("", False)],
)  # fmt: skip
def test_only_git_and_what_runs_it_is_guarded(program: str, guarded: bool) -> None:
    assert bool(git_guards(program)) == guarded


@needs_git
def test_the_users_settings_are_read_from_gits_listing(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text(
        '[alias]\n a = "!x\\ny"\n[core]\n bare\n[credential "https://B.c"]\n helper = h\n'
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    listing = subprocess.run(
        ["git", "config", "--list", "--null"], cwd="/", env=environment, capture_output=True,
        check=True, timeout=60,
    ).stdout  # fmt: skip
    assert settings(listing) == (
        ("alias.a", "!x\ny"),
        ("core.bare", "true"),
        ("credential.https://B.c.helper", "h"),
    )


TEXT = st.text(max_size=6)


@given(
    st.lists(TEXT | st.sampled_from(["-c", "alias.x=y", "git"])),
    st.dictionaries(TEXT, TEXT),
    st.lists(st.tuples(TEXT | st.just("alias.a"), TEXT | st.just("a"))),
    st.binary(),
)
def test_any_words_and_settings_give_guards(
    words: list[str], environment: dict[str, str], own: list[tuple[str, str]], listing: bytes
) -> None:
    guards = git_guards("git", words, environment, own=[*own, *settings(listing)])
    assert value_of(guards, "core.hooksPath") == ["/dev/null"]
