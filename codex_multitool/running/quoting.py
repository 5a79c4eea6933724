"""Words of a command as a human is shown them: what a shell would read, and nothing else — pure.

Ordinary words look as the reference shows them. A character that a terminal acts on, that is
invisible, or that could end the text around it, is always spelled out.
"""

from collections.abc import Sequence

# Arguments may have 2 MiB (execve(2)); no human reads more than this, nor is more worth quoting.
MAX_ARGUMENTS = 8192
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-./:@]_")
_NOT_IN_SINGLE = frozenset("'\\")
_NOT_IN_DOUBLE = frozenset("`$!^")
_IN_DOUBLE_ESCAPED = frozenset('"\\')
# Printable to str.isprintable(), and yet nothing is seen of them; and what ends a code span.
_DECEIVING = frozenset(
    "`\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10)))
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}


def command_line(program: str, arguments: Sequence[str]) -> str:
    """The program's path and its arguments; of very long ones the beginning and the end."""
    shown = [path(program)]
    if sum(map(len, arguments)) + len(arguments) <= MAX_ARGUMENTS:
        shown += map(word, arguments)
    else:
        head = _first(arguments, MAX_ARGUMENTS // 2)
        tail = _last(arguments, MAX_ARGUMENTS // 2)
        left_out = sum(map(len, arguments)) - sum(map(len, head + tail))
        shown += [*map(word, head), f"[... {left_out} characters left out ...]", *map(word, tail)]
    return " ".join(shown)


def path(name: str) -> str:
    """A path as it is, unless it could be mistaken for something else."""
    plain = _shows_itself(name) and not any(c.isspace() or c in "'\"\\" for c in name)
    return name if plain else word(name)


def directory(name: str) -> str:
    """A path that stands alone: it may hold spaces."""
    return name if _shows_itself(name) else word(name)


def word(text: str) -> str:
    """One word, quoted as the reference does where it is harmless to look at."""
    if not text:
        return "''"
    if not _shows_itself(text):
        return "$'" + "".join(map(_spelled, text)) + "'"
    return "".join(_pieces(text))


def _first(words: Sequence[str], room: int) -> list[str]:
    found: list[str] = []
    for text in words:
        if room <= 0:
            break
        found.append(text[:room])
        room -= len(text) + 1
    return found


def _last(words: Sequence[str], room: int) -> list[str]:
    found: list[str] = []
    for text in reversed(words):
        if room <= 0:
            break
        found.append(text[-room:])
        room -= len(text) + 1
    return found[::-1]


def _shows_itself(text: str) -> bool:
    return text.isprintable() and _DECEIVING.isdisjoint(text)


def _pieces(text: str) -> list[str]:
    """The longest pieces that one kind of quotes can hold: none, else single, else double."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end, kind = start, ""
        fit = {"plain", "single", "double"}
        while end < len(text):
            fit = {kind for kind in fit if _fits(text[end], kind, first=end == start)}
            if not fit:
                break
            kind = next(kind for kind in ("plain", "single", "double") if kind in fit)
            end += 1
        pieces.append(_quoted(text[start:end], kind))
        start = end
    return pieces


def _fits(character: str, kind: str, *, first: bool) -> bool:
    match kind:
        case "plain":
            return character in _PLAIN
        case "single":
            # An old shell takes a caret for a pipe unless the quotes begin with it.
            return character not in _NOT_IN_SINGLE and (character != "^" or first)
        case _:
            return character not in _NOT_IN_DOUBLE


def _quoted(text: str, kind: str) -> str:
    match kind:
        case "plain":
            return text
        case "single":
            return f"'{text}'"
        case _:
            return '"' + "".join("\\" * (c in _IN_DOUBLE_ESCAPED) + c for c in text) + '"'


def _spelled(character: str) -> str:
    """One character between $' and ', as bash and zsh read it."""
    if character in _NAMED:
        return _NAMED[character]
    if _shows_itself(character):
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte, as os.fsdecode keeps it
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
