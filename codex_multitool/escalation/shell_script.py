"""The simple commands that stand literally in a shell script: a tolerant splitter, not a parser.

It finds the commands of lists, pipelines, groups, compound commands, functions and substitutions,
each as the words it would run with: quotes removed, expansions left as text. It never fails and
takes linear time. What a script computes (`$x`, eval of a variable) it cannot know, so
what it finds is a reason to ask, never a reason to trust. POSIX XCU 2.2, 2.3, 2.9, bash(1). Pure.
"""

import re

_TOKEN = re.compile(
    r"""
    (?P<joined>  \\\n )
  | (?P<blank>   [ \t]+ )
  | (?P<newline> \n )
  | (?P<redirect> [0-9]*(?: <<< | <<-? | <> | <& | >> | >& | >\| | <(?!\() | >(?!\() ) | &>>? )
  | (?P<open>    \$\(\(? | [<>]\( | \(\(? )
  | (?P<close>   \) )
  | (?P<backtick> ` )
  | (?P<separator> [;&|] )
  | (?P<ansi>    \$'(?:[^'\\]|\\.)*'? )
  | (?P<single>  '[^']*'? )
  | (?P<double>  \$?" )
  | (?P<brace>   \$\{ )
  | (?P<escape>  \\.? )
  | (?P<hash>    \# )
  | (?P<plain>   [^ \t\n\\'"`$;&|<>()\#]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
# Inside double quotes and here-documents only these mean something.
_TEXT = r"""
    (?P<joined>   \\\n )
  | (?P<open>     \$\(\(? )
  | (?P<backtick> ` )
  | (?P<brace>    \$\{ )
  | (?P<escape>   \\.? )
  | (?P<quote>    " )
  | (?P<end>      \} )
  | (?P<plain>    [^\\`$"}']+ | . )
"""
_TEXT_TOKEN = re.compile(_TEXT, re.VERBOSE | re.DOTALL)
# Inside `${...}` single quotes count too, unless it stands in double quotes: POSIX XCU 2.6.2.
_BRACE_TOKEN = re.compile(rf"(?P<single> '[^']*'? ) | {_TEXT}", re.VERBOSE | re.DOTALL)
# Reserved words that a command may follow.
_PREFIXES = frozenset((
    "!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "coproc",
))  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(?:\[[^]]*\])?\+?=")
_EXPANSION = "$()"  # what stands for a substitution in the word it is part of


class _Frame:
    """One level of nesting. ending: what closes it. tokens: what its text is made of.

    pieces: of the word in progress. redirect: the operator that the next word belongs to. cases:
    open `case` commands, whose patterns end with `)`.
    """

    __slots__ = (
        *("ending", "tokens", "substitution", "arithmetic", "words", "pieces", "quoted"),
        *("redirect", "cases"),
    )

    def __init__(
        self,
        ending: str,
        tokens: re.Pattern[str] = _TOKEN,
        *,
        substitution: bool = False,
        arithmetic: bool = False,
        pieces: list[str] | None = None,
    ) -> None:
        self.ending = ending
        self.tokens = tokens
        self.substitution = substitution
        self.arithmetic = arithmetic
        self.words: list[str] = []
        self.pieces = pieces
        self.quoted = False
        self.redirect = ""
        self.cases = 0

    @property
    def text(self) -> bool:
        """It holds characters, not words."""
        return self.tokens is not _TOKEN


def simple_commands(script: str) -> list[list[str]]:
    """Every simple command found, as its words, none empty."""
    scanner = _Scanner()
    scanner.scan(script, _Frame(""))
    for body in tuple(scanner.bodies):
        # Documents within documents are read as commands: one pass more, not one per level.
        scanner.scan(body, _Frame("", _TEXT_TOKEN, pieces=[]), documents=False)
    return scanner.commands


class _Scanner:
    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.bodies: list[str] = []  # of here-documents whose expansions the shell performs
        self._reads_documents = True
        self._documents: list[tuple[str, bool, bool]] = []  # delimiter, tabs stripped, quoted
        self._stack: list[_Frame] = []

    def scan(self, text: str, frame: _Frame, documents: bool = True) -> None:
        self._reads_documents = documents
        self._documents = []
        self._stack = [frame]
        position = 0
        while position < len(text):
            top = self._stack[-1]
            token = top.tokens.match(text, position)
            assert token is not None  # the last alternative takes any character
            position = token.end()
            kind = str(token.lastgroup)
            if kind == "joined":
                continue
            if top.text:
                self._in_text(top, kind, token.group())
            elif kind == "newline":
                self._end_command(top)
                position = self._skip_documents(text, position)
            elif kind == "hash" and top.pieces is None:
                end = text.find("\n", position)
                position = len(text) if end < 0 else end
            else:
                self._in_commands(top, kind, token.group())
        while self._stack:
            self._pop()

    def _in_commands(self, top: _Frame, kind: str, text: str) -> None:
        match kind:
            case "blank":
                self._end_word(top)
            case "separator":
                self._end_command(top)
            case "redirect":
                self._end_word(top)
                top.redirect = text.lstrip("0123456789")
            case "open" if text.startswith("("):
                self._end_command(top)
                self._open(text)
            case "close":
                self._end_command(top)
                if top.ending == ")" and not top.cases:
                    self._pop()
            case "single" | "ansi":
                top.quoted = True
                _add(top, text.removeprefix("$")[1:].removesuffix("'"))
            case "escape":
                top.quoted = True
                _add(top, text[1:])
            case "double":
                top.quoted = True
                self._stack.append(_Frame('"', _TEXT_TOKEN, pieces=[]))
            case _:
                self._nested(top, kind, text)

    def _in_text(self, top: _Frame, kind: str, text: str) -> None:
        match kind:
            case "quote" if top.ending == '"':
                self._pop()
            case "quote" if top.ending == "}":
                self._stack.append(_Frame('"', _TEXT_TOKEN, pieces=[]))
            case "end" if top.ending == "}":
                self._pop()
            case "single":
                _add(top, text[1:].removesuffix("'"))
            case "escape":
                _add(top, text[1:] if text[1:] in '"\\$`' else text)
            case _:
                self._nested(top, kind, text)

    def _nested(self, top: _Frame, kind: str, text: str) -> None:
        match kind:
            case "open":
                self._open(text)
            case "backtick" if top.ending == "`":
                self._pop()
            case "backtick":
                self._stack.append(_Frame("`", substitution=True))
            case "brace":
                _add(top, "$")
                tokens = _TEXT_TOKEN if top.tokens is _TEXT_TOKEN else _BRACE_TOKEN
                self._stack.append(_Frame("}", tokens, pieces=[]))
            case _:
                _add(top, text)

    def _open(self, text: str) -> None:
        # In `((` and `$((` a `<<` is a shift, not a here-document.
        arithmetic = text.endswith("((")
        self._stack.append(_Frame(")", substitution=text[0] != "(", arithmetic=arithmetic))
        if arithmetic:
            self._stack.append(_Frame(")", arithmetic=True))

    def _pop(self) -> None:
        frame = self._stack.pop()
        if not frame.text:
            self._end_command(frame)
        if not self._stack:
            return
        if frame.text:
            _add(self._stack[-1], "".join(frame.pieces or ()))
        elif frame.substitution:
            _add(self._stack[-1], _EXPANSION)

    def _end_word(self, frame: _Frame) -> None:
        if frame.pieces is None:
            return
        word = "".join(frame.pieces)
        if not frame.redirect:
            frame.words.append(word)
        elif frame.redirect in ("<<", "<<-") and self._reads_documents and not frame.arithmetic:
            self._documents.append((word, frame.redirect == "<<-", frame.quoted))
        frame.pieces, frame.quoted, frame.redirect = None, False, ""

    def _end_command(self, frame: _Frame) -> None:
        self._end_word(frame)
        words = _without_prefixes(frame.words)
        frame.words, frame.redirect = [], ""
        if not words:
            return
        if words[0] == "case":
            frame.cases += 1
        elif words[0] == "esac":
            frame.cases = max(0, frame.cases - 1)
        else:
            self.commands.append(words)

    def _skip_documents(self, text: str, position: int) -> int:
        """The position after the bodies of the here-documents that begin at `position`."""
        for delimiter, tabs, quoted in self._documents:
            start = position
            while position < len(text):
                end = text.find("\n", position)
                end = len(text) if end < 0 else end
                line = text[position:end]
                position = end + 1
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
            if not quoted:
                self.bodies.append(text[start:position])
        self._documents = []
        return position


def _add(frame: _Frame, piece: str) -> None:
    if frame.pieces is None:
        frame.pieces = []
    frame.pieces.append(piece)


def _without_prefixes(words: list[str]) -> list[str]:
    """The command without reserved words, assignments, and expansions before its name."""
    index = 0
    while index < len(words):
        word = words[index]
        if word == "function":
            index += 2
        elif word in _PREFIXES or word.startswith("$") or _ASSIGNMENT.match(word):
            index += 1
        else:
            break
    return words[index:]
