"""A reader of JSON (RFC 8259) for texts as short as a policy.

The standard module brings re, enum and functools with it: 5 to 9 ms, in a role whose whole start
is to take 15. Here a depth is refused that the standard one would recurse into, and so is a name
given twice, since two readers of such a text may see two policies.
"""

MAX_DEPTH = 32

_WHITESPACE = " \t\n\r"
_DIGITS = "0123456789"
_HEXADECIMAL = "0123456789abcdefABCDEF"
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_LITERALS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


class JSONTextError(ValueError):
    """The text is not JSON; says what is wrong, and at which character."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(f"{what} at character {at}")


def decode(text: str) -> object:
    """The value that a JSON text spells: dict, list, str, int, float, bool or None."""
    reader = _Reader(text)
    value = reader.value(0)
    reader.skip_whitespace()
    if reader.at != len(text):
        raise JSONTextError("more text", reader.at)
    return value


class _Reader:
    """A text and how far it has been read."""

    __slots__ = ("at", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip_whitespace(self) -> None:
        text, at = self.text, self.at
        while at < len(text) and text[at] in _WHITESPACE:
            at += 1
        self.at = at

    def _peek(self) -> str:
        """The next character, "" at the end."""
        return self.text[self.at : self.at + 1]

    def _take(self, character: str) -> bool:
        """Step over white space and, if it comes next, this character."""
        self.skip_whitespace()
        if self._peek() != character:
            return False
        self.at += 1
        return True

    def _require(self, character: str) -> None:
        if not self._take(character):
            raise JSONTextError(f"expected {character!r}", self.at)

    def value(self, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise JSONTextError("nested too deep", self.at)
        self.skip_whitespace()
        first = self._peek()
        match first:
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                return self._string()
            case "t" | "f" | "n":
                word, value = _LITERALS[first]
                if not self.text.startswith(word, self.at):
                    raise JSONTextError("expected a value", self.at)
                self.at += len(word)
                return value
            case _:
                return self._number()

    def _object(self, depth: int) -> dict[str, object]:
        self.at += 1
        fields: dict[str, object] = {}
        if self._take("}"):
            return fields
        while True:
            self.skip_whitespace()
            if self._peek() != '"':
                raise JSONTextError("expected a name", self.at)
            start = self.at
            name = self._string()
            if name in fields:
                raise JSONTextError(f"`{name}` is given twice,", start)
            self._require(":")
            fields[name] = self.value(depth + 1)
            if not self._take(","):
                self._require("}")
                return fields

    def _array(self, depth: int) -> list[object]:
        self.at += 1
        items: list[object] = []
        if self._take("]"):
            return items
        while True:
            items.append(self.value(depth + 1))
            if not self._take(","):
                self._require("]")
                return items

    def _string(self) -> str:
        text, at = self.text, self.at + 1
        parts: list[str] = []
        start = at
        while at < len(text) and text[at] != '"':
            if text[at] < " ":
                raise JSONTextError("a control character", at)
            if text[at] != "\\":
                at += 1
                continue
            parts.append(text[start:at])
            character, at = self._escape(at + 1)
            parts.append(character)
            start = at
        if at == len(text):
            raise JSONTextError("a string without an end", self.at)
        parts.append(text[start:at])
        self.at = at + 1
        return "".join(parts)

    def _escape(self, at: int) -> tuple[str, int]:
        """What an escape after its backslash stands for, and where it ends."""
        letter = self.text[at : at + 1]
        if letter in _ESCAPES:
            return _ESCAPES[letter], at + 1
        if letter != "u":
            raise JSONTextError("an unknown escape", at)
        unit = self._code_unit(at + 1)
        at += 5
        if 0xD800 <= unit < 0xDC00 and self.text.startswith("\\u", at):
            low = self._code_unit(at + 2)
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), at + 6
        return chr(unit), at

    def _code_unit(self, at: int) -> int:
        digits = self.text[at : at + 4]
        if len(digits) != 4 or not all(digit in _HEXADECIMAL for digit in digits):
            raise JSONTextError("expected four hexadecimal digits", at)
        return int(digits, 16)

    def _digits(self) -> int:
        """Step over digits; how many there were."""
        start = self.at
        while self._peek() and self._peek() in _DIGITS:
            self.at += 1
        return self.at - start

    def _number(self) -> int | float:
        start = self.at
        if self._peek() == "-":
            self.at += 1
        zero = self._peek() == "0"
        count = self._digits()
        if not count or (zero and count > 1):
            raise JSONTextError("expected a value", start)
        whole = True
        if self._peek() == ".":
            whole = False
            self.at += 1
            if not self._digits():
                raise JSONTextError("expected a digit", self.at)
        if self._peek() in ("e", "E"):
            whole = False
            self.at += 1
            if self._peek() in ("+", "-"):
                self.at += 1
            if not self._digits():
                raise JSONTextError("expected a digit", self.at)
        number = self.text[start : self.at]
        if len(number) > 1000:
            raise JSONTextError("a number too long", start)
        return int(number) if whole else float(number)
