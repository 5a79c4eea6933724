"""Words of an example: POSIX quoting, with comments."""

import pytest

from codex_multitool.execpolicy.shell_words import UnbalancedError, split


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\n", []),
        ("git  push\torigin\nmain", ["git", "push", "origin", "main"]),
        ("'a'\"b\"c", ["abc"]),
        ("a '' \"\"", ["a", "", ""]),
        ("'a\\'b", ["a\\b"]),
        (r"a\ b \'c", ["a b", "'c"]),
        (r'"\$a \`b \"c \\d \x"', [r'$a `b "c \d \x']),
        ("a\\\nb", ["ab"]),
        ('"a\\\nb"', ["ab"]),
        ("a \\\n b", ["a", "", "b"]),  # the original's reading, not the shell's
        ("# c\na # d\n#", ["a"]),
        ("a#b '#' \\#", ["a#b", "#", "#"]),
        ("a\rb\u00a0c", ["a\rb\u00a0c"]),
        ("$x `y` *", ["$x", "`y`", "*"]),
    ],
)
def test_splits(text: str, words: list[str]) -> None:
    assert split(text) == words


@pytest.mark.parametrize("text", ["'", '"', "a 'b", 'a "b\\', 'a "b\\"', "a\\", "a \\"])
def test_refuses_what_a_shell_would_wait_on(text: str) -> None:
    with pytest.raises(UnbalancedError):
        split(text)
