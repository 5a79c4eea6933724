"""No text ends or delays the process that has it evaluated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codex_multitool.execpolicy.engine import MAXIMUM_CALLS
from codex_multitool.execpolicy.engine_process import Engine, evaluate_all
from codex_multitool.execpolicy.evaluation import Call, Evaluation, Failure

DEEP = 20_000


def evaluate(text: str, seconds: float = 10) -> Evaluation:
    (evaluation,) = evaluate_all([text], seconds=seconds)
    return evaluation


def failure(text: str, seconds: float = 10) -> Failure:
    found = evaluate(text, seconds).failure
    assert found is not None
    return found


def children() -> set[str]:
    """Process ids of our children, zombies included: proc_pid_task(5)."""
    found = Path("/proc/self/task").glob("*/children")
    return {child for listing in found for child in listing.read_text().split()}


@contextmanager
def no_child_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def test_calls_come_with_their_lines_and_reduced_arguments() -> None:
    text = """
def rule(name):
    prefix_rule([name, ["a", 1, ["x"]], ("t",), len],
                decision = None)
rule("x")
[rule(str(n)) for n in range(1)]; host_executable("h", [])
network_rule("h", protocol = 1.5, decision = {})
"""
    arguments = {
        "pattern": [
            "x",
            ["a", {"type": "int"}, {"type": "list"}],
            {"type": "tuple"},
            {"type": "function"},
        ],
        "decision": {"type": "NoneType"},
        "match": None,
        "not_match": None,
        "justification": None,
    }
    calls = evaluate(text).calls
    assert calls[0] == Call("prefix_rule", 3, arguments)  # type: ignore[arg-type]
    assert [(call.name, call.line) for call in calls[1:]] == [
        ("prefix_rule", 3),
        ("host_executable", 6),
        ("network_rule", 7),
    ]
    assert calls[2].arguments == {"name": "h", "paths": []}
    assert calls[3].arguments["protocol"] == {"type": "float"}


def test_a_failure_keeps_the_calls_before_it() -> None:
    evaluation = evaluate("prefix_rule(['a'])\n\nx = 1 + foo\n".replace("foo", "''"))
    assert [call.name for call in evaluation.calls] == ["prefix_rule"]
    assert evaluation.failure is not None
    assert (evaluation.failure.line, evaluation.failure.column) == (3, 5)


def test_a_message_cannot_forge_the_place() -> None:
    found = failure("fail('a\\n --> rules:9:9\\n')")
    assert (found.line, found.column) == (1, 1)


def test_texts_are_evaluated_apart_and_up_to_the_first_failure() -> None:
    evaluations = evaluate_all(["x = 'a'", "prefix_rule([x])", "prefix_rule(['b'])"], seconds=10)
    assert [evaluation.failure is None for evaluation in evaluations] == [True, False]
    assert evaluate_all([], seconds=10) == []


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP + "]" * DEEP,
        "{1:" * DEEP + "1" + "}" * DEEP,
        "x = " + "-" * DEEP + "1",
        "x = " + "1 + " * DEEP + "1",
        "x = " + "lambda: " * DEEP + "1",
        "x = 1\ny = x" + "[0]" * DEEP,
        "if 0:\n pass\n" + "elif 0:\n pass\n" * DEEP,
    ],
    ids=["list", "dict", "minus", "plus", "lambda", "index", "elif"],
)
def test_a_text_that_overflows_the_stack_is_a_failure(text: str) -> None:
    with no_child_left():
        assert failure(text).message == "the text is nested too deeply for the Starlark engine"


@pytest.mark.parametrize(
    "text",
    [
        "x = [0] * 1000000000",
        "x = sorted(range(1000000000))",
        "def f():\n    x = 'ab'\n    for i in range(60):\n        x = x + x\nf()",
        "x = ('a,' * 40000000).split(',')",
    ],
    ids=["repeat", "range", "double", "split"],
)
def test_a_text_that_takes_all_memory_is_a_failure(text: str) -> None:
    with no_child_left():
        assert "memory" in failure(text).message


def test_an_engine_without_memory_ends_also_where_backtraces_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Taken in small pieces, so that none is left for the backtrace.
    text = "def f():\n  x = []\n  for i in range(9999999):\n    x.append('ab' * 1000 + str(i))\nf()"
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    with no_child_left():
        assert "memory" in failure(text).message


def test_an_endless_loop_is_a_failure_with_its_line() -> None:
    text = "def f():\n    for i in range(2000000000):\n        pass\n\nf()\n"
    with no_child_left():
        found = failure(text, seconds=0.3)
    assert found.message == "evaluation takes longer than 0.3 s"
    assert found.line is not None


def test_a_builtin_that_cannot_be_cancelled_is_killed() -> None:
    with no_child_left():
        found = failure("x = max(range(2000000000))", seconds=0.05)
    assert found.message == "evaluation takes longer than 0.05 s"


def test_the_time_that_loading_takes_is_not_the_texts(tmp_path: Path) -> None:
    """The bound and its grace are long over when the engine is there."""
    script = """
import sys, time
class Slow:
    def find_spec(self, name, path, target=None):
        if name == "codex_multitool.execpolicy.engine":
            time.sleep(2)
sys.meta_path.insert(0, Slow())
from codex_multitool.execpolicy.engine_process import Engine, evaluate_all
(found,) = evaluate_all(["prefix_rule(['a'])"], seconds=0.5)
assert found.failure is None, found
"""
    root = Path(__file__).resolve().parents[2]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environ, check=True)


def test_too_many_rules_are_a_failure() -> None:
    text = f"def f():\n  for i in range({MAXIMUM_CALLS + 1}):\n    host_executable('a', [])\nf()"
    found = failure(text, seconds=60)
    assert found == Failure(f"the file makes more than {MAXIMUM_CALLS} rules", 3)


def test_a_cyclic_list_is_reduced() -> None:
    (call,) = evaluate("l = []\nl.append(l)\nprefix_rule(l)").calls
    assert call.arguments["pattern"] == [[{"type": "list"}]]


def test_a_parent_that_ignores_sigchld_gets_the_same_answer() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert evaluate("prefix_rule(['a'])").failure is None
        assert failure("[" * DEEP + "]" * DEEP).message.startswith("the Starlark engine ended")
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_an_interrupted_parent_leaves_no_child() -> None:
    class InterruptionError(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise InterruptionError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with no_child_left(), pytest.raises(InterruptionError):
            evaluate("def f():\n  for i in range(2000000000): pass\nf()", seconds=30)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_nothing_of_a_crash_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    failure("x = [0] * 1000000000")
    failure("[" * DEEP + "]" * DEEP)
    assert capfd.readouterr() == ("", "")


def test_the_time_bound_covers_all_texts_together() -> None:
    slow = "def f():\n    for i in range(2000000000):\n        pass\nf()\n"
    began = time.monotonic()
    evaluations = evaluate_all([slow, slow, slow], seconds=0.3)
    assert len(evaluations) == 1
    assert time.monotonic() - began < 30


def test_an_engine_that_is_not_asked_ends() -> None:
    with no_child_left():
        Engine().close()
        assert evaluate_all([], seconds=1, engine=Engine()) == []


def test_an_engine_that_was_begun_is_the_one_asked() -> None:
    with no_child_left():
        engine = Engine()
        (evaluation,) = evaluate_all(["prefix_rule(['a'])"], seconds=10, engine=engine)
        assert [call.name for call in evaluation.calls] == ["prefix_rule"]


def test_an_engine_that_was_killed_is_an_answer() -> None:
    for text in ("x = 1", "#" * (1 << 20)):  # the second is more than a pipe holds
        with no_child_left():
            before = children()
            engine = Engine()
            (child,) = children() - before
            os.kill(int(child), signal.SIGKILL)
            (evaluation,) = evaluate_all([text], seconds=10, engine=engine)
            assert evaluation.failure is not None
            assert "(status -9)" in evaluation.failure.message


def test_an_engine_ends_with_whoever_began_it() -> None:
    program = (
        "import os; from codex_multitool.execpolicy.engine_process import Engine; "
        "Engine(); print(open('/proc/self/task/%d/children' % os.getpid()).read(), flush=True); "
        "os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    # The pipe to us is closed by its last writer: the engine has ended.
    assert done.stdout.split()
