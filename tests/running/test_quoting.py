"""What a human is shown of a command: what a shell would read, and nothing that deceives."""

import shlex
import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codex_multitool.running import quoting

# Words and what the reference showed for them: version 0.97.0, asked with a `prompt` rule.
AS_THE_REFERENCE = {
    "/a b": "'/a b'",
    "a=b": "'a=b'",
    "a%b": "'a%b'",
    "a,b": "'a,b'",
    "]": "]",
    "[": "'['",
    "~": "'~'",
    "": "''",
    "!": "'!'",
    "a!b": "'a!b'",
    "é": "'é'",
    "^": "'^'",
    "a^b": "a'^b'",
    "$x": "'$x'",
    '"': "'\"'",
    "'": '"\'"',
    "it's": '"it\'s"',
    "it's $x": "\"it's \"'$x'",
    "a\"b'c": '"a\\"b\'c"',
    "'\"": '"\'\\""',
    "!'": "'!'\"'\"",
    "^'": "'^'\"'\"",
    "a\\b": '"a\\\\b"',
    "{}": "'{}'",
    "#a": "'#a'",
    "a#": "'a#'",
    "@": "@",
    "+": "+",
    ":": ":",
    "-": "-",
    "=": "'='",
    "--x=1": "'--x=1'",
    "--opt=va l": "'--opt=va l'",
}
SPELLED_OUT = {
    "x\x1b[31m": r"$'x\x1b[31m'",
    "a\nb": r"$'a\nb'",
    "\t\r": r"$'\t\r'",
    "it's\x07": r"$'it\'s\x07'",
    "\\\x01": r"$'\\\x01'",
    "\x7f": r"$'\x7f'",
    "\x9b31m": r"$'\u009b31m'",
    "a\u202eb": r"$'a\u202eb'",
    "\u200b": r"$'\u200b'",
    "\u00a0": r"$'\u00a0'",
    "\u3164": r"$'\u3164'",
    "\U000e0041": r"$'\U000e0041'",
    "caf\udce9": r"$'caf\xe9'",
    "é\n": r"$'é\n'",
    "`": r"$'\x60'",
    "x` in `/safe": r"$'x\x60 in \x60/safe'",
}
argument = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@pytest.mark.parametrize(("word", "shown"), AS_THE_REFERENCE.items())
def test_harmless_words_look_as_the_reference_shows_them(word: str, shown: str) -> None:
    assert quoting.word(word) == shown


@pytest.mark.parametrize(("word", "shown"), SPELLED_OUT.items())
def test_what_acts_or_hides_or_ends_the_text_is_spelled_out(word: str, shown: str) -> None:
    assert quoting.word(word) == shown


@given(argument)
@example("`'\"\\^$!")
def test_what_is_shown_is_printable_and_holds_no_backtick(word: str) -> None:
    shown = quoting.word(word)
    assert shown.isprintable()
    assert "`" not in shown


@given(argument.filter(str.isprintable).filter(lambda word: "`" not in word))
@example("a'b\"c\\d^e$f!g")
def test_printable_words_are_what_any_shell_reads(word: str) -> None:
    if quoting.word(word).startswith("$'"):
        return  # an invisible letter: the next test
    assert shlex.split(quoting.word(word)) == [word]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@settings(max_examples=30)
@given(st.lists(argument | st.sampled_from(sorted([*AS_THE_REFERENCE, *SPELLED_OUT])), max_size=20))
def test_bash_reads_the_very_words(words: list[str]) -> None:
    line = quoting.command_line("printf", [r"%s\0", *words])
    done = subprocess.run(
        ["bash", "-c", line.encode("utf-8", "surrogateescape")],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    expected = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
    assert done.stdout == (expected or b"\0")


class TestCommandLine:
    def test_program_and_words(self) -> None:
        line = quoting.command_line("/usr/bin/touch", ["/a b", "c"])
        assert line == "/usr/bin/touch '/a b' c"

    def test_program_alone(self) -> None:
        assert quoting.command_line("/bin/true", []) == "/bin/true"

    @pytest.mark.parametrize(
        ("program", "shown"),
        [
            ("/home/é/git", "/home/é/git"),
            ("/opt/a+b=c,d/x", "/opt/a+b=c,d/x"),
            ("/tmp/git status", "'/tmp/git status'"),
            ("/tmp/'x", '"/tmp/\'x"'),
            ("/tmp/\x1b[2K", r"$'/tmp/\x1b[2K'"),
            ("/tmp/`", r"$'/tmp/\x60'"),
        ],
    )
    def test_a_path_is_quoted_where_it_could_be_mistaken(self, program: str, shown: str) -> None:
        assert quoting.command_line(program, []) == shown

    def test_a_directory_may_hold_spaces_but_no_backtick(self) -> None:
        assert quoting.directory("/my dir") == "/my dir"
        assert quoting.directory("/a` in `/b") == r"$'/a\x60 in \x60/b'"
        assert quoting.directory("/a\n") == r"$'/a\n'"

    def test_of_many_words_the_first_and_the_last_are_shown_and_the_rest_counted(self) -> None:
        words = [f"{number:04}" for number in range(10_000)]
        line = quoting.command_line("/bin/rm", words)
        head, _, tail = line.partition(" [... ")
        assert head.startswith("/bin/rm 0000 0001 ")
        count, _, tail = tail.partition(" characters left out ...] ")
        assert tail.endswith(" 9998 9999")
        shown = head.removeprefix("/bin/rm").replace(" ", "") + tail.replace(" ", "")
        assert int(count) + len(shown) == 40_000
        assert len(line) < 2 * quoting.MAX_ARGUMENTS

    def test_of_one_long_word_too(self) -> None:
        line = quoting.command_line("/bin/sh", ["-c", "true;" * 100_000 + "rm -rf /"])
        assert line.startswith("/bin/sh -c 'true;")
        assert line.endswith("rm -rf /'")
        assert len(line) < 2 * quoting.MAX_ARGUMENTS

    def test_just_what_fits_is_shown_whole(self) -> None:
        fits = "x" * (quoting.MAX_ARGUMENTS - 1)
        assert quoting.command_line("/x", [fits]) == f"/x {fits}"
        assert "left out" in quoting.command_line("/x", [fits + "x"])

    def test_a_word_that_looks_like_the_count_is_quoted(self) -> None:
        assert "'[... 7 characters left out ...]'" in quoting.command_line(
            "/x", ["[... 7 characters left out ...]"]
        )

    @given(st.lists(argument, max_size=5), st.integers(0, 12))
    def test_no_character_is_shown_twice_or_lost_uncounted(
        self, words: list[str], room: int
    ) -> None:
        limit, quoting.MAX_ARGUMENTS = quoting.MAX_ARGUMENTS, 2 * room
        try:
            head = quoting._first(words, room)
            tail = quoting._last(words, room)
            if sum(map(len, words)) + len(words) > 2 * room:
                whole = "\0".join(words)
                assert len("\0".join(head)) + len("\0".join(tail)) <= len(whole)
                assert whole.startswith("\0".join(head))
                assert whole.endswith("\0".join(tail))
        finally:
            quoting.MAX_ARGUMENTS = limit

    @settings(deadline=None)
    @given(st.lists(st.text(st.characters(codec="utf-8"), max_size=300), max_size=20))
    @example(["\x1b" * 10_000])
    @example(["x" * 100_000])
    @example(["x"] * 10_000)
    def test_no_more_is_shown_than_was_asked_for(self, words: list[str]) -> None:
        whole = quoting.command_line("/bin/x", words)
        shown = quoting.command_line("/bin/x", words, 400)
        assert len(shown) <= 400
        assert shown.startswith("/bin/x")
        assert shown == whole if len(whole) <= 400 else "left out" in shown

    @pytest.mark.parametrize("character", ["a", "\x1b", " ", "`"])
    @pytest.mark.parametrize("length", [10, 100, 101, 399, 400, 5000])
    def test_nor_of_a_path(self, character: str, length: int) -> None:
        name = "/" + character * length
        program, folder = quoting.command_line(name, ["a"], 400), quoting.directory(name, 400)
        assert len(program) <= 400
        assert len(folder) <= 400
        assert program.endswith(" a")
        assert ("left out" in folder) == (len(quoting.directory(name)) > 400)
