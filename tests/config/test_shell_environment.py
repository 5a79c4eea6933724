"""What of the server's environment commands get."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.config.shell_environment import EnvironmentPolicy, shell_environment

SERVER = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "USER": "me",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "TERM": "xterm",
    "TZ": "UTC",
    "XDG_RUNTIME_DIR": "/run/user/1000",
    "SSH_AUTH_SOCK": "/run/agent",
    "AWS_REGION": "eu",
    "API_KEY": "1",
    "SECRET_TOKEN": "2",
    "my_secret": "3",
    "Path": "not Windows",
}
CORE = {"PATH", "HOME", "USER", "LANG", "LC_TIME", "TERM", "TZ"}
EVERYTHING = EnvironmentPolicy(inherit="all", ignore_default_excludes=True)


def names(policy: EnvironmentPolicy, environ: dict[str, str] = SERVER) -> set[str]:
    found = shell_environment(policy, environ)
    assert all(environ.get(name) == value for name, value in found.items())
    return set(found)


def test_without_a_policy_the_core_alone_is_inherited() -> None:
    assert names(EnvironmentPolicy()) == CORE


def test_the_core_is_all_of_these() -> None:
    core = ["HOME", "LOGNAME", "PATH", "SHELL", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"]
    core += ["LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_x", "TERM", "TZ"]
    others = ["TERMINFO", "LC", "home", "TZDIR", "LANGUAGES", "PWD", "DISPLAY", "LD_PRELOAD"]
    environ = {name: name for name in core + others}
    assert names(EnvironmentPolicy(), environ) == set(core)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (EVERYTHING, set(SERVER)),
        (EnvironmentPolicy(inherit="none"), set()),
        (EnvironmentPolicy(inherit="all"), set(SERVER) - {"API_KEY", "SECRET_TOKEN", "my_secret"}),
        (EnvironmentPolicy(exclude=("t?*",)), CORE - {"TERM", "TZ"}),
        (EnvironmentPolicy(exclude=("T?",)), CORE - {"TZ"}),
        (EnvironmentPolicy(exclude=("*",)), set()),
        (EnvironmentPolicy(exclude=("P", "ATH", "")), CORE),
        (EnvironmentPolicy(include_only=("*PATH",)), {"PATH"}),
        (EnvironmentPolicy(inherit="all", include_only=("*path",)), {"PATH", "Path"}),
        (EnvironmentPolicy(inherit="all", include_only=("aws_*", "T?")), {"AWS_REGION", "TZ"}),
        (EnvironmentPolicy(inherit="all", include_only=("*KEY*",)), set()),
        (EnvironmentPolicy(exclude=("HOME",), include_only=("HOME", "USER")), {"USER"}),
    ],
    # In one order: whoever runs the tests side by side must find the same ones.
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)  # fmt: skip
def test_what_comes_through(policy: EnvironmentPolicy, expected: set[str]) -> None:
    assert names(policy) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (EnvironmentPolicy(inherit="none", set={"A": "b"}), {"A": "b"}),
        # What is set is subject neither to the secrets' names nor to `exclude` ...
        (EnvironmentPolicy(inherit="none", set={"A_KEY": "b"}), {"A_KEY": "b"}),
        (EnvironmentPolicy(inherit="none", exclude=("A",), set={"A": "b"}), {"A": "b"}),
        # ... but to `include_only`.
        (EnvironmentPolicy("none", set={"A": "b", "C": "d"}, include_only=("c",)), {"C": "d"}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_set(policy: EnvironmentPolicy, expected: dict[str, str]) -> None:
    assert shell_environment(policy, SERVER) == expected


def test_what_is_set_replaces_what_is_inherited() -> None:
    assert shell_environment(EnvironmentPolicy(set={"PATH": "/bin"}), SERVER)["PATH"] == "/bin"


# The cases of the original, whose defaults were all variables, secrets included.
ORIGINAL = {"PATH": "/usr/bin", "HOME": "/home/user", "API_KEY": "secret", "SECRET_TOKEN": "t"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (EVERYTHING, ORIGINAL),
        (EnvironmentPolicy(inherit="all"), {"PATH": "/usr/bin", "HOME": "/home/user"}),
        (
            EnvironmentPolicy("all", ignore_default_excludes=True, include_only=("*PATH",)),
            {"PATH": "/usr/bin"},
        ),
        (
            EnvironmentPolicy("all", ignore_default_excludes=True, set={"NEW_VAR": "42"}),
            {**ORIGINAL, "NEW_VAR": "42"},
        ),
        (EnvironmentPolicy("none", set={"ONLY_VAR": "yes"}), {"ONLY_VAR": "yes"}),
        (EnvironmentPolicy("core"), {"PATH": "/usr/bin", "HOME": "/home/user"}),
    ],
    ids=["all", "default excludes", "include only", "set", "none and set", "core"],
)  # fmt: skip
def test_the_originals_cases(policy: EnvironmentPolicy, expected: dict[str, str]) -> None:
    assert shell_environment(policy, ORIGINAL) == expected


@pytest.mark.parametrize("special", ["[A]", "A.C", "A+", "^A", "A$", "A|B", "(A)", "A\\C", "{A}"])
def test_only_star_and_question_mark_are_special(special: str) -> None:
    environ = {special: "", "A": "", "ABC": "", "AA": "", "B": ""}
    assert names(EnvironmentPolicy("all", include_only=(special,)), environ) == {special}


def test_names_that_are_not_utf8_and_pattern_of_many_stars_match() -> None:
    environ = {"A\udcffB": "", "A" * 100: ""}
    policy = EnvironmentPolicy("all", include_only=("a?b", "a*" * 40 + "b"))
    assert names(policy, environ) == {"A\udcffB"}


def reference(pattern: str, name: str) -> bool:
    """The definition, by cases."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return reference(pattern[1:], name) or (bool(name) and reference(pattern, name[1:]))
    same = name and (pattern[0] == "?" or pattern[0].lower() == name[0].lower())
    return bool(same) and reference(pattern[1:], name[1:])


@given(st.text("aB*?.[", max_size=6), st.text("AbB.[\n", min_size=1, max_size=6))
def test_a_pattern_matches_as_defined(pattern: str, name: str) -> None:
    policy = EnvironmentPolicy("all", include_only=(pattern or "x",))
    assert (names(policy, {name: ""}) == {name}) == reference(pattern or "x", name)


@given(
    st.builds(
        EnvironmentPolicy,
        st.sampled_from(["all", "core", "none"]),
        st.booleans(),
        st.lists(st.text("A*?", min_size=1, max_size=3), max_size=2).map(tuple),
        st.just({}),
        st.just(()),
    ),
    st.dictionaries(st.sampled_from(["A", "AA", "KEY", "HOME", "LC_A"]), st.text(max_size=2)),
)
def test_nothing_comes_from_nowhere(policy: EnvironmentPolicy, environ: dict[str, str]) -> None:
    found = shell_environment(policy, environ)
    assert found.items() <= environ.items()
    if not policy.ignore_default_excludes:
        assert not any(re.search("KEY|SECRET|TOKEN", name, re.IGNORECASE) for name in found)
