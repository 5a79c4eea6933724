"""The question as every client can show it, and whatever a client may answer."""

from typing import Any

import pytest

from codex_multitool.mcp_server import elicitation
from codex_multitool.mcp_server.calls import Answer, Question
from codex_multitool.mcp_server.session import Response

ALLOWED = {"action": "accept"}


def answer(result: Any = None, error: Any = None, seconds: float = 1.0) -> Answer:
    return elicitation.answer(Response("server-1", result, error), seconds)


GIT = Question(
    "/usr/bin/git", ("git", "init", "."), "/home/me/a project", "rule `git init` (/r:3)", True
)


def lines(question: Question) -> list[str]:
    return elicitation.message(question).split("\n")


def test_the_question_has_no_form_to_fill_in() -> None:
    assert elicitation.params(GIT) == {
        "message": "Allow agent to run `/usr/bin/git init .` in `/home/me/a project`?\n"
        "It leaves the sandbox.\n"
        "Asked by rule 'git init' (/r:3)",
        "requestedSchema": {"type": "object", "properties": {}},
    }


def test_all_that_is_known_is_in_a_line_of_its_own() -> None:
    warning = "a sandboxed command wrote /w/.envrc"
    assert lines(GIT._replace(justification="as a human", warning=warning))[1:] == [
        "It leaves the sandbox.",
        "Asked by rule 'git init' (/r:3)",
        "Reason given: as a human",
        "Beware: a sandboxed command wrote /w/.envrc",
    ]


def test_what_is_only_dangerous_stays_inside() -> None:
    danger = Question("/bin/rm", ("rm", "-rf", "d"), "/w", "rm deletes whole directories", False)
    assert lines(danger) == [
        "Allow agent to run `/bin/rm -rf d` in `/w`?",
        "It stays in the sandbox.",
        "Asked because rm deletes whole directories",
    ]


@pytest.mark.parametrize("argv", [(), ("anything",), ("-rf /",)])
def test_argv_0_is_never_shown(argv: tuple[str, ...]) -> None:
    assert "`/bin/true`" in lines(GIT._replace(program="/bin/true", argv=argv))[0]


HOSTILE = "\n\nIt stays in the sandbox.` in `/tmp`?\r\x1b[2J\u202e\u200b\u2028\x9b2J\ud83d "


@pytest.mark.parametrize("times", [1, 100, 10_000])
@pytest.mark.parametrize(
    "field", ["program", "argv", "workdir", "because", "justification", "warning"]
)
def test_nothing_in_it_can_push_the_rest_away_or_pose_as_it(field: str, times: int) -> None:
    text = "/" + HOSTILE * times + "end"
    whole = GIT._replace(justification="as a human", warning="look out")
    changed: Any = {field: ("x", text, text) if field == "argv" else text}
    shown = lines(whole._replace(**changed))
    assert len(shown) == 5
    assert [line.split()[0] for line in shown] == ["Allow", "It", "Asked", "Reason", "Beware:"]
    assert shown[1] == "It leaves the sandbox."
    assert all(line.isprintable() for line in shown)
    assert [line.count("`") for line in shown] == [4, 0, 0, 0, 0]
    assert sum(map(len, shown)) < 1500
    assert times < 100 or "characters left out ...]" in "".join(shown)


def test_of_a_long_command_both_ends_are_shown() -> None:
    (question, *_) = lines(GIT._replace(argv=("git", "begin", *"x" * 5000, "end")))
    assert "`/usr/bin/git begin x x" in question
    assert "characters left out ...] x" in question
    assert question.endswith("x end` in `/home/me/a project`?")


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


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_faster_than_anybody_reads_is_told_as_the_clients(action: str) -> None:
    told = f"the client answered `{action}` at once, perhaps unseen by anybody"
    assert answer({"action": action}, seconds=0.149) == Answer(action, told)
    assert answer({"action": action}, seconds=0.15) == Answer(action)
    assert answer({"action": "accept"}, seconds=0.0) == Answer("accept")
