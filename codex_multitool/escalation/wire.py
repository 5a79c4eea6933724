"""What the exec wrapper and the server say to each other: frames, messages, environment names.

A wrapper announces itself by one datagram that carries one end of a stream socket pair. On that
stream each frame is a 32-bit little-endian length and that much JSON; descriptors ride on the
first byte of a frame. The order is request, response, and after `Escalate` descriptors and result.

Strings are paths and arguments as `os.fsdecode` gives them: JSON carries the surrogate escapes, so
any bytes survive between two ends of this codec, and UTF-8 keeps the shape other peers know.
Nothing here does I/O. Whatever a peer sends is decoded to one of the types below or a WireError.
"""

from codex_multitool.json_text import JSONTextError, decode

SOCKET_VARIABLE = "CODEX_ESCALATE_SOCKET"
WRAPPER_VARIABLE = "EXEC_WRAPPER"
OLDER_WRAPPER_VARIABLE = "BASH_EXEC_WRAPPER"
# The same number once more: a shell that finds both alike may ask there in the wrapper's stead.
SHELL_SOCKET_VARIABLE = "CODEX_ESCALATE_SHELL_SOCKET"
PRIVATE_VARIABLES = frozenset(
    {SOCKET_VARIABLE, WRAPPER_VARIABLE, OLDER_WRAPPER_VARIABLE, SHELL_SOCKET_VARIABLE}
)

HANDSHAKE = b"\0"
HEADER_SIZE = 4
# Linux caps argv and envp at 6 MiB together (execve(2)); JSON escapes can double the usual case.
MAX_FRAME = 16 * 1024 * 1024
MAX_DESCRIPTORS = 253  # SCM_MAX_FD: what one message can carry, unix(7)
# The member by which two ends of this codec know each other; any other peer ignores it.
EXTENSION = "codex_multitool"
EXTENSION_VERSION = 1
SHELL = "shell"  # the member by which a patched shell says that it asks itself


class WireError(Exception):
    """The peer sent something this protocol does not allow; the text says what."""


class EscalateRequest:
    """One exec that the shell is about to do.

    file: str, as the caller names it, perhaps relative to workdir. argv: list[str], argv[0]
    included, perhaps empty. workdir: str, absolute. env: dict[str, str].
    extended: the peer sends every descriptor, relays signals and understands `signal` in a result.
    by_shell: the peer understands "Run" and nothing else; its wrapper asks anew.
    """

    __slots__ = ("argv", "by_shell", "env", "extended", "file", "workdir")

    def __init__(
        self,
        file: str,
        argv: list[str],
        workdir: str,
        env: dict[str, str],
        extended: bool,
        by_shell: bool = False,
    ) -> None:
        self.file = file
        self.argv = argv
        self.workdir = workdir
        self.env = env
        self.extended = extended
        self.by_shell = by_shell


class EscalateResponse:
    """The answer: action is "Run", "Escalate" or "Deny"; reason goes with Deny only."""

    __slots__ = ("action", "extended", "reason")

    def __init__(self, action: str, reason: str | None = None, extended: bool = False) -> None:
        self.action = action
        self.reason = reason
        self.extended = extended


class SuperExecResult:
    """How the escalated program ended: its exit code, or 128 + signal and the signal."""

    __slots__ = ("exit_code", "signal")

    def __init__(self, exit_code: int, signal: int | None = None) -> None:
        self.exit_code = exit_code
        self.signal = signal


def frame(message: dict[str, object]) -> bytes:
    """A message as it goes over the stream: length, then compact JSON."""
    payload = _encoded(message).encode("ascii")
    if len(payload) > MAX_FRAME:
        raise WireError(f"message too large: {len(payload)} bytes, at most {MAX_FRAME}")
    return len(payload).to_bytes(HEADER_SIZE, "little") + payload


def payload_length(header: bytes) -> int:
    """The length a frame header announces; WireError when it is more than MAX_FRAME."""
    length = int.from_bytes(header, "little")
    if length > MAX_FRAME:
        raise WireError(f"frame of {length} bytes announced, at most {MAX_FRAME} are taken")
    return length


def encode_request(request: EscalateRequest) -> dict[str, object]:
    """The message of a request."""
    message: dict[str, object] = {
        "file": request.file,
        "argv": request.argv,
        "workdir": request.workdir,
        "env": request.env,
    }
    if request.extended:
        message[EXTENSION] = EXTENSION_VERSION
    return message


def encode_response(response: EscalateResponse) -> dict[str, object]:
    """The message of a response."""
    action: object = response.action
    if response.action == "Deny":
        action = {"Deny": {"reason": response.reason}}
    message: dict[str, object] = {"action": action}
    if response.extended:
        message[EXTENSION] = EXTENSION_VERSION
    return message


def decode_response(payload: bytes) -> EscalateResponse:
    """A response from a frame's payload."""
    message = _object(payload, "EscalateResponse")
    action = message.get("action")
    if action in ("Run", "Escalate"):
        return EscalateResponse(str(action), extended=EXTENSION in message)
    if isinstance(action, dict) and isinstance(action.get("Deny"), dict):
        reason = action["Deny"].get("reason")
        if reason is None or isinstance(reason, str):
            return EscalateResponse("Deny", reason)
    raise WireError("EscalateResponse: action is none of Run, Escalate, Deny")


def encode_descriptors(numbers: list[int]) -> dict[str, object]:
    """The message that goes along with the caller's descriptors, in the same order."""
    return {"fds": numbers}


def encode_result(result: SuperExecResult) -> dict[str, object]:
    """The message that ends an escalation."""
    message: dict[str, object] = {"exit_code": result.exit_code}
    if result.signal is not None:
        message["signal"] = result.signal
    return message


def decode_result(payload: bytes) -> SuperExecResult:
    """A result from a frame's payload."""
    message = _object(payload, "SuperExecResult")
    code, signal = message.get("exit_code"), message.get("signal")
    if type(code) is not int or not (signal is None or type(signal) is int):
        raise WireError("SuperExecResult: exit_code or signal is not an integer")
    return SuperExecResult(code, signal)


def encode_signal(number: int) -> dict[str, object]:
    """A signal the stand-in got, for the escalated program (extension)."""
    return {"signal": number}


def _object(payload: bytes, what: str) -> dict[str, object]:
    try:
        message = decode(payload.decode("utf-8", "surrogatepass"))
    except (JSONTextError, UnicodeDecodeError) as error:
        raise WireError(f"{what}: not JSON ({type(error).__name__})") from None
    if not isinstance(message, dict):
        raise WireError(f"{what}: not an object")
    return message


def _encoded(value: object) -> str:
    """Compact JSON (RFC 8259) in ASCII."""
    match value:
        case str():
            plain = value.isascii() and value.isprintable() and not ('"' in value or "\\" in value)
            return f'"{value}"' if plain else f'"{value.translate(_ESCAPES)}"'
        case list():
            return f"[{','.join(map(_encoded, value))}]"
        case dict():
            return f"{{{','.join(f'{_encoded(k)}:{_encoded(v)}' for k, v in value.items())}}}"
        case None:
            return "null"
        case int() if not isinstance(value, bool):
            return str(value)
        case _:
            raise TypeError(f"no message holds {type(value).__name__}")


class _Escapes(dict[int, str]):
    """Code points to what stands for them within a JSON string."""

    def __missing__(self, point: int) -> str:
        if point < 0x1_0000:
            return f"\\u{point:04x}"
        high, low = divmod(point - 0x1_0000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


_ESCAPES = _Escapes((point, chr(point)) for point in range(0x20, 0x7F))
_ESCAPES.update({ord('"'): '\\"', ord("\\"): "\\\\"})
