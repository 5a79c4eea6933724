"""What a command, or a call, would make the server take for granted."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.attacks.attack import Sandbox
from tests.attacks.conftest import MODES, Serve
from tests.attacks.target import Served
from tests.end_to_end.client import RpcError, ToolError
from tests.end_to_end.rig import DIST

over_modes = pytest.mark.parametrize("mode", MODES)
_NOBODY = 65534
EVIL = '#!/bin/sh\necho written >"$OUT/file"\n'


@over_modes
def test_the_working_directory_of_a_call_is_no_writable_root(mode: str, serve: Serve) -> None:
    server = serve(mode)
    server.enforce(Sandbox.WORKSPACE)
    out = server.root / "out"
    result = server.client.shell("echo written >file", workdir=str(out))
    assert "Permission denied" in result.output
    (server.root / "ws/link").symlink_to(out)
    result = server.client.shell("echo written >file", workdir=str(server.root / "ws/link"))
    assert "Permission denied" in result.output
    assert list(out.iterdir()) == []


@over_modes
def test_rules_in_the_workspace_are_none(mode: str, serve: Serve) -> None:
    server = serve(mode)
    server.enforce(Sandbox.WORKSPACE)
    ws, out = server.root / "ws", server.root / "out"
    script = (
        "mkdir -p .codex/rules rules;"
        " echo 'prefix_rule(pattern=[\"touch\"])' >.codex/rules/a.rules;"
        f" cp .codex/rules/a.rules rules; CODEX_HOME=$PWD/.codex touch {out}/file"
    )
    assert "Permission denied" in server.client.shell(script, workdir=str(ws)).output
    assert "Permission denied" in server.client.shell(f"touch {out}/file", workdir=str(ws)).output
    assert list(out.iterdir()) == []


@over_modes
def test_a_writable_root_that_became_a_link_is_none(mode: str, serve: Serve) -> None:
    server = serve(mode)
    ws, out = server.root / "ws", server.root / "out"
    (ws / "inner").mkdir()
    policy = {
        "type": "workspace-write",
        "writable_roots": [str(ws / "inner")],
        "exclude_slash_tmp": True,
        "exclude_tmpdir_env_var": True,
    }
    state = {"sandboxPolicy": policy, "sandboxCwd": str(ws)}
    assert server.client.request("codex/sandbox-state/update", state) == {}
    server.client.shell(f"rmdir inner; ln -s {out} inner", workdir=str(ws))
    try:
        output = server.client.shell("echo written >inner/file", workdir=str(ws)).output
    except (RpcError, ToolError) as refusal:
        output = str(refusal)
    assert "Permission denied" in output or "leads out" in output
    assert list(out.iterdir()) == []


# How a folder of the workspace comes to be in the server's own PATH.
IN_PATH = {
    "its own": "$1/ws/.venv/bin:$PATH",
    "through a link": "$1/out/link:$PATH",
    "relative": ".venv/bin:$PATH",
    "as a working directory": ":$PATH",
    "last": "$1/home:$PATH:$1/ws/.venv/bin",
}


@over_modes
@pytest.mark.parametrize("path", IN_PATH.values(), ids=list(IN_PATH))
def test_the_server_runs_no_git_that_the_workspace_holds(
    mode: str, path: str, serve: Serve
) -> None:
    setting = f'ln -s "$1/ws/.venv/bin" "$1/out/link"; export PATH="{path}"; cd "$1/ws"; shift'
    server = serve(mode, mount=("sh", "-ec", f'{setting}; exec "$@"', "sh"))
    server.enforce(Sandbox.WORKSPACE)
    ws, out = server.root / "ws", server.root / "out"
    for folder in (ws, ws / ".venv/bin"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "git").write_text(f"#!/bin/sh\necho written >{out}/file\n")
        (folder / "git").chmod(0o755)
    result = server.client.shell(
        f"cd {ws}; /usr/bin/git --version; /usr/bin/git log", workdir=str(ws)
    )
    assert result.structured is not None
    assert "escalate" in [it["decision"] for it in result.structured["decisions"]], result
    assert not (out / "file").exists()


@over_modes
def test_what_was_once_writable_stays_untrusted(mode: str, serve: Serve) -> None:
    server = serve(mode)
    server.enforce(Sandbox.WORKSPACE)
    ws, out = server.root / "ws", server.root / "out"
    (ws / "ls").write_text(EVIL)
    (ws / "ls").chmod(0o755)
    server.client.shell(":", workdir=str(ws))
    server.enforce(Sandbox.READ_ONLY)
    result = server.client.shell(f"export OUT={out}; PATH=$PWD:$PATH; ls", workdir=str(ws))
    assert "Permission denied" in result.output
    assert result.structured is not None
    (told,) = result.structured["decisions"]
    assert (told["decision"], "stays in the sandbox" in told["reason"]) == ("run", True)
    assert list(out.iterdir()) == []


@over_modes
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_workspace_that_is_mounted_elsewhere_too(mode: str, serve: Serve) -> None:
    """Landlock lets a command write under either path; so neither may be trusted."""
    unshare = shutil.which("unshare")
    mounting = 'mkdir "$1/mounted"; mount --bind "$1/ws" "$1/mounted"; shift; exec "$@"'
    if unshare is None or subprocess.run([unshare, "-m", "true"], check=False).returncode:
        pytest.skip("no mount namespace is to be had")
    server = serve(mode, mount=(unshare, "-m", "sh", "-ec", mounting, "sh"))
    server.enforce(Sandbox.WORKSPACE)
    ws, out = server.root / "ws", server.root / "out"
    (ws / "ls").write_text(EVIL)
    (ws / "ls").chmod(0o755)
    for script in (
        "$R/mounted/ls",
        "PATH=$R/mounted:$PATH; ls",
        "ln -s $PYTHON deploy; $R/mounted/deploy -c pass",
    ):
        result = server.client.shell(f"export OUT={out} R={server.root}; {script}", workdir=str(ws))
        assert result.structured is not None
        told = [decision["decision"] for decision in result.structured["decisions"]]
        assert "escalate" not in told, (script, result)
    assert list(out.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another")
def test_a_base_name_does_not_take_a_users_own_program_outside(serve: Serve) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None or not _reachable(DIST):
        pytest.skip("no ordinary user can start the server here")
    switch = f"{setpriv} --reuid={_NOBODY} --regid={_NOBODY} --clear-groups"
    own = f'chmod 755 "${{1%/*}}"; chown -R {_NOBODY}:{_NOBODY} "$1"; shift; exec {switch} "$@"'
    server = serve("kernel", mount=("sh", "-ec", own, "sh"))
    server.enforce(Sandbox.WORKSPACE)
    path, ws = server.root / "bin/deploy", str(server.root / "ws")
    told = _decisions(server, "deploy; exec ls", ws)
    decision, reason = told[str(path)]
    assert decision == "run"
    assert f"it stays in the sandbox: your user can write {path}" in reason
    assert [told[each][0] for each in told if each.endswith("/ls")] == ["escalate"]

    rules = server.root / "home/.codex/rules/more.rules"
    rules.write_text(f'host_executable(name="deploy", paths=["{path}"])\n')
    os.chown(rules, _NOBODY, _NOBODY)
    server.client.close()
    server.restart()
    server.enforce(Sandbox.WORKSPACE)
    assert _decisions(server, "deploy", ws)[str(path)][0] == "escalate"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot write the programs of all")
def test_root_without_a_limit_on_files_could_have_written_every_program(serve: Serve) -> None:
    server = serve("kernel")
    state = {"sandboxPolicy": {"type": "external-sandbox"}, "sandboxCwd": "/"}
    assert server.client.request("codex/sandbox-state/update", state) == {}
    ((decision, reason),) = _decisions(server, "exec ls", "/").values()
    assert decision == "run"
    assert "lies where the sandbox can write" in reason


def _decisions(server: Served, script: str, workdir: str) -> dict[str, tuple[str, str]]:
    """Decision and reason by program."""
    told = server.client.shell(script, workdir=workdir).structured
    assert told is not None
    return {it["program"]: (it["decision"], it["reason"]) for it in told["decisions"]}


def _reachable(path: Path) -> bool:
    """Whether any user can look into the folder."""
    return all(each.stat().st_mode & 0o001 for each in (path, *path.resolve().parents))
