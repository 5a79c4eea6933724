"""Messages as bytes: what goes in comes out, whatever the pieces."""

from collections.abc import Iterator
from typing import Any

import pytest

from codex_multitool.escalation.protected import Change
from codex_multitool.escalation.question import Question
from codex_multitool.keeper import protocol
from codex_multitool.keeper.frames import Decoder, encode
from codex_multitool.keeper.outcome import Decision, Outcome
from codex_multitool.keeper.output import Output
from codex_multitool.sandbox.policy import SandboxPolicy

SANDBOX = protocol.Sandbox(SandboxPolicy("workspace-write"), ("/w",), ((b"/w/.git", True),))
DECISION = Decision("/bin/true", ("true", "\udcff"), "deny", "a rule", 3)
QUESTION = Question("/bin/true", ("true",), "/w", "a rule", outside=True)


def messages() -> Iterator[Any]:
    order = protocol.Order(("sh", "-c", "\udc80"), "/w", SANDBOX, ("/w",), float("inf"), 10)
    yield order
    yield order._replace(size=None, environment={"A": "b"}, ignored=(13,), watched=True)
    yield protocol.Done(Outcome(9, True, 1 << 40, Output("é\udcff", "t", 3, True)), over=False)
    outcome = Outcome(0, False, 1, Output(""), "/f", (DECISION,), ("note",), ((7, "sleep"),), True)
    yield protocol.Done(outcome, over=True)
    yield protocol.Answer(1, (None, "why"), descriptor=True)
    yield protocol.Answer(2, ((Change("wrote", "/w/.git/config"),), 4))
    yield protocol.Ask(3, QUESTION)
    yield protocol.Leaving(4, "/w", ("git", "log"), None)
    yield from (protocol.Over(), protocol.End(), protocol.Line("x"), protocol.Prepare(SANDBOX))


@pytest.mark.parametrize("message", [*messages()], ids=lambda it: type(it).__name__)
def test_what_goes_in_comes_out(message: Any) -> None:
    (found,) = Decoder().feed(encode(message))
    assert found == message
    assert type(found) is type(message)
    for each, its in zip(found, message, strict=True):
        assert type(each) is type(its)


def test_what_an_outcome_holds_is_of_its_own_types() -> None:
    outcome = Outcome(0, False, 1, Output("a"), decisions=(DECISION,))
    (found,) = Decoder().feed(encode(protocol.Done(outcome, over=True)))
    assert isinstance(found.outcome, Outcome)
    assert isinstance(found.outcome.output, Output)
    assert isinstance(found.outcome.decisions[0], Decision)


def test_they_may_come_in_any_pieces() -> None:
    told = [*messages()]
    decoder, found = Decoder(), []
    for byte in b"".join(map(encode, told)):
        found += decoder.feed(bytes([byte]))
    assert found == told


def test_sandboxes_are_told_apart() -> None:
    other = SANDBOX._replace(roots=("/other",))
    order = protocol.Order(("sh",), "/", SANDBOX, (), 1.0)
    told = [order, order._replace(sandbox=other), order]
    assert Decoder().feed(b"".join(map(encode, told))) == told
