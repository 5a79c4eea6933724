"""A result in words and as data: each half says all there is to say, and nothing twice."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from codex_multitool.keeper.outcome import Decision
from codex_multitool.keeper.output import STDERR, STDOUT, Capture
from codex_multitool.mcp_server.audience import Form, form
from codex_multitool.mcp_server.calls import CommandResult
from codex_multitool.mcp_server.result import encode, encode_failure
from codex_multitool.mcp_server.shell_tool import DEFINITION

TEXT, JSON = Form(json=False, structured=True, size=100), Form(json=True, structured=True, size=100)
REASON = "Execution forbidden by policy: not today; rule `git push` (/r:3)"
PUSH = Decision("/usr/bin/git", ("git", "push"), "deny", REASON)
SAID = f"Execution denied: {REASON}\n".encode()


def ended(stdout: bytes = b"", stderr: bytes = b"", size: int = 100, **more: Any) -> CommandResult:
    capture = Capture(size)
    capture.feed(STDOUT, stdout)
    capture.feed(STDERR, stderr)
    told = {"exit_code": 0, "signal": None, "timed_out": False, "duration_ns": 0, **more}
    return CommandResult(output=capture.output(), **told)


def encoded(
    result: CommandResult, signal: str | None = None, wanted: Form = JSON
) -> tuple[str, dict[str, Any]]:
    """Text and structured content; the latter keeps to the schema."""
    made = json.loads(encode(result, signal, wanted))
    assert made["isError"] is False
    (item,) = made["content"]
    assert item["type"] == "text"
    structured = made["structuredContent"]
    jsonschema.validate(structured, DEFINITION["outputSchema"])
    assert set(structured) == set(DEFINITION["outputSchema"]["properties"])
    return item["text"], structured


def words(result: CommandResult, signal: str | None = None) -> str:
    return encoded(result, signal, TEXT)[0]


class TestWords:
    def test_are_the_output_where_there_is_no_more_to_say(self) -> None:
        assert words(ended(b"hi\n")) == "hi\n"
        assert words(ended(b"no end of line")) == "no end of line"

    def test_of_nothing_say_so(self) -> None:
        assert words(ended()) == "(no output)"
        assert words(ended(exit_code=3)) == "[exit status 3]"

    def test_say_how_a_command_ended(self) -> None:
        assert words(ended(b"a", exit_code=3)) == "a\n[exit status 3]"
        assert words(ended(b"a\n", exit_code=137, signal=9), "SIGKILL") == "a\n[ended by SIGKILL]"
        late = ended(b"a\n", exit_code=124, timed_out=True, duration_ns=1_530_000_000)
        assert words(late) == "a\n[timed out, ended after 1.5 seconds]"

    def test_name_what_was_refused_and_not_again_why(self) -> None:
        assert words(ended(SAID, exit_code=1, decisions=(PUSH,))) == (
            f"{SAID.decode()}[exit status 1]\n[refused: /usr/bin/git push]"
        )
        assert words(ended(b"ok\n", decisions=(PUSH._replace(times=3),))) == (
            f"ok\n[refused: /usr/bin/git push (3 times): {REASON}]"
        )

    def test_name_what_ran_where(self) -> None:
        out = Decision("/bin/a", ("a", "b c"), "escalate", "rule `a` (/r:1)")
        stayed = Decision("/bin/a", ("a",), "run", "rule `a` allows it, but it stays")
        assert words(ended(decisions=(out, stayed))).split("\n") == [
            "[ran outside the sandbox: /bin/a 'b c': rule `a` (/r:1)]",
            "[ran in the sandbox: /bin/a: rule `a` allows it, but it stays]",
        ]

    def test_name_what_is_left_running_and_the_notes(self) -> None:
        told = words(ended(b"x\n", background=((77, "sleep 9\x1b"),), notes=("mind this",)))
        assert told.split("\n")[1:] == [
            "[left running until the server ends: sleep 9  (process 77)]",
            "[mind this]",
        ]

    def test_say_where_the_rest_is(self) -> None:
        lines = b"".join(b"line %d\n" % number for number in range(100))
        told = words(ended(lines, file="/f/1.txt")).split("\n")
        assert "[... 708 bytes left out, from line 7 on; all of it is in /f/1.txt ...]" in told
        assert "[... 708 bytes left out ...]" in words(ended(lines))
        long = words(ended(b"x" * 200, file="/f/1.txt")).split("\n")
        assert long[1] == "[... 100 bytes left out; all of it is in /f/1.txt ...]"

    def test_are_few_however_much_was_decided(self) -> None:
        many = tuple(PUSH._replace(argv=("git", "push", "x" * 5000, str(n))) for n in range(200))
        told = words(ended(decisions=many)).split("\n")
        assert len(told) == 21
        assert told[-1] == "[and 180 more decisions]"
        assert len("".join(told)) < 8000


class TestData:
    def test_text_is_the_references_to_the_byte(self) -> None:
        text, _ = encoded(ended(b"hi\n", duration_ns=3_714_494))
        assert text == (
            '{"exit_code":0,"output":"hi\\n","duration":{"secs":0,"nanos":3714494},'
            '"timed_out":false}'
        )

    def test_structured_content_has_all_members(self) -> None:
        _, structured = encoded(ended(b"out\n", b"err\n", exit_code=3, duration_ns=2_000_000_005))
        assert structured == {
            "exit_code": 3,
            "output": "out\nerr\n",
            "duration": {"secs": 2, "nanos": 5},
            "timed_out": False,
            "signal": None,
            "truncated": None,
            "output_file": None,
            "decisions": [],
            "background": [],
            "notes": [],
        }

    def test_what_matters_is_in_the_text_too(self) -> None:
        text, structured = encoded(
            ended(
                b"x" * 100 + b"yz",
                exit_code=137,
                signal=9,
                background=((77, "sleep 9"),),
                notes=("mind this",),
                file="/f/1.txt",
            ),
            "SIGKILL",
        )
        told = json.loads(text)
        assert list(told) == [
            "exit_code", "output", "duration", "timed_out", "signal", "truncated", "output_file",
            "background", "notes",
        ]  # fmt: skip
        assert told["signal"] == "SIGKILL"
        assert told["truncated"] == {"output": 2}
        assert told["output_file"] == "/f/1.txt"
        assert told["output"] == "x" * 50 + "\n[... left out ...]\n" + "x" * 48 + "yz"
        assert told["background"] == [{"pid": 77, "command": "sleep 9"}]
        assert told["notes"] == ["mind this"]
        assert {name: structured[name] for name in told} == told

    def test_timeout(self) -> None:
        text, _ = encoded(ended(b"so far", exit_code=124, timed_out=True))
        assert json.loads(text)["timed_out"] is True
        assert json.loads(text)["output"] == "so far"

    def test_a_version_without_it_gets_no_structured_content(self) -> None:
        old = Form(json=True, structured=False, size=100)
        assert "structuredContent" not in json.loads(encode(ended(b"hi\n"), None, old))

    @pytest.mark.parametrize("decision", ["run", "escalate", "deny"])
    def test_decisions_are_told_with_their_reasons(self, decision: str) -> None:
        made = Decision("/bin/rm", ("rm", "-rf", "x y"), decision, "rule `rm`", 2)
        text, structured = encoded(ended(decisions=(made,)))
        assert structured["decisions"] == json.loads(text)["decisions"]
        assert structured["decisions"] == [
            {
                "program": "/bin/rm",
                "argv": ["rm", "-rf", "x y"],
                "decision": decision,
                "reason": "rule `rm`",
                "times": 2,
            }
        ]

    def test_names_that_are_no_text_are_shown_as_far_as_they_are(self) -> None:
        bad = "caf\udce9"
        _, structured = encoded(
            ended(
                decisions=(Decision(f"/{bad}", (bad, "\ud800"), "deny", "no"),),
                background=((1, bad),),
                notes=(bad,),
            )
        )
        assert structured["decisions"][0]["argv"] == ["caf\ufffd", "\ufffd"]
        assert structured["background"] == [{"pid": 1, "command": "caf\ufffd"}]
        assert structured["notes"] == ["caf\ufffd"]

    def test_every_byte_of_output_can_be_sent(self) -> None:
        text, structured = encoded(ended(bytes(range(256)) * 3))
        assert json.loads(text)["output"] == structured["output"]


@pytest.mark.parametrize("wanted", [TEXT, JSON], ids=["text", "json"])
@pytest.mark.parametrize("said", [SAID, b"", b"before\n" + SAID + b"after\n"])
def test_each_half_has_a_reason_once(wanted: Form, said: bytes) -> None:
    note = "not today; rule `git push`"
    halves = encoded(ended(said, exit_code=1, decisions=(PUSH,), notes=(note,)), None, wanted)
    text, structured = halves
    assert text.count("not today") == 1
    assert json.dumps(structured).count("not today") == 1
    assert structured["decisions"][0]["reason"] == REASON
    assert structured["output"] == said.decode().replace(REASON, "see decisions[0]")


def test_each_denial_points_to_its_own_decision() -> None:
    pull = PUSH._replace(argv=("git", "pull"), reason="no")
    said = 2 * SAID + b"Execution denied: no\n"
    _, structured = encoded(ended(said, size=1000, decisions=(PUSH._replace(times=2), pull)))
    assert structured["output"].split("\n") == [
        "Execution denied: see decisions[0]",
        "Execution denied: see decisions[0]",
        "Execution denied: see decisions[1]",
        "",
    ]


def test_failure_is_a_result_with_its_text() -> None:
    assert encode_failure("workdir '/caf\udce9': no") == {
        "content": [{"type": "text", "text": "workdir '/caf\ufffd': no"}],
        "isError": True,
    }


@pytest.mark.parametrize(
    ("version", "client", "reference", "json", "structured"),
    [
        ("2025-11-25", "claude-code", False, False, True),
        ("2025-06-18", "gemini-cli-mcp-client", False, False, True),
        ("2025-06-18", "", False, False, True),
        ("2025-06-18", "codex-mcp-client", False, True, True),
        ("2025-11-25", "anything", True, True, True),
        ("2025-03-26", "anything", False, True, False),
        ("2024-11-05", "codex-mcp-client", True, True, False),
    ],
)
def test_who_gets_what(
    version: str, client: str, reference: bool, json: bool, structured: bool
) -> None:
    size = 11_000 if reference or client.startswith("codex") else 36_000
    assert form(version, client, reference=reference) == Form(json, structured, size)
    for wanted in ("text", "json"):
        made = form(version, client, reference=reference, wanted=wanted, size=5000)
        assert made == Form(wanted == "json", structured, 5000)
