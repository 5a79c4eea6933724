"""`execpolicy explain` and `execpolicy test`, as the built executable runs them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_multitool import roles
from tests.cli.exec_ground import Ground
from tests.executables import built


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "policy.rules"
    path.write_text(
        'prefix_rule(["git", "push"], "forbidden", justification="no pushes")\n'
        'prefix_rule(["git"], "prompt")\n'
        'prefix_rule(["tool"], "allow")\n'
        'prefix_rule(["env"], "allow")\n'
        'host_executable(name="env", paths=["/opt/bin/env"])\n'
        f'host_executable(name="tool", paths=["{tmp_path}/bin/tool"])\n'
    )
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of programs, first in PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "tool"):
        (programs / name).write_text("#!/bin/sh -e\n")
        (programs / name).chmod(0o755)
    return programs


def execpolicy(
    folder: Path, *words: str | Path, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [built() / roles.CLI, "execpolicy", *words],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def explained(folder: Path, *words: str | Path) -> Any:
    done = execpolicy(folder, "explain", "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestExplain:
    def test_rules_are_those_the_server_would_read(self, rules: Path, folder: Path) -> None:
        (command,) = explained(folder, "--", "tool")
        assert command["decision"] == "run"
        (folder / ".codex").mkdir()
        (folder / ".codex" / "config.toml").write_text(f'[codex_multitool]\nrules = ["{rules}"]\n')
        (command,) = explained(folder, "--", "tool")
        assert f"{rules}:3" in json.dumps(command)
        (folder / ".codex" / "config.toml").write_text("a = \n")
        done = execpolicy(folder, "explain", "--", "tool")
        assert (done.returncode, done.stdout) == (1, "")
        assert ".codex/config.toml:1:5: not TOML" in done.stderr

    def test_every_rule_for_the_name_is_shown_and_the_strictest_decides(
        self, rules: Path, folder: Path
    ) -> None:
        (told,) = explained(folder, "-r", rules, "--", "git", "pull", "--force")
        assert told["programs"] == [f"{folder}/git"]
        assert ["/bin/sh", "-e", f"{folder}/git", "pull", "--force"] in told["interpreters"]
        push, git = told["rules"]
        assert (push["counts"], push["because"]) == (False, "other words follow")
        assert git["location"].startswith(f"{rules}:2:")
        assert git["counts"]
        assert told["decision"] == "ask"
        assert f"{rules}:2" in told["reason"]

    def test_people_are_told_the_same(self, rules: Path, folder: Path) -> None:
        done = execpolicy(folder, "explain", "-r", rules, "git", "push", "-f")
        assert f"  program   {folder}/git\n" in done.stdout
        assert f"  rule      {rules}:1:1: git push: forbidden\n" in done.stdout
        assert f"  rule      {rules}:2:1: git: prompt\n" in done.stdout
        assert "  decision  deny: Execution forbidden by policy: no pushes" in done.stdout

    def test_trust_hangs_on_what_the_sandbox_writes(self, rules: Path, folder: Path) -> None:
        (trusted,) = explained(folder, "-r", rules, "tool")
        assert (trusted["decision"], trusted["untrusted"]) == ("escalate", None)
        (told,) = explained(folder, "-r", rules, "--sandbox", "workspace-write", "tool")
        assert told["decision"] == "run"
        assert told["untrusted"] == f"{folder}/tool lies where the sandbox can write"

    def test_a_host_executable_that_is_another_file(self, rules: Path, folder: Path) -> None:
        (told,) = explained(folder, "-r", rules, "env")
        assert told["rules"][0]["because"] == "host_executable lists other paths for env"
        assert told["decision"] == "run"

    def test_a_script_is_its_commands(self, rules: Path, folder: Path) -> None:
        first, second, third = explained(folder, "-r", rules, "cd x && git push | tool 'a b'")
        assert (first["command"], first["decision"]) == (["cd", "x"], "none")
        assert second["decision"] == "deny"
        assert (third["command"], third["decision"]) == (["tool", "a b"], "escalate")

    def test_the_users_rules_are_the_default(self, folder: Path) -> None:
        (folder / ".codex" / "rules").mkdir(parents=True)
        (folder / ".codex" / "rules" / "my.rules").write_text('prefix_rule(["tool"], "prompt")')
        assert explained(folder, "tool")[0]["decision"] == "ask"

    def test_a_dangerous_command_is_asked_about(self, rules: Path, folder: Path) -> None:
        (told,) = explained(folder, "-r", rules, "--", "rm", "-rf", "x")
        assert told["decision"] == "ask"
        assert "if accepted, it runs in the sandbox" in told["reason"]

    def test_broken_rules_are_located(self, rules: Path, folder: Path) -> None:
        rules.write_text("\nprefix_rule([])")
        done = execpolicy(folder, "explain", "-r", rules, "ls")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{rules}:2:1: " in done.stderr


class TestExpectations:
    def run(self, rules: Path, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
        (folder / "expected").write_text(text)
        return execpolicy(folder, "test", "--rules", rules, "expected")

    def test_expectations_that_hold(self, rules: Path, folder: Path) -> None:
        text = "# mine\n\nforbidden git push 'a b'\nprompt /usr/bin/git\nnone ls # no rule\n"
        done = self.run(rules, folder, text)
        assert (done.stdout, done.stderr) == ("3 of 3 expectations hold\n", "")
        assert done.returncode == 0

    def test_one_that_does_not_is_located_with_its_rules(self, rules: Path, folder: Path) -> None:
        done = self.run(rules, folder, "allow tool\nallow git push 'a b'\nallow ls\n")
        assert done.returncode == 1
        assert done.stdout == (
            f"expected:2: git push 'a b': expected allow, is forbidden by {rules}:1:1\n"
            "expected:3: ls: expected allow, is none\n"
            "1 of 3 expectations hold\n"
        )

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("allow", ":1: "),
            ("\nperhaps ls", ":2: "),
            ("allow 'x", ":1: "),
            ("# none", ": no line"),
        ],
    )
    def test_a_file_that_states_nothing_is_an_error(
        self, rules: Path, folder: Path, text: str, where: str
    ) -> None:
        done = self.run(rules, folder, text)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"expected{where}" in done.stderr

    def test_a_missing_file_is_an_error(self, rules: Path, folder: Path) -> None:
        done = execpolicy(folder, "test", "--rules", rules, "missing")
        assert (done.returncode, done.stdout) == (1, "")
        assert "missing: No such file" in done.stderr

    def test_it_goes_by_what_the_server_does(self, rules: Path, folder: Path) -> None:
        text = """
            forbidden git -C dir push
            deny      env git push
            forbidden 'ls; git push'
            prompt    rm -rf x
            none      env            # a rule allows it, but host_executable lists another
            run       ls
            forbidden /elsewhere/git --no-pager push
        """
        done = execpolicy(folder, "test", "--rules", rules, "-", typed=text)
        assert (done.stdout, done.returncode) == ("7 of 7 expectations hold\n", 0)
        done = execpolicy(folder, "test", "-r", rules, "-", typed="allow rm -rf x\nallow tool\n")
        assert done.stdout == (
            "stdin:1: rm -rf x: expected allow, is prompt: rm deletes whole directories; "
            "if accepted, it runs in the sandbox\n1 of 2 expectations hold\n"
        )

    def test_what_the_sandbox_can_write_is_not_allowed(self, rules: Path, folder: Path) -> None:
        words = ("test", "--rules", rules, "--sandbox", "workspace-write", "-")
        assert execpolicy(folder, *words, typed="none tool").returncode == 0
        done = execpolicy(folder, *words, typed="allow tool")
        assert "is none: rule `tool`" in done.stdout
        assert "lies where the sandbox can write" in done.stdout


def test_check_says_in_a_member_of_its_own_where_the_server_goes_further(
    rules: Path, folder: Path
) -> None:
    done = execpolicy(folder, "check", "-r", rules, "git", "-C", "dir", "push")
    found = json.loads(done.stdout)
    assert list(found) == ["matchedRules", "decision", "codex_multitool"]
    assert found["decision"] == "prompt"
    assert found["codex_multitool"]["decision"] == "forbidden"
    assert "Execution forbidden by policy: no pushes" in found["codex_multitool"]["because"]
    done = execpolicy(folder, "check", "-r", rules, "git", "push")
    assert list(json.loads(done.stdout)) == ["matchedRules", "decision"]


def test_check_goes_by_the_users_rules(folder: Path) -> None:
    (folder / ".codex" / "rules").mkdir(parents=True)
    (folder / ".codex" / "rules" / "my.rules").write_text('prefix_rule(["tool"], "forbidden")')
    assert json.loads(execpolicy(folder, "check", "tool").stdout)["decision"] == "forbidden"


COMMANDS = (
    "git status", "git -C . push", "git push", "env git push", "sh -c 'git push'", "touch x",
    "env touch x", "timeout 9 git -C . push", "/usr/bin/git --no-pager push", "tac /dev/null",
    "env A=b ls /", "rm -rf x",
)  # fmt: skip


def test_exec_decides_as_it_is_explained(ground: Ground) -> None:
    ground.rules(
        'prefix_rule(["git", "push"], "forbidden")\nprefix_rule(["tac"])\n'
        'prefix_rule(["touch"], "prompt")\n'
    )
    script = "; ".join(COMMANDS)
    told = subprocess.run(
        [built() / roles.CLI, "execpolicy", "explain", "--json", script],
        cwd=ground.workspace,
        env=ground.environment(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    explained = [it["decision"] for it in json.loads(told.stdout)]
    done = ground.run("--json", script)
    decided = [it["decision"] for it in json.loads(done.stdout.splitlines()[-1])["decisions"]]
    # Nobody is here to be asked, and what runs inside without a word is not listed.
    assert [it.replace("ask", "deny") for it in explained if it != "run"] == decided
    assert len(decided) == len(COMMANDS) - 2
