"""No command gets a sandbox in which it could change the server, its rules or its configuration."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.client import Client, Json, RpcError, ServerGoneError, ToolError
from tests.end_to_end.processes import CONFIG
from tests.end_to_end.rig import ACCEPT, DIST, KERNEL, ONLY_WORKSPACE, Box, server_command

Serve = Callable[..., Client]


@pytest.fixture
def serve(box: Box) -> Iterator[Serve]:
    """Start a server that accepts nothing."""
    with ExitStack() as stack:

        def start(*command: str, cwd: Path | None = None) -> Client:
            client = Client(
                command or plain(), env=box.environment(), cwd=cwd or box.ws,
                stderr=box.root / "stderr",
            )  # fmt: skip
            stack.callback(client.close)
            client.initialize()
            return client

        yield start


def plain(*options: str) -> list[str]:
    return [server_command(KERNEL)[0], *options]


def writing(*roots: Path) -> Json:
    return {**ONLY_WORKSPACE, "writable_roots": [str(root) for root in roots]}


@pytest.mark.parametrize(
    ("root", "what"),
    [
        (lambda box: box.home, "its configuration"),
        (lambda box: box.home / ".codex", "its configuration"),
        (lambda box: box.rules.parent, "its rules"),
        (lambda _: DIST, "the folder of codex-multitool"),
        (lambda _: DIST / "codex-multitool.lib", "the folder of codex-multitool"),
        (lambda box: box.out, "its rules"),
    ],
)
def test_such_a_state_is_an_error_and_its_calls_are_refused(
    root: Callable[[Box], Path], what: str, serve: Serve, box: Box
) -> None:
    (box.out / "team.rules").write_text("")
    client = serve(*plain("--rules", str(box.out / "team.rules")))
    assert client.request("codex/sandbox-state/update", box.state(ONLY_WORKSPACE)) == {}
    assert client.shell("echo x > file; cat file").output == "x\n"
    with pytest.raises(RpcError, match=what) as refused:
        client.request("codex/sandbox-state/update", box.state(writing(root(box))))
    assert refused.value.code == -32602
    with pytest.raises(ToolError, match=what):
        client.shell("echo y > file")
    assert (box.ws / "file").read_text() == "x\n"
    meta = {"codex/sandbox-state-meta": box.state(writing(root(box)))}
    arguments = {"command": "echo y > file", "workdir": str(box.ws)}
    with pytest.raises(ToolError, match=what):
        client.begin(
            "tools/call", {"name": "shell", "arguments": arguments, "_meta": meta}
        ).shell_result()
    assert client.request("codex/sandbox-state/update", box.state(ONLY_WORKSPACE)) == {}
    assert client.shell("echo z > file; cat file").output == "z\n"


def test_a_shell_that_commands_could_exchange_runs_none(serve: Serve, box: Box) -> None:
    shell = box.ws / "bash"
    shutil.copy("/bin/bash", shell)
    client = serve(*plain("--shell", str(shell)))
    with pytest.raises(RpcError, match="the shell it runs"):
        client.request("codex/sandbox-state/update", box.state(ONLY_WORKSPACE))
    client.request("codex/sandbox-state/update", box.state({"type": "read-only"}))
    assert client.shell("echo on").output == "on\n"


def test_with_a_configuration_that_asks_for_it_no_server_starts(serve: Serve, box: Box) -> None:
    config = box.home / ".codex" / "config.toml"
    root = f'sandbox_workspace_write.writable_roots = ["{box.home}"]\n'
    config.write_text(f'sandbox_mode = "workspace-write"\n{root}{CONFIG}')
    with pytest.raises(ServerGoneError, match="the configured sandbox: commands could write in"):
        serve()


def test_who_accepts_it_by_name_is_warned(serve: Serve, box: Box) -> None:
    client = serve(*plain(ACCEPT))
    state = box.state(writing(box.home / ".codex"))
    assert client.request("codex/sandbox-state/update", state) == {}
    assert client.shell(f"echo '# x' >> {box.rules}").exit_code == 0
    assert f"accepted: commands could write in {box.home / '.codex'}" in client.stderr()


def test_without_a_sandbox_nothing_is_promised(serve: Serve, box: Box) -> None:
    client = serve()
    state = box.state({"type": "danger-full-access"})
    assert client.request("codex/sandbox-state/update", state) == {}
    assert client.shell("echo on").output == "on\n"
