"""`doctor`: what it finds is what is so; its exit status is its verdict."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_multitool import __version__, roles
from tests.cli.terminal import INTERRUPT, Terminal
from tests.end_to_end.processes import MARK, marked, wait_until
from tests.executables import ROOT, built

STATES = {"ok", "weaker", "missing"}


@pytest.fixture
def home() -> Iterator[Path]:
    # Not in /tmp or $TMPDIR, where sandboxes write.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        made = Path(folder).resolve()
        (made / ".codex" / "rules").mkdir(parents=True)
        yield made


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The executable where no sandbox writes: not in /tmp or $TMPDIR."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(shutil.copytree(built(), Path(folder) / "dist", symlinks=True))


def run(
    home: Path,
    *words: str | Path,
    before: Sequence[str | Path] = (),
    folder: Path | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, (folder or built()) / roles.CLI, "doctor", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        cwd=cwd or home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The findings by name, of `doctor --json`."""
    told = json.loads(done.stdout)
    assert told["full_protection"] == all(it["state"] == "ok" for it in told["findings"])
    assert done.returncode == (0 if told["full_protection"] else 1)
    found = {it["name"]: it for it in told["findings"]}
    assert len(found) == len(told["findings"])
    return found


def test_every_part_is_looked_at(home: Path) -> None:
    found = findings(run(home, "--json"))
    assert {it["state"] for it in found.values()} <= STATES
    for name in (
        *("kernel", "architecture", "landlock", "landlock errata", "yama", "surroundings"),
        *("user namespace", "mount namespace", "kernel interception", "shell", "patched shell"),
        *("python", "package trio", "libseccomp", "CODEX_HOME", "rules", "executable"),
    ):
        assert name in found
    assert found["kernel"]["found"].endswith(os.uname().release)
    assert found["codex-exec-mcp-server"]["found"] == __version__
    for finding in found.values():
        assert finding["found"]
        assert finding["state"] == "ok" or finding["mend"]


def test_people_get_a_line_for_each_and_the_verdict(home: Path) -> None:
    found = findings(run(home, "--json"))
    done = run(home)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [it["state"] for it in found.values()]
    assert all(name in line for name, line in zip(found, lines, strict=False))
    assert ("full protection holds" in lines[-1]) == (done.returncode == 0)
    assert "\x1b" not in done.stdout


def test_status_is_0_where_all_is_well(home: Path, installed: Path) -> None:
    done = run(home, "--json", folder=installed)
    poor = [it for it in findings(done).values() if it["state"] != "ok"]
    if poor:
        pytest.skip(f"not all is well on this machine: {poor}")
    assert done.returncode == 0


def test_a_temporary_place_is_weaker(home: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        folder = Path(shutil.copytree(built(), Path(temporary) / "dist", symlinks=True))
        found = findings(run(home, "--json", folder=folder))
    assert found["executable"]["state"] == "weaker"
    assert "temporary" in found["executable"]["found"]


def test_an_executable_anybody_can_write_is_weaker(home: Path, installed: Path) -> None:
    assert findings(run(home, "--json", folder=installed))["executable"]["state"] == "ok"
    mode = installed.stat().st_mode
    installed.chmod(0o777)
    try:
        found = findings(run(home, "--json", folder=installed))
    finally:
        installed.chmod(mode)
    assert found["executable"]["state"] == "weaker"
    assert found["executable"]["found"] == f"{installed} is writable for everybody"


def test_rules_that_do_not_parse_are_missing_with_their_place(home: Path) -> None:
    rules = home / ".codex" / "rules" / "a.rules"
    rules.write_text('prefix_rule(["git"], "prompt")\n')
    assert findings(run(home, "--json"))["rules"]["found"] == "1 in 1 files"
    rules.write_text("\nprefix_rule([])")
    found = findings(run(home, "--json"))["rules"]
    assert found["state"] == "missing"
    assert f"{rules}:2:1" in found["found"]


# Puts itself under a filter that allows everything but has a listener, then becomes the command.
LISTENED = """\
import os, struct, sys
sys.path.insert(0, sys.argv[1])
import prctl
from codex_multitool.interception.architecture import architecture
from codex_multitool.interception.listener import install
prctl.set_no_new_privs(1)
fd, _ = install(architecture(os.uname().machine), struct.pack("=HBBI", 6, 0, 0, 0x7fff0000))
os.set_inheritable(fd, True)
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_a_second_listener_in_the_tree_is_told(home: Path) -> None:
    if findings(run(home, "--json"))["seccomp listener"]["state"] != "ok":
        pytest.skip("another program listens to this process tree")
    done = run(home, "--json", before=[sys.executable, "-c", LISTENED, ROOT])
    found = findings(done)
    assert found["seccomp listener"]["state"] == "missing"
    assert "EBUSY" in found["seccomp listener"]["found"]
    assert found["kernel interception"]["state"] == "missing"
    assert "another program listens" in found["kernel interception"]["found"]


def test_inside_a_sandbox_it_answers_all_the_same(home: Path) -> None:
    policy = ["--sandbox-policy-cwd", "/", "--sandbox-policy", '{"type":"read-only"}', "--"]
    done = run(home, "--json", before=[built() / roles.LINUX_SANDBOX, *policy])
    found = findings(done)
    assert found["sandbox"]["state"] == "missing"
    assert "nothing to try it on" in found["sandbox"]["found"]
    assert found["sandbox"]["follows"] == "what holds is not known"
    assert done.returncode == 1


def states(found: dict[str, Any]) -> dict[str, str]:
    return {name: finding["state"] for name, finding in found.items()}


def test_layers_of_the_configuration_and_what_is_not_the_default(home: Path) -> None:
    found = findings(run(home, "--json"))
    assert found["config.toml"]["found"] == "none: the defaults hold"
    assert not [name for name in found if name.startswith("setting")]
    file = home / ".codex" / "config.toml"
    file.write_text(
        'model = "x"\nsandbox_mode = "danger-full-access"\n'
        '[shell_environment_policy]\ninherit = "core"\nset = { A_TOKEN = "hush" }\n'
        "[codex_multitool]\napproval_timeout = 5\n"
    )
    (home / "project" / ".git").mkdir(parents=True)
    (home / "project" / ".codex").mkdir()
    (home / "project" / ".codex" / "config.toml").write_text("")
    done = run(home, "--json", cwd=home / "project")
    found = findings(done)
    assert found["config.toml"]["found"] == str(file)
    assert "is not read" in found["config.toml, note 1"]["found"]
    assert found["setting codex_multitool.approval_timeout"]["found"] == f"5.0 ({file}:7:1)"
    assert found["setting sandbox_mode"]["state"] == "weaker"
    assert found["setting sandbox_mode"]["follows"] == "commands run without a sandbox"
    assert "setting shell_environment_policy.inherit" not in found
    assert found["setting shell_environment_policy.set.A_TOKEN"]["found"].startswith("set (")
    assert "hush" not in done.stdout
    assert found["workspace"]["found"] == str(home / "project")


def test_mistakes_in_the_users_files_are_located_each(home: Path) -> None:
    (home / ".codex" / "config.toml").write_text("\nsandbox_mode = 1\n")
    for name, text in (("a", "prefix_rule([)"), ("b", "\n\nprefix_rule(['x'], 'never')")):
        (home / ".codex" / "rules" / f"{name}.rules").write_text(text)
    found = findings(run(home, "--json"))
    assert found["config.toml"]["state"] == "missing"
    assert f"{home}/.codex/config.toml:2:16: `sandbox_mode`" in found["config.toml"]["found"]
    assert f"{home}/.codex/rules/a.rules:1:14: " in found["rules"]["found"]
    assert f"{home}/.codex/rules/b.rules:3:1: " in found["rules, mistake 2"]["found"]


def test_what_sandboxed_commands_or_others_can_write_is_weaker(home: Path, installed: Path) -> None:
    well = states(findings(run(home, "--json", folder=installed)))
    assert (well["CODEX_HOME"], well["rules"], well["executable"]) == ("ok", "ok", "ok")
    rules = home / ".codex" / "rules" / "a.rules"
    rules.write_text('prefix_rule(["git"], "prompt")\n')
    rules.chmod(0o666)
    (home / ".codex" / "config.toml").write_text(
        f'[sandbox_workspace_write]\nwritable_roots = ["{home}"]\n'
    )
    found = findings(run(home, "--json", folder=installed, cwd=installed.parent))
    assert found["CODEX_HOME"]["found"] == f"{home}/.codex lies in {home}"
    assert found["rules"]["found"] == f"1 in 1 files; {rules} is writable for everybody"
    assert found["executable"]["found"].endswith(f"lies in {installed.parent}")
    for name in ("CODEX_HOME", "rules", "executable"):
        assert found[name]["state"] == "weaker"
        assert " can " in found[name]["follows"]
    # Neither a home nor everything is a workspace by itself.
    assert "is in it" in findings(run(home, "--json"))["workspace"]["found"]


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_states_are_coloured_on_terminals(home: Path, no_color: str, coloured: bool) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm"}
    command: list[str | Path] = [built() / roles.CLI, "doctor"]
    with Terminal(command, {**environment, "NO_COLOR": no_color}, home) as terminal:
        assert terminal.status() in (0, 1)
        assert ("\x1b[32mok      \x1b[0m" in terminal.seen) == coloured
        assert ("\x1b" in terminal.seen) == coloured


def test_interrupted_it_ends_at_once_and_leaves_nothing(home: Path) -> None:
    mark = str(uuid.uuid4())
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), MARK: mark}
    with Terminal([built() / roles.CLI, "doctor"], environment, home) as terminal:
        wait_until(lambda: len(marked(mark)) > 1, "it has started its helpers")
        terminal.type(INTERRUPT)
        assert terminal.status() == -signal.SIGINT
        assert "Traceback" not in terminal.seen
    wait_until(lambda: marked(mark) == [], "no process is left")
