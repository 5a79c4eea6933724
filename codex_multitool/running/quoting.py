"""Words of a command as a human is shown them: what a shell would read, and nothing else — pure.

Ordinary words look as the reference shows them. A character that a terminal acts on, that is
invisible, or that could end the text around it, is always spelled out.
"""

from collections.abc import Callable, Sequence

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


def command_line(program: str, arguments: Sequence[str], most: int | None = None) -> str:
    """The program's path and its arguments; of very long ones the beginning and the end.

    most: characters to show of them, however much longer they are spelled out.
    """
    shown = path(program) if most is None else _within(most // 2, program, path)
    room = MAX_ARGUMENTS if most is None else most - len(shown)
    line = " ".join([shown, *_arguments(arguments, room)])
    while most is not None and len(line) > most and room > 0:
        room = room * 3 // 4
        line = " ".join([shown, *_arguments(arguments, room)])
    return line


def _arguments(arguments: Sequence[str], room: int) -> list[str]:
    if sum(map(len, arguments)) + len(arguments) <= room:
        return [word(text) for text in arguments]
    head, tail = _first(arguments, room // 2), _last(arguments, room // 2)
    left_out = sum(map(len, arguments)) - sum(map(len, head + tail))
    return [*map(word, head), _left_out(left_out), *map(word, tail)]


def path(name: str) -> str:
    """A path as it is, unless it could be mistaken for something else."""
    plain = _shows_itself(name) and not any(c.isspace() or c in "'\"\\" for c in name)
    return name if plain else word(name)


def directory(name: str, most: int | None = None) -> str:
    """A path that stands alone: it may hold spaces. most: characters to show of it."""
    if most is not None:
        return _within(most, name, directory)
    return name if _shows_itself(name) else word(name)


def shortened(text: str, most: int) -> str:
    """Text as it is, of a long one the beginning and the end."""
    return _within(most, text, str)


def word(text: str) -> str:
    """One word, quoted as the reference does where it is harmless to look at."""
    if not text:
        return "''"
    if not _shows_itself(text):
        return "$'" + "".join(map(_spelled, text)) + "'"
    return "".join(_pieces(text))


def _within(most: int, text: str, shown: Callable[[str], str]) -> str:
    """`shown(text)`; where that is longer, its first and its last characters, each shown."""
    found, half = shown(text[: most + 1]), min(most, len(text)) // 2
    if len(text) <= most and len(found) <= most:
        return found
    while half > 0:
        left_out = _left_out(len(text) - 2 * half)
        found = f"{shown(text[:half])} {left_out} {shown(text[-half:])}"
        if len(found) <= most:
            return found
        half = half * 3 // 4
    return _left_out(len(text))


def _left_out(count: int) -> str:
    return f"[... {count} characters left out ...]"


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
