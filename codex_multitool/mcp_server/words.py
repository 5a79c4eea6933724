"""What a model is told of this shell: what it may, who judges, what a refusal means — pure."""

from collections.abc import Callable
from typing import NamedTuple

from codex_multitool.mcp_server.messages import printable
from codex_multitool.mcp_server.shell_tool import DEFAULT_TIMEOUT_MS
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.sandbox.policy import DANGER_FULL_ACCESS, EXTERNAL_SANDBOX

_PURPOSE = "This server provides a tool to execute shell commands and return their output."
_BEGIN = (
    "Runs a shell command and returns its output. You MUST provide the workdir as an absolute path."
)
_REFUSAL = (
    "Do not work around a refusal or the sandbox: tell the user what you need, and what was said."
)
_TIME = (
    f"The time limit is {DEFAULT_TIMEOUT_MS // 1000} seconds unless timeout_ms says otherwise; "
    "background processes run on until the server ends."
)
_MAX_ROOTS, _MAX_ROOT = 4, 80  # named, and characters of each


class Words(NamedTuple):
    """kernel: whether the kernel tells of every exec. notice: what the user must be told.

    roots: what commands may write under a state.
    """

    kernel: bool
    notice: str | None = None
    roots: Callable[[SandboxState], tuple[str, ...]] = lambda _: ()

    def instructions(self, state: SandboxState | None) -> str:
        """Those of the server, under the state that it begins with."""
        how = "kernel" if self.kernel else "wrapper"
        parts = (_PURPOSE, self._sandbox(state), self._rules(), f"(Interception: {how}.)")
        return " ".join(filter(None, (*parts, _REFUSAL, self.notice)))

    def description(self, state: SandboxState | None) -> str:
        """That of the tool, under the state in force."""
        return " ".join((_BEGIN, self._sandbox(state), self._rules(), _REFUSAL, _TIME))

    def _sandbox(self, state: SandboxState | None) -> str:
        if state is None:
            return (
                "Commands run in a sandbox. The client says what they can write and whether there "
                "is a network; until it does, they can write nothing and there is no network."
            )
        policy = state.policy
        network = "there is a network" if policy.full_network else "there is no network"
        if policy.kind == DANGER_FULL_ACCESS:
            return "Commands run without a sandbox, as the user."
        if policy.kind == EXTERNAL_SANDBOX:
            return f"What commands can write is not limited by this server; {network}."
        roots = list(dict.fromkeys(self.roots(state)))
        named = ", ".join(printable(root[:_MAX_ROOT]) for root in roots[:_MAX_ROOTS])
        more = f" and {len(roots) - _MAX_ROOTS} more folders" if len(roots) > _MAX_ROOTS else ""
        where = f"only beneath {named}{more}" if roots else "nothing"
        return f"Commands run in a sandbox: they can read files and write {where}; {network}."

    def _rules(self) -> str:
        whom = (
            "every program of a command's whole process tree"
            if self.kernel
            else "each program that the shell starts"
        )
        return (
            f"The user's rules judge {whom}: some run outside the sandbox, some the user is asked "
            "about, some are refused with `Execution denied: ` and the reason."
        )
