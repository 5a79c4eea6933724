"""The question as every client can show it, and whatever a client may answer."""

from typing import Any

import pytest

from codex_multitool.mcp_server import elicitation
from codex_multitool.mcp_server.calls import Answer
from codex_multitool.mcp_server.session import Response

ALLOWED = {"action": "accept"}


def answer(result: Any = None, error: Any = None) -> Answer:
    return elicitation.answer(Response("server-1", result, error))


def test_the_question_has_no_form_to_fill_in() -> None:
    assert elicitation.params("/usr/bin/git", ("git", "init", "."), "/home/me/a project") == {
        "message": "Allow agent to run `/usr/bin/git init .` in `/home/me/a project`?",
        "requestedSchema": {"type": "object", "properties": {}},
    }


@pytest.mark.parametrize("argv", [(), ("anything",), ("-rf /",)])
def test_argv_0_is_never_shown(argv: tuple[str, ...]) -> None:
    assert "`/bin/true`" in elicitation.params("/bin/true", argv, "/")["message"]


@pytest.mark.parametrize(
    ("capabilities", "can"),
    [
        ({}, False),
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"form": None, "url": None}}, True),
        ({"elicitation": {"applyDefaults": True}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": None}, False),
        ({"elicitation": True}, False),
        ({"elicitation": {"form": True}}, False),
        ({"sampling": {}}, False),
    ],
)
def test_a_client_that_takes_forms_can_be_asked(capabilities: dict[str, Any], can: bool) -> None:
    assert elicitation.possible(capabilities) is can


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_action_is_taken_with_or_without_content(action: str) -> None:
    assert answer({"action": action}) == Answer(action)
    assert answer({"action": action, "content": None}) == Answer(action)
    assert answer({"action": action, "content": {}}) == Answer(action)


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@pytest.mark.parametrize(
    "content", [{"reason": "no way"}, {"approve": False}, {"action": "accept"}, "yes", ["accept"]]
)
def test_nothing_that_was_typed_changes_an_answer(action: str, content: object) -> None:
    assert answer({"action": action, "content": content}) == Answer(action)


@pytest.mark.parametrize("content", [{"action": "accept"}, {"reason": "yes"}, {"approve": True}])
@pytest.mark.parametrize("action", [None, "", "ACCEPT", "yes", 1, True])
def test_nothing_that_was_typed_is_an_acceptance(action: object, content: object) -> None:
    assert answer({"action": action, "content": content}).action == "unavailable"


@pytest.mark.parametrize(
    "result",
    [None, {}, [], "accept", {"action": "Accept"}, {"action": None}, {"action": ["accept"]},
     {"action": {"accept": True}}, {"content": {"action": "accept"}}],
)  # fmt: skip
def test_anything_else_is_not_an_acceptance(result: object) -> None:
    assert answer(result).action == "unavailable"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ({"code": -32601, "message": "Method not found"}, "Method not found"),
        ({"code": -1}, "no reason given"),
        ("broken", "no reason given"),
        (0, "no reason given"),
        ({"message": "  a\n b\t\x1b[31mc "}, "a b [31mc"),
        ({"message": " \n"}, "no reason given"),
        ({"message": "x" * 5000}, "x" * 1000),
    ],
)
def test_an_error_is_told_with_its_text(error: object, told: str) -> None:
    assert answer(ALLOWED, error) == Answer("unavailable", f"the client could not ask: {told}")
