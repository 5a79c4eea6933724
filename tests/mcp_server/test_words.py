"""What a model is told of this shell."""

import pytest

from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.mcp_server.words import Words
from codex_multitool.sandbox.policy import SandboxPolicy

SENTENCE = (
    "Runs a shell command and returns its output. You MUST provide the workdir as an absolute path."
)


def told(kind: str, *roots: str, network: bool = False) -> str:
    policy = SandboxPolicy(kind, network_access=network)
    return Words(kernel=True, roots=lambda _: roots).description(SandboxState(policy, "/w"))


@pytest.mark.parametrize(
    ("kind", "roots", "network", "said"),
    [
        ("read-only", (), False, "they can read files and write nothing; there is no network."),
        (
            "workspace-write",
            ("/w", "/tmp", "/w"),
            False,
            "write only beneath /w, /tmp; there is no",
        ),
        ("workspace-write", ("/w",), True, "write only beneath /w; there is a network."),
        ("workspace-write", tuple("/abcdefg"), False, "beneath /, a, b, c and 4 more folders;"),
        ("danger-full-access", (), False, "Commands run without a sandbox, as the user."),
        ("external-sandbox", (), True, "is not limited by this server; there is a network."),
    ],
)
def test_the_sandbox_in_force_is_described(
    kind: str, roots: tuple[str, ...], network: bool, said: str
) -> None:
    assert said in told(kind, *roots, network=network)


def test_it_begins_as_ever_and_is_short() -> None:
    long = told("workspace-write", *(f"/{'very long ' * 30}{number}" for number in range(9)))
    assert long.startswith(SENTENCE)
    assert len(told("workspace-write", "/home/me/project", "/tmp")) < 900
    assert len(long) < 1200


def test_whose_programs_are_judged_depends_on_the_way() -> None:
    kernel, wrapper = (Words(kernel=it).instructions(None) for it in (True, False))
    assert "every program of a command's whole process tree" in kernel
    assert "each program that the shell starts" in wrapper
    assert Words(kernel=False, notice="Say this.").instructions(None).endswith("Say this.")


def test_without_a_state_the_client_decides() -> None:
    assert "until it does, they can write nothing" in Words(kernel=True).description(None)
