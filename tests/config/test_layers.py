"""All files of a machine, a user and a project come to one configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codex_multitool.config.configuration import Config, Layer
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.layers import load
from codex_multitool.config.limits import Limits
from codex_multitool.config.shell_environment import EnvironmentPolicy
from codex_multitool.sandbox.policy import SandboxPolicy
from tests.config.conftest import Machine

MODE = 'sandbox_mode = "{}"\n'.format
ALL_MODES = ["read-only", "workspace-write", "danger-full-access"]


def refusal(machine: Machine, cwd: Path | None = None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        machine.load(cwd, overrides)
    return str(caught.value)


def where(config: Config, *key: str) -> str:
    return config.stated[key].where


def test_without_files_everything_is_as_it_comes(machine: Machine) -> None:
    assert machine.load() == machine.load(machine.project) == Config()
    assert Config().policy() == SandboxPolicy("read-only")
    assert Config().environment == EnvironmentPolicy("core", ignore_default_excludes=False)


def test_every_setting_arrives(machine: Machine) -> None:
    machine.write_user("""\
sandbox_mode = "workspace-write"
[sandbox_workspace_write]
writable_roots = ["~/x", "/y", "z"]
network_access = true
exclude_tmpdir_env_var = true
exclude_slash_tmp = true
[shell_environment_policy]
inherit = "all"
ignore_default_excludes = true
exclude = ["A*"]
include_only = ["B*"]
set = {C = "d"}
[codex_multitool]
intercept = "kernel"
shell = "/bin/dash"
rules = ["a.rules", "/b.rules"]
approval_timeout = 5
dangerous_commands = "run"
protect = "namespace"
keep_environment = ["K*"]
drop_environment = ["D"]
keep_environment_of = {make = ["CC"]}
max_memory = "1G"
max_processes = 100
max_cpu_seconds = 60
max_file_size = 1000
max_open_files = 64
""")
    home = machine.home
    roots = (f"{home.parent}/x", "/y", f"{home}/z")
    assert machine.load() == Config(
        sandbox_mode="workspace-write",
        workspace_write=SandboxPolicy(
            "workspace-write",
            writable_roots=roots,
            network_access=True,
            exclude_tmpdir_env_var=True,
            exclude_slash_tmp=True,
        ),
        environment=EnvironmentPolicy(
            inherit="all",
            ignore_default_excludes=True,
            exclude=("A*",),
            include_only=("B*",),
            set={"C": "d"},
        ),
        intercept="kernel",
        shell="/bin/dash",
        rules=(f"{home}/a.rules", "/b.rules"),
        approval_timeout=5.0,
        dangerous_commands="run",
        protect="namespace",
        users_variables={"C": "d"},
        keep_environment=("K*",),
        keep_environment_of={"make": ("CC",)},
        drop_environment=("D",),
        limits=Limits(memory=1 << 30, processes=100, cpu_seconds=60, file_size=1000, open_files=64),
        layers=(Layer(f"{home}/config.toml"),),
    )


def test_filters_become_what_the_lists_say(machine: Machine) -> None:
    machine.write_user("""\
[shell_environment_policy.filters]
"AWS_*" = "exclude"
PATH = "include"
"L*" = "include"
""")
    assert machine.load().environment == EnvironmentPolicy(
        exclude=("aws_*",), include_only=("path", "l*")
    )


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_mode_is_a_policy(machine: Machine, mode: str) -> None:
    machine.write_user(MODE(mode) + "[sandbox_workspace_write]\nnetwork_access = true")
    config = machine.load()
    networked = SandboxPolicy("workspace-write", network_access=True)
    assert config.policy() == (networked if mode == "workspace-write" else SandboxPolicy(mode))
    assert config.policy("workspace-write") == networked
    assert config.policy("read-only") == SandboxPolicy("read-only")


def test_layers_are_system_user_project_command_line(machine: Machine) -> None:
    line = "shell_environment_policy.set.{} = '{}'\n".format
    names = ["SYSTEM", "USER", "ROOT", "SUB", "FIRST", "SECOND"]

    def stated(layer: str) -> str:
        return "".join(line(name, layer) for name in names[names.index(layer) :])

    machine.write_system(stated("SYSTEM"))
    machine.write_user(stated("USER") + machine.trust())
    root = machine.write_project(stated("ROOT"))
    sub = machine.write_project(stated("SUB"), "a/sub")
    overrides = [f"shell_environment_policy.set={{{name}='{name}'}}" for name in names[-2:]]
    overrides.insert(1, "shell_environment_policy.set.SECOND='FIRST'")
    (machine.project / "a" / "sub" / "deep").mkdir()
    config = machine.load(machine.project / "a" / "sub" / "deep", overrides)
    assert config.environment.set == {name: name for name in names}
    user = machine.home / "config.toml"
    paths = [machine.system, user, root, sub]
    assert config.layers == tuple(
        Layer(name) for name in [*map(str, paths), *(f"-c {text}" for text in overrides)]
    )
    found = [where(config, "shell_environment_policy", "set", name) for name in names]
    assert found == [
        *(f"{path}:1:30" for path in paths),
        f"-c {overrides[0]}",
        f"-c {overrides[2]}",
    ]


def test_without_a_working_directory_there_is_no_project(machine: Machine) -> None:
    machine.write_user(machine.trust())
    machine.write_project("not TOML")
    assert machine.load().layers == (Layer(f"{machine.home}/config.toml"),)


def test_relative_paths_are_below_their_file(machine: Machine) -> None:
    machine.write_system("codex_multitool.rules = ['a']")
    assert machine.load().rules == (f"{machine.system.parent}/a",)
    assert machine.load(machine.project, ["codex_multitool.rules=['a']"]).rules == (
        f"{machine.project}/a",
    )


def test_a_relative_home_makes_absolute_paths(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write_user("codex_multitool.shell = 'a'")
    monkeypatch.chdir(machine.root)
    config = load({"HOME": "home"}, None, system=str(machine.system))
    assert config.shell == f"{machine.home}/a"
    machine.write_user("codex_multitool.shell = '~/a'")
    with pytest.raises(ConfigError, match="no home directory is known"):
        load({"HOME": "home"}, None, system=str(machine.system))


def test_a_link_to_the_users_file_is_followed_and_not_moved(machine: Machine) -> None:
    (machine.root / "dotfiles").mkdir()
    (machine.root / "dotfiles" / "codex.toml").write_text("codex_multitool.shell = 'sh'")
    (machine.home / "config.toml").symlink_to(machine.root / "dotfiles" / "codex.toml")
    assert machine.load().shell == f"{machine.home}/sh"


class TestTrust:
    def test_an_unknown_project_is_not_read_and_that_is_said(self, machine: Machine) -> None:
        path = machine.write_project("not TOML")
        config = machine.load(machine.project)
        reason = (
            f"To load config.toml, add {machine.project} as a trusted project in "
            f"{machine.home}/config.toml."
        )
        assert config.layers == (Layer(str(path), reason),)
        assert config.warnings == (f"{path} is not read. {reason}",)

    def test_an_untrusted_project_is_not_read_and_that_is_said(self, machine: Machine) -> None:
        machine.write_user(machine.trust(level="untrusted"))
        path = machine.write_project("not TOML")
        user = machine.home / "config.toml"
        assert machine.load(machine.project).layers[1:] == (
            Layer(
                str(path),
                f"{machine.project} is marked as untrusted in {user}. "
                "To load config.toml, mark it trusted.",
            ),
        )

    @pytest.mark.parametrize("level", ["trusted", "untrusted"])
    def test_the_nearest_word_counts(self, machine: Machine, level: str) -> None:
        other = "untrusted" if level == "trusted" else "trusted"
        sub = machine.project / "sub"
        machine.write_user(machine.trust(level=other) + machine.trust(sub, level))
        machine.write_project(MODE("read-only"))
        machine.write_project(MODE("read-only"), "sub")
        read = [layer.unread is None for layer in machine.load(sub).layers[1:]]
        assert read == [other == "trusted", level == "trusted"]

    def test_the_repository_counts_where_the_root_has_other_marks(self, machine: Machine) -> None:
        machine.write_user('project_root_markers = ["setup.py"]\n' + machine.trust())
        (machine.project / "sub").mkdir()
        (machine.project / "sub" / "setup.py").touch()
        machine.write_project(MODE("read-only"), "sub")
        outer = machine.write_project("above the root")
        config = machine.load(machine.project / "sub")
        assert [layer.unread for layer in config.layers] == [None, None]
        assert str(outer) not in [layer.name for layer in config.layers]

    def test_without_marks_only_the_working_directory_is_the_project(
        self, machine: Machine
    ) -> None:
        machine.write_user("project_root_markers = []\n" + machine.trust())
        machine.write_project("above the root")
        machine.write_project(MODE("read-only"), "sub")
        assert machine.load(machine.project / "sub").sandbox_mode == "read-only"

    def test_trust_is_by_canonical_path(self, machine: Machine) -> None:
        (machine.root / "link").symlink_to(machine.project)
        machine.write_project(MODE("read-only"))
        machine.write_user(machine.trust(f"{machine.root}/x/../project/."))
        assert machine.load(machine.root / "link").sandbox_mode == "read-only"
        # The link may be made to lead elsewhere.
        machine.write_user(machine.trust(machine.root / "link"))
        assert machine.load(machine.root / "link").sandbox_mode is None

    def test_of_two_words_on_one_folder_the_worse_counts(self, machine: Machine) -> None:
        machine.write_project("not TOML")
        again = f"{machine.project}/"
        for first, second in [("trusted", "untrusted"), ("untrusted", "trusted")]:
            machine.write_user(machine.trust(level=first) + machine.trust(again, second))
            assert machine.load(machine.project).layers[1].unread

    def test_the_command_line_may_trust(self, machine: Machine) -> None:
        machine.write_project(MODE("read-only"))
        override = f'projects."{machine.project}".trust_level=trusted'
        assert machine.load(machine.project, [override]).sandbox_mode == "read-only"

    def test_a_project_does_not_speak_for_itself(self, machine: Machine) -> None:
        text = 'project_root_markers = ["x"]\n' + machine.trust(machine.project / "sub")
        path = machine.write_project(text)
        machine.write_project("not TOML", "sub")
        machine.write_user(machine.trust() + machine.trust(machine.project / "sub", "untrusted"))
        config = machine.load(machine.project / "sub")
        assert [layer.unread is None for layer in config.layers] == [True, True, False]
        assert config.warnings[:2] == tuple(
            f"{path}:{place}: `{name}` has no effect in a project's file"
            for place, name in [
                ("1:1", "project_root_markers"),
                ("3:1", f'projects."{machine.project}/sub".trust_level'),
            ]
        )

    def test_a_worktree_does_not_inherit_its_repositorys_trust(self, machine: Machine) -> None:
        # Whoever writes a folder writes its `.git`, and may name any repository in it.
        tree = machine.root / "tree"
        (tree / ".codex").mkdir(parents=True)
        (tree / ".codex" / "config.toml").write_text("not TOML")
        (tree / ".git").write_text(f"gitdir: {machine.project}/.git/worktrees/tree")
        machine.write_user(machine.trust())
        assert machine.load(tree).layers[1].unread

    def test_codex_home_is_no_project_of_its_own(self, machine: Machine) -> None:
        machine.write_user(MODE("danger-full-access") + machine.trust(machine.home.parent))
        assert len(machine.load(machine.home.parent).layers) == 1
        (machine.project / ".codex").symlink_to(machine.home)
        machine.write_user(MODE("danger-full-access") + machine.trust())
        assert len(machine.load(machine.project).layers) == 1


class TestMistakes:
    @pytest.mark.parametrize("layer", ["system", "user", "project"])
    def test_a_mistake_in_any_file_is_located(self, machine: Machine, layer: str) -> None:
        machine.write_user(machine.trust())
        text = "# a\ncodex_multitool.shell = 1\n"
        match layer:
            case "system":
                machine.write_system(text)
                path = machine.system
            case "user":
                machine.write_user(text)
                path = machine.home / "config.toml"
            case _:
                path = machine.write_project(text)
        told = refusal(machine, machine.project)
        assert told == (
            f"{path}:2:25: `codex_multitool.shell`: must be a string, not an integer\n"
            '  write it in quotes: "..."'
        )

    def test_a_mistake_that_a_higher_layer_hides_is_one(self, machine: Machine) -> None:
        machine.write_system(MODE("none"))
        machine.write_user(MODE("read-only"))
        assert refusal(machine).startswith(f"{machine.system}:1:16: `sandbox_mode`: unknown value")

    def test_malformed_files_are_located(self, machine: Machine) -> None:
        path = machine.home / "config.toml"
        machine.write_user("a = 1\nb")
        assert refusal(machine).startswith(f"{path}:2:2: not TOML: ")
        path.write_bytes(b"a = 1\n# caf\xc3\xa9 \xe9")
        assert refusal(machine) == f"{path}:2:8: not UTF-8: byte 0xe9\n  save the file as UTF-8"

    def test_a_byte_order_mark_is_no_mistake(self, machine: Machine) -> None:
        (machine.home / "config.toml").write_bytes(b"\xef\xbb\xbf" + MODE("read-only").encode())
        config = machine.load()
        assert config.sandbox_mode == "read-only"
        assert where(config, "sandbox_mode") == f"{machine.home}/config.toml:1:1"

    @pytest.mark.parametrize("layer", ["system", "user", "project"])
    def test_a_file_that_cannot_be_read_is_named(self, machine: Machine, layer: str) -> None:
        machine.write_user(machine.trust())
        match layer:
            case "system":
                path = machine.system
            case "user":
                path = machine.home / "config.toml"
                path.unlink()
            case _:
                path = machine.project / ".codex" / "config.toml"
        path.mkdir(parents=True)
        assert (
            refusal(machine, machine.project)
            == f"failed to read config file {path}: Is a directory"
        )

    def test_a_home_that_is_not_there_is_named(self) -> None:
        with pytest.raises(ConfigError, match='CODEX_HOME points to "/no/such/home"'):
            load({"CODEX_HOME": "/no/such/home"}, None)

    def test_an_override_without_a_setting_of_ours_is_told(self, machine: Machine) -> None:
        config = machine.load(None, ["models=y", "model=x"])
        assert config == Config(
            layers=(Layer("-c models=y"), Layer("-c model=x")),
            warnings=(
                "-c models=y: this is no setting of ours: it has no effect",
                "-c model=x: this is no setting of ours: it has no effect",
            ),
        )

    def test_a_folder_that_is_gone_has_no_project(self, machine: Machine) -> None:
        gone = machine.root / "gone"
        assert machine.load(gone) == Config()

    def test_what_an_administrator_imposes_is_told_to_be_unread(self, machine: Machine) -> None:
        for name in ("requirements.toml", "managed_config.toml"):
            (machine.system.parent / name).touch()
        assert machine.load().warnings == tuple(
            f"{machine.system.parent}/{name} is not read: "
            "what it imposes on Codex is not imposed here"
            for name in ("requirements.toml", "managed_config.toml")
        )

    def test_a_profile_that_means_nothing_is_told(self, machine: Machine) -> None:
        machine.write_user("[shell_environment_policy]\nexperimental_use_profile = false")
        assert machine.load().warnings == ()
        machine.write_user("[shell_environment_policy]\nexperimental_use_profile = true")
        (warning,) = machine.load().warnings
        assert warning.startswith(
            f"{machine.home}/config.toml:2:1: "
            "`shell_environment_policy.experimental_use_profile` has no effect"
        )


def test_names_need_not_be_utf8(machine: Machine) -> None:
    folder = Path(os.fsdecode(bytes(machine.root) + b"/caf\xe9"))
    (folder / ".codex").mkdir(parents=True)
    (folder / ".codex" / "config.toml").write_text("not TOML")
    config = machine.load(folder)
    assert config.layers[0].name == f"{folder}/.codex/config.toml"
    override = f'projects."{folder}".trust_level=untrusted'
    assert "untrusted" in str(machine.load(folder, [override]).layers[0].unread)
