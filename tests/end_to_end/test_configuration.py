"""The server's settings come from config.toml where its command line says nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.end_to_end.client import Answer, Client, accept
from tests.end_to_end.processes import CONFIG
from tests.end_to_end.rig import ACCEPT, KERNEL, READ_ONLY, Box, server_command, shell_path

Serve = Callable[..., Client]


@pytest.fixture
def serve(box: Box) -> Iterator[Serve]:
    """Start a server with nothing but configuration and, perhaps, options; no state is sent."""
    with ExitStack() as stack:

        def start(text: str, *options: str, answer: Answer | None = accept) -> Client:
            configure(box, text)
            client = Client(
                [server_command(KERNEL)[0], ACCEPT, *options],
                env=box.environment(),
                cwd=box.ws,
                stderr=box.root / "stderr",
                answer=answer,
            )
            stack.callback(client.close)
            client.initialize()
            return client

        yield start


def configure(box: Box, text: str) -> None:
    """Write the user's file."""
    (box.home / ".codex" / "config.toml").write_text(f"{text}\n{CONFIG}")


def refusal(box: Box, text: str) -> str:
    """What the server says when it does not start with this user's file."""
    (box.home / ".codex" / "config.toml").write_text(text)
    done = subprocess.run(
        [server_command(KERNEL)[0], ACCEPT],
        env=box.environment(), cwd=box.ws, input=b"", capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, b"")
    told = done.stderr.decode()
    assert "Traceback" not in told
    return told.removeprefix("codex-exec-mcp-server: ").strip()


def test_a_mistake_keeps_the_server_from_starting(box: Box) -> None:
    path = box.home / ".codex" / "config.toml"
    assert refusal(box, 'sandbox_mode = "none"') == (
        f"{path}:1:16: `sandbox_mode`: unknown value 'none'\n"
        '  write one of "read-only", "workspace-write", "danger-full-access"'
    )
    assert refusal(box, "[codex_multitool]\nshell = '/no/such/shell'") == (
        f"{path}:2:1: `codex_multitool.shell`: /no/such/shell: no such file\n"
        "  name the path of a shell"
    )
    assert f"{box.home}/.codex/none.rules" in refusal(box, "codex_multitool.rules = ['none.rules']")


def test_without_a_mode_nothing_is_writable(serve: Serve, box: Box) -> None:
    client = serve("")
    assert client.shell("echo > here").exit_code != 0
    assert not (box.ws / "here").exists()


def test_the_mode_holds_until_the_client_sends_a_state(serve: Serve, box: Box) -> None:
    (box.out / "open").mkdir()
    client = serve(
        f"""
        sandbox_mode = "workspace-write"
        sandbox_workspace_write.writable_roots = ["{box.out}/open"]
        sandbox_workspace_write.exclude_slash_tmp = true
        """
    )
    script = f"""
        for place in . {box.out}/open {box.out} {box.home}; do echo > $place/made; done 2>/dev/null
        """
    # The workspace is the server's folder, whatever folder the call names.
    client.shell(script.replace(" . ", f" {box.ws} "), workdir=str(box.home))
    made = {path.parent for path in box.root.rglob("made")}
    assert made == {box.ws, box.out / "open"}
    assert client.request("codex/sandbox-state/update", box.state(READ_ONLY)) == {}
    assert client.shell("echo > made").exit_code != 0


def test_full_access_is_full_access(serve: Serve, box: Box) -> None:
    client = serve('sandbox_mode = "danger-full-access"')
    assert client.shell(f"echo > {box.out}/made").exit_code == 0


def test_a_folder_that_holds_the_configuration_is_no_workspace(box: Box) -> None:
    tmp = "sandbox_workspace_write.exclude_slash_tmp = true"
    configure(box, f'sandbox_mode = "workspace-write"\n{tmp}')
    with Client(
        [server_command(KERNEL)[0], ACCEPT],
        env=box.environment(),
        cwd=box.home,
        stderr=box.root / "stderr",
    ) as client:
        client.initialize()
        result = client.shell("echo > .codex/rules/more.rules")
    assert result.exit_code != 0
    assert not (box.home / ".codex/rules/more.rules").exists()


def test_rules_files_are_added(serve: Serve, box: Box) -> None:
    box.rules.write_text('prefix_rule(["uname"], "forbidden")')
    (box.home / ".codex" / "more").write_text('prefix_rule(["id"], "forbidden")')
    (box.home / "yet-more").write_text('prefix_rule(["date"], "forbidden")')
    client = serve("codex_multitool.rules = ['more']", "--rules", str(box.home / "yet-more"))
    result = client.shell("uname; id; date; hostname")
    assert result.output.count("Execution denied") == 3


def test_the_shell_is_the_configured_one_unless_the_command_line_names_another(
    serve: Serve, box: Box
) -> None:
    shell = box.home / "shell"
    shell.symlink_to("/bin/sh")
    text = f"codex_multitool.shell = '{shell}'"
    assert serve(text).shell("echo $0").output == f"{shell}\n"
    assert serve(text, "--shell", "/bin/bash").shell("echo $0").output == "/bin/bash\n"


def test_interception_is_the_configured_one(serve: Serve) -> None:
    patched = shell_path("bash")
    text = f"codex_multitool = {{intercept = 'wrapper', shell = '{patched}'}}"
    assert "wrapper" in serve(text).shell("echo $EXEC_WRAPPER").output
    assert serve(text, "--intercept", "kernel").shell("echo $EXEC_WRAPPER").output == "\n"


DANGEROUS = "rm -rf never-there"


def test_dangerous_commands_run_if_the_user_says_so(serve: Serve) -> None:
    asked = serve("")
    assert asked.shell(DANGEROUS).exit_code == 0
    assert len(asked.questions) == 1
    text = "codex_multitool.dangerous_commands = 'run'"
    unasked = serve(text)
    assert unasked.shell(DANGEROUS).exit_code == 0
    assert unasked.questions == []
    again = serve(text, "--dangerous-commands", "ask")
    again.shell(DANGEROUS)
    assert len(again.questions) == 1


def test_a_question_waits_as_long_as_configured(serve: Serve) -> None:
    client = serve("codex_multitool.approval_timeout = 0.1", answer=lambda _: None)
    result = client.shell(DANGEROUS)
    assert "Execution denied" in result.output


def test_what_has_no_effect_is_told_on_stderr(serve: Serve, box: Box) -> None:
    path = box.ws / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("sandbox_mode = 'read-only'")
    rules = box.rules.with_name("more.rules")
    rules.write_text('network_rule("example.org", "https", "deny")\nprefix_rule(["git push"])\n')
    box.rules.with_name("other.rule").touch()
    client = serve("[projcts]")
    client.close()
    told = client.stderr()
    assert f"WARNING: {path} is not read. " in told
    for line in (
        f"{box.home}/.codex/config.toml:1:2: `projcts` has no effect; did you mean `projects`?",
        f"{rules}:1:1: network_rule has no effect here: ",
        f'{rules}:2:1: "git push" is one word',
        f"{box.rules.with_name('other.rule')} is not read: ",
    ):
        assert told.count(f"WARNING: {line}") == 1
