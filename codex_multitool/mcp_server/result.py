"""The result of a call, in words and as data; each half says all, and nothing twice — pure."""

from collections.abc import Iterator

import msgspec

from codex_multitool.keeper.outcome import Decision
from codex_multitool.mcp_server.audience import Form
from codex_multitool.mcp_server.calls import CommandResult
from codex_multitool.mcp_server.messages import Object, printable
from codex_multitool.running import quoting

_DENIED = "Execution denied: {}\n"  # what a program that is denied says on its standard error
_GAP = "[... left out ...]"
_MAX_COMMAND = 200  # characters of one, in words
_MAX_TOLD = 20  # decisions told in words


def encode(result: CommandResult, signal: str | None, form: Form) -> bytes:
    """The result of tools/call, as JSON. signal: the name of result.signal."""
    text = _json(result, signal) if form.json else _words(result, signal)
    answer: Object = {"content": [{"type": "text", "text": text}], "isError": False}
    if form.structured:
        answer["structuredContent"] = _structured(result, signal)
    return msgspec.json.encode(answer)


def encode_failure(text: str) -> Object:
    """The result of a call that could not be served."""
    return {"content": [{"type": "text", "text": printable(text)}], "isError": True}


def _structured(result: CommandResult, signal: str | None) -> Object:
    """All members. What a denied program said is in the decision, and the output points there."""
    output = result.output.text(_GAP)
    for at, it in enumerate(result.decisions):
        if it.decision == "deny":
            said, there = _DENIED.format(printable(it.reason)), f"see decisions[{at}]"
            output = output.replace(said, _DENIED.format(there), it.times)
    return {
        **_reference(result, output),
        **_more(result, signal),
        "decisions": [_decision(it) for it in result.decisions],
    }


def _json(result: CommandResult, signal: str | None) -> str:
    """The reference's four members, and of ours those that say something.

    The output is what the reference's is, so a reason that stands there stands nowhere else.
    """
    output = result.output.text(_GAP)
    told = {
        **_more(result, signal),
        "decisions": [_decision(it, reason=not _said(it, output)) for it in result.decisions],
    }
    more = {name: value for name, value in told.items() if value}
    return msgspec.json.encode({**_reference(result, output), **more}).decode()


def _reference(result: CommandResult, output: str) -> Object:
    secs, nanos = divmod(result.duration_ns, 1_000_000_000)
    return {
        "exit_code": result.exit_code,
        "output": output,
        "duration": {"secs": secs, "nanos": nanos},
        "timed_out": result.timed_out,
    }


def _more(result: CommandResult, signal: str | None) -> Object:
    left_out = result.output.left_out
    return {
        "signal": signal,
        "truncated": {"output": left_out} if left_out else None,
        "output_file": None if result.file is None else printable(result.file),
        "background": [{"pid": pid, "command": printable(line)} for pid, line in result.background],
        "notes": list(_notes(result)),
    }


def _decision(decision: Decision, *, reason: bool = True) -> Object:
    return {
        "program": printable(decision.program),
        "argv": [printable(word) for word in decision.argv],
        "decision": decision.decision,
        **({"reason": printable(decision.reason)} if reason else {}),
        **({"times": decision.times} if decision.times > 1 else {}),
    }


def _notes(result: CommandResult) -> Iterator[str]:
    """The notes that no decision has said already."""
    for note in result.notes:
        if not any(note in it.reason for it in result.decisions):
            yield printable(note)


def _said(decision: Decision, output: str) -> bool:
    """Whether the output has the reason, in the words of the program that was denied."""
    return decision.decision == "deny" and _DENIED.format(printable(decision.reason)) in output


def _words(result: CommandResult, signal: str | None) -> str:
    """The output as it is, and below it in a line each what else there is to say."""
    output = result.output.text(_gap(result))
    lines = [f"[{line}]" for line in _told(result, signal, output)]
    if not lines:
        return output or "(no output)"
    if output and not output.endswith("\n"):
        output += "\n"
    return output + "\n".join(lines)


def _gap(result: CommandResult) -> str:
    left_out = f"{result.output.left_out} bytes left out"
    if result.file is None:
        return f"[... {left_out} ...]"
    file = printable(result.file)
    if not result.output.head.endswith("\n"):
        return f"[... {left_out}; all of it is in {file} ...]"
    line = result.output.head.count("\n") + 1
    return f"[... {left_out}, from line {line} on; all of it is in {file} ...]"


def _told(result: CommandResult, signal: str | None, output: str) -> Iterator[str]:
    if result.timed_out:
        yield f"timed out, ended after {result.duration_ns / 1e9:.1f} seconds"
    elif signal is not None:
        yield f"ended by {signal}"
    elif result.exit_code:
        yield f"exit status {result.exit_code}"
    for it in result.decisions[:_MAX_TOLD]:
        yield _one_line(_decided(it, output))
    if len(result.decisions) > _MAX_TOLD:
        yield f"and {len(result.decisions) - _MAX_TOLD} more decisions"
    for pid, command in result.background:
        yield _one_line(f"left running until the server ends: {command} (process {pid})")
    yield from map(_one_line, _notes(result))


def _decided(decision: Decision, output: str) -> str:
    command = quoting.command_line(decision.program, decision.argv[1:], _MAX_COMMAND)
    times = f" ({decision.times} times)" if decision.times > 1 else ""
    what = {
        "deny": "refused",
        "escalate": "ran outside the sandbox",
        "run": "ran in the sandbox",
    }[decision.decision]
    why = "" if _said(decision, output) else f": {decision.reason}"
    return f"{what}: {command}{times}{why}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
