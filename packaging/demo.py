"""Show the main job on real input: be an MCP client, and check everything that is told.

Starts the built server with rules of its own in a temporary CODEX_HOME, calls its `shell` tool
under several sandbox policies, and answers its questions. Exits 1 if anything is not as told.
"""

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0  # seconds for any one answer, on a slow machine

RULES = """\
prefix_rule(pattern=["mkdir"], decision="allow")
prefix_rule(pattern=["git", "init"], decision="prompt", justification="makes a repository")
prefix_rule(pattern=["ln"], decision="forbidden", justification="no links in this demonstration")
"""
READ_ONLY = {"type": "read-only"}
WORKSPACE_WRITE = {
    "type": "workspace-write",
    "exclude_slash_tmp": True,  # the demonstration itself lies there
    "exclude_tmpdir_env_var": True,
}

Message = dict[str, Any]


class DemoError(Exception):
    """The server did not do what this demonstration tells of it."""


class Client:
    """As much of an MCP client as one session needs: newline-delimited JSON-RPC over pipes."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self._server = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._received = b""
        self._last_id = 0
        self.answer = "decline"
        self.questions: list[str] = []

    def request(self, method: str, params: Message) -> Message:
        """The result of `method`, answering what the server asks in between."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self._receive(deadline)
            if message.get("method") == "elicitation/create":
                self.questions.append(message["params"]["message"])
                result: Message = {"action": self.answer}
                if self.answer == "accept":
                    result["content"] = {}
                self._send({"id": message["id"], "result": result})
            elif "method" in message:
                continue  # a notification, such as a log message
            elif message.get("id") == self._last_id:
                if "error" in message:
                    raise DemoError(f"{method}: {message['error']}")
                return dict(message["result"])

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._send({"method": method})

    def close(self) -> int:
        """End the session as a client does, by closing the server's input."""
        stdin, stdout = self._pipes()
        stdin.close()
        status = self._server.wait(PATIENCE)
        stdout.close()
        return status

    def _pipes(self) -> tuple[Any, Any]:
        return self._server.stdin, self._server.stdout

    def _send(self, message: Message) -> None:
        stdin, _ = self._pipes()
        stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        stdin.flush()

    def _receive(self, deadline: float) -> Message:
        _, stdout = self._pipes()
        while b"\n" not in self._received:
            ready, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise DemoError(f"no answer from the server within {PATIENCE:.0f} s")
            chunk = os.read(stdout.fileno(), 65536)
            if not chunk:
                status = self._server.wait(PATIENCE)
                raise DemoError(f"the server ended with status {status}; its words are above")
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return dict(json.loads(line))


def told(call: Message) -> Message:
    """What a call came to: the half for programs, or the text if it is JSON."""
    words = "\n".join(item["text"] for item in call["content"] if item["type"] == "text")
    if call.get("isError"):
        raise DemoError(f"the server runs no command: {words}")
    return dict(call.get("structuredContent") or json.loads(words))


class Show:
    """Runs commands, prints what happened, and fails where it is not what was told."""

    def __init__(self, client: Client, workspace: Path) -> None:
        self._client = client
        self._workspace = workspace

    def policy(self, policy: Message, title: str) -> None:
        """Put `policy` in force for the following commands."""
        state = {"sandboxPolicy": policy, "sandboxCwd": str(self._workspace)}
        self._client.request("codex/sandbox-state/update", state)
        print(f"\n== {title}")

    def run(self, command: str, title: str, answer: str = "decline") -> Message:
        """Run `command`; `answer` is what the human says, should the server ask."""
        print(f"\n{title}\n  $ {command}")
        asked = len(self._client.questions)
        self._client.answer = answer
        arguments = {"command": command, "workdir": str(self._workspace), "login": False}
        params = {"name": "shell", "arguments": arguments}
        result = told(self._client.request("tools/call", params))
        result["questions"] = self._client.questions[asked:]
        for question in result["questions"]:
            print(f"  server asks:  {question}\n  human:        {answer}")
        for line in result["output"].splitlines():
            print(f"  | {line}")
        print(f"  exit code {result['exit_code']}")
        return result

    def check(self, holds: bool, claim: str) -> None:
        """Print a claim that was verified."""
        if not holds:
            raise DemoError(f"not true: {claim}")
        print(f"  checked: {claim}")


def sandboxed(show: Show, workspace: Path, outside: Path) -> None:
    """No rule matches: the kernel alone decides."""
    show.policy(READ_ONLY, "Sandbox: read-only")
    note = workspace / "note"
    result = show.run(
        f"cat {outside}/kept && echo hello > note", "Reading is free, writing is not."
    )
    show.check("precious" in result["output"], "the file outside could be read")
    show.check(result["exit_code"] != 0 and not note.exists(), "nothing was written")

    show.policy(WORKSPACE_WRITE, "Sandbox: workspace-write")
    result = show.run(f"echo hello > note; echo gone > {outside}/kept", "In the workspace only.")
    show.check(note.read_text() == "hello\n", "the file in the workspace was written")
    show.check((outside / "kept").read_text() == "precious\n", "the file outside is as it was")
    show.check(result["exit_code"] != 0, "and the command was told so")


def judged(show: Show, workspace: Path) -> None:
    """A rule matches: it decides, and what it allows runs outside the sandbox."""
    show.policy(READ_ONLY, "Sandbox: read-only again, and rules that say more")
    result = show.run("mkdir by-rule", "Allowed by a rule: runs outside the sandbox, unasked.")
    show.check(
        result["exit_code"] == 0 and not result["questions"], "it succeeded, nobody was asked"
    )
    show.check((workspace / "by-rule").is_dir(), "the folder is there")

    result = show.run("git init --quiet a", "A rule says prompt: a human is asked.", "accept")
    show.check(len(result["questions"]) == 1, "the server asked once")
    show.check(
        result["exit_code"] == 0 and (workspace / "a/.git").is_dir(), "the repository exists"
    )

    result = show.run("git init --quiet b", "The same, declined.", "decline")
    show.check(len(result["questions"]) == 1, "the server asked once")
    show.check(result["exit_code"] == 1, "the command failed with status 1")
    show.check("Execution denied" in result["output"], "and says why")
    show.check(not (workspace / "b").exists(), "there is no repository")

    result = show.run("ln -s note link; echo and goes on", "Forbidden by a rule: refused, unasked.")
    show.check("Execution denied" in result["output"], "the command was denied")
    show.check(not result["questions"], "nobody was asked")
    show.check("and goes on" in result["output"], "the shell went on")
    show.check(not os.path.lexists(workspace / "link"), "there is no link")


def session(options: argparse.Namespace, folder: Path) -> None:
    """One session with the server, from initialize to the end of its input."""
    workspace, outside, home = (folder / name for name in ("workspace", "outside", "codex-home"))
    for each in (workspace, outside, home / "rules"):
        each.mkdir(parents=True)
    (outside / "kept").write_text("precious\n")
    (home / "rules" / "demo.rules").write_text(RULES)
    print(f"The server is {options.server}\nIts rules:\n")
    print("\n".join(f"  {line}" for line in RULES.splitlines()))

    environ = {**os.environ, "CODEX_HOME": str(home)}
    client = Client([str(options.server), *options.arguments], environ)
    hello = client.request(
        "initialize",
        {
            "protocolVersion": "2025-06-18",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "demo", "version": "1"},
        },
    )
    if "codex/sandbox-state" not in hello["capabilities"].get("experimental", {}):
        raise DemoError("the server does not offer codex/sandbox-state")
    client.notify("notifications/initialized")
    show = Show(client, workspace)
    sandboxed(show, workspace, outside)
    judged(show, workspace)
    status = client.close()
    print("\n== End of input")
    show.check(status == 0, "the server ended with status 0")


def main() -> int:
    """Run the demonstration; returns the exit status."""
    parser = argparse.ArgumentParser(description="Show a session with the server, and check it.")
    parser.add_argument("--server", type=Path, default=ROOT / "dist" / "codex-exec-mcp-server")
    parser.add_argument("arguments", nargs="*", help="for the server, behind --")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is a text file
    with tempfile.TemporaryDirectory(prefix="codex-demo-") as folder:
        try:
            session(options, Path(folder).resolve())
        except (DemoError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    print("\nAll of it was as told.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
