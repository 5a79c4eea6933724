"""Evaluates one rules text on the Starlark engine; the result is the builtin calls it made.

Nothing here judges the calls. The engine is native code that a hostile text can crash or
keep busy for ever: call it through engine_process.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import starlark

from codex_multitool.execpolicy.evaluation import Argument, Call, Evaluation, Failure

MAXIMUM_CALLS = 20_000

# The name under which the engine knows every text: real paths need not be UTF-8.
_TEXT = "rules"
_PRELUDE = "<builtins>"

# A native callable is told neither Starlark's type names nor where it was called. So the
# builtins are Starlark functions: they reduce each argument to strings, lists and type
# names, and pass the call stack on. Rules files get them from a frozen module, which keeps
# `_record` and `call_stack` out of their sight.
_BUILTINS = """
_ABSENT = ("absent",)

def _item(value):
    return value if type(value) == "string" else {"type": type(value)}

def _element(value):
    return [_item(item) for item in value] if type(value) == "list" else _item(value)

def _argument(value):
    if value == _ABSENT:
        return None
    return [_element(element) for element in value] if type(value) == "list" else _item(value)

def prefix_rule(
        pattern, decision = _ABSENT, match = _ABSENT, not_match = _ABSENT,
        justification = _ABSENT):
    _record("prefix_rule", {
        "pattern": _argument(pattern),
        "decision": _argument(decision),
        "match": _argument(match),
        "not_match": _argument(not_match),
        "justification": _argument(justification),
    }, call_stack())

def network_rule(host, protocol, decision, justification = _ABSENT):
    _record("network_rule", {
        "host": _argument(host),
        "protocol": _argument(protocol),
        "decision": _argument(decision),
        "justification": _argument(justification),
    }, call_stack())

def host_executable(name, paths):
    _record("host_executable", {
        "name": _argument(name),
        "paths": _argument(paths),
    }, call_stack())
"""
_IMPORT = 'load("builtins", "prefix_rule", "network_rule", "host_executable")'

_CALLER = re.compile(rf"^  \* {_TEXT}:(\d+), in ", re.MULTILINE)
# Compiled when they are needed: rules are seldom wrong.
_SPAN = rf"(?m)^ --> {_TEXT}:(\d+):(\d+)$"
_MESSAGE = r"(?ms)^error: (.*?)(?:\n --> |\Z)"


def evaluate(text: str, cancelled: Callable[[], str | None]) -> Evaluation:
    """Evaluate `text`; `cancelled` is asked now and then, and its answer ends it."""
    calls: list[Call] = []
    refusals: list[str] = []

    def record(name: str, arguments: dict[str, Argument], stack: str) -> None:
        if len(calls) >= MAXIMUM_CALLS:
            refusals.append(f"the file makes more than {MAXIMUM_CALLS} rules")
            raise OverflowError
        calls.append(Call(name, int(_CALLER.findall(stack)[-1]), arguments))

    def is_cancelled() -> bool:
        reason = cancelled()
        if reason is not None:
            refusals.append(reason)
        return reason is not None

    try:
        module = _module(record)
        program = starlark.parse(_TEXT, text, _dialect(load=False))
        options = starlark.EvalOptions(check_cancelled=is_cancelled)
        starlark.eval_with(options, module, program, starlark.Globals.standard())
    except starlark.StarlarkError as error:
        return Evaluation(tuple(calls), _failure(str(error), refusals))
    except BaseException as panic:  # noqa: BLE001  # a Rust panic arrives as a BaseException
        return Evaluation(tuple(calls), Failure(f"the Starlark engine failed: {panic}"))
    return Evaluation(tuple(calls), None)


def _module(record: Callable[[str, dict[str, Argument], str], None]) -> starlark.Module:
    """A module for a rules file, in which the builtins are defined."""
    builtins = starlark.Module()
    builtins.add_callable("_record", record)
    with_stack = starlark.Globals.extended_by([starlark.LibraryExtension.CallStack])
    starlark.eval(builtins, starlark.parse(_PRELUDE, _BUILTINS, _dialect(load=False)), with_stack)
    frozen = builtins.freeze()
    module = starlark.Module()
    starlark.eval(
        module,
        starlark.parse(_PRELUDE, _IMPORT, _dialect(load=True)),
        starlark.Globals.standard(),
        starlark.FileLoader(lambda _: frozen),
    )
    return module


def _dialect(*, load: bool) -> starlark.Dialect:
    dialect = starlark.Dialect.extended()
    dialect.enable_f_strings = True
    dialect.enable_load = load
    return dialect


def _failure(diagnostic: str, refusals: list[str]) -> Failure:
    """The engine's diagnostic as one message and a place.

    A failure inside the builtins has no span in the text; its traceback knows the line.
    """
    message = re.search(_MESSAGE, diagnostic)
    what = refusals[0] if refusals else message[1] if message else diagnostic.strip()
    what = what.replace(f"{_PRELUDE}.", "")
    spans = re.findall(_SPAN, diagnostic)
    if spans:
        return Failure(what, int(spans[-1][0]), int(spans[-1][1]))
    callers = _CALLER.findall(diagnostic)
    return Failure(what, int(callers[-1]) if callers else None)
