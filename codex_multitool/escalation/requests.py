"""What a wrapper says, decoded: an enemy's words, of any length up to a frame's — pure.

Apart from `wire`, which the wrapper itself imports: the standard JSON reader, which the server
needs for their length, would double the wrapper's start.
"""

import json

from codex_multitool.escalation.wire import EXTENSION, SHELL, EscalateRequest, WireError


def decode_request(payload: bytes) -> EscalateRequest:
    """A request from a frame's payload."""
    message = _object(payload, "EscalateRequest")
    workdir = _string(message, "workdir")
    if not workdir.startswith("/"):
        raise WireError("EscalateRequest: workdir is not an absolute path")
    file = _string(message, "file")
    if not file:
        raise WireError("EscalateRequest: file is empty")
    argv = message.get("argv")
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
        raise WireError("EscalateRequest: argv is not a list of strings")
    if not argv:
        raise WireError("EscalateRequest: argv is empty")
    env = message.get("env")
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise WireError("EscalateRequest: env is not a map of strings")
    if any("=" in name or not name for name in env):
        raise WireError("EscalateRequest: env has a name that is empty or holds '='")
    for text in (file, workdir, *argv, *env, *env.values()):
        if "\0" in text:
            raise WireError("EscalateRequest: a string holds a NUL")
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise WireError("EscalateRequest: a string is not what bytes decode to") from None
    by_shell = message.get(SHELL) is True
    return EscalateRequest(file, argv, workdir, env, EXTENSION in message, by_shell)


def decode_descriptors(payload: bytes, received: int) -> list[int]:
    """The numbers the received descriptors shall have in the escalated program."""
    numbers = _object(payload, "SuperExecMessage").get("fds")
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise WireError("SuperExecMessage: fds is not a list of integers")
    if len(numbers) != received:
        raise WireError(
            "mismatched number of fds in SuperExecMessage: "
            f"{len(numbers)} in the message, {received} from the control message"
        )
    if len(set(numbers)) != len(numbers) or not all(0 <= number < 1 << 20 for number in numbers):
        raise WireError("SuperExecMessage: fds holds a number twice or one out of range")
    return numbers


def decode_signal(payload: bytes) -> int:
    """A relayed signal, 1 to 64 (signal(7))."""
    number = _object(payload, "signal").get("signal")
    if type(number) is not int or not 1 <= number <= 64:
        raise WireError("signal: not a signal number")
    return number


def _object(payload: bytes, what: str) -> dict[str, object]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{what}: not JSON ({type(error).__name__})") from None
    if not isinstance(message, dict):
        raise WireError(f"{what}: not an object")
    return message


def _string(message: dict[str, object], member: str) -> str:
    value = message.get(member)
    if not isinstance(value, str):
        raise WireError(f"{member} is not a string")
    return value
