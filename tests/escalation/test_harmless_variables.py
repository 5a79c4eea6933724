"""What anyone may set, and to what."""

import pytest

from codex_multitool.escalation.harmless_variables import harmless, may_be_unset


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LANG", "de_DE.UTF-8@euro"), ("LANGUAGE", "de:en"), ("LC_ALL", "C"), ("LANG", ""),
        ("TZ", "UTC"), ("TZ", "Europe/Berlin"), ("TZ", "CET-1CEST,M3.5.0,M10.5.0/3"),
        ("TZ", "<+03>-3"), ("TZ", ""), ("TERM", "xterm-256color"), ("COLUMNS", "80"),
        ("NO_COLOR", "1"), ("FORCE_COLOR", "3"), ("CI", "true"), ("CI", ""), ("DEBUG", "1"),
        ("PAGER", "cat"), ("GIT_PAGER", ""), ("GIT_PAGER", "/usr/bin/cat"), ("GIT_EDITOR", "true"),
        ("EDITOR", ":"), ("GIT_TRACE", "1"), ("LESS", "FRX"), ("LESS", "-R"), ("LESS", ""),
        ("GIT_AUTHOR_NAME", "A. (Ü) Name"), ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00+0100"),
        ("GIT_TERMINAL_PROMPT", "0"), ("RUST_LOG", "a::b=debug,info"), ("NODE_ENV", "production"),
        ("DEBIAN_FRONTEND", "noninteractive"), ("SOURCE_DATE_EPOCH", "1700000000"),
    ],
)  # fmt: skip
def test_the_harmless_is(name: str, value: str) -> None:
    assert harmless(name, value)
    assert may_be_unset(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LANG", "../../ws"), ("LANG", "() { :; }; evil"), ("LC_ALL", "/ws/locale"),
        ("LANGUAGE", "/ws"), ("TZ", ":/ws/zone"), ("TZ", "/ws/zone"), ("TZ", "a/../../ws"),
        ("TZ", "."), ("TERM", "/ws/term"), ("TERM", "../x"), ("COLUMNS", "a[$(evil)]"),
        ("COLUMNS", "80\n"), ("LINES", "9" * 99), ("CI", "$(evil)"), ("DEBUG", "evil"),
        ("PAGER", "evil"), ("PAGER", "cat; evil"), ("PAGER", "./cat"), ("PAGER", "/ws/bin/cat"),
        ("GIT_EDITOR", "true && evil"), ("GIT_TRACE", "/home/me/.bashrc"), ("GIT_TRACE", "7"),
        ("GIT_TRACE_REDACT", "0"), ("LESS", "-o/home/me/x"), ("LESS", "+!evil"),
        ("GIT_AUTHOR_NAME", "a\nb"), ("GIT_AUTHOR_NAME", "() { :; }; evil"),
        ("NODE_ENV", "../evil"), ("GIT_DIR", "."), ("FOO", ""), ("", ""),
    ],
)  # fmt: skip
def test_nothing_else_is(name: str, value: str) -> None:
    assert not harmless(name, value)
