"""What is told of two states of protected names."""

import stat

import pytest

from codex_multitool.escalation.protected import (
    Change,
    Entry,
    Snapshot,
    changes,
    put_back,
    told,
    unseen,
)

FOLDER = Entry(stat.S_IFDIR, 0o755, (0, 0), b"")


def file(content: bytes = b"a", mode: int = 0o644, trace: tuple[int, ...] = (1,)) -> Entry:
    return Entry(stat.S_IFREG, mode, (0, 0), content, trace)


BEFORE = {"/w/.git": FOLDER, "/w/.git/config": file(), "/w/.git/hooks": FOLDER}


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (BEFORE, []),
        ({**BEFORE, "/w/.git/config": file(trace=(2,))}, []),
        ({**BEFORE, "/w/.git/config": file(b"b")}, ["wrote /w/.git/config"]),
        ({**BEFORE, "/w/.git/config": file(mode=0o755)}, ["changed the mode of /w/.git/config"]),
        ({**BEFORE, "/w/.git/hooks/x": file()}, ["wrote /w/.git/hooks/x"]),
        ({**BEFORE, "/w/.claude": FOLDER, "/w/.claude/x": file()}, ["wrote /w/.claude"]),
        ({**BEFORE, "/w/.git": file()}, ["wrote /w/.git"]),
        ({"/w/.git": FOLDER, "/w/.git/hooks": FOLDER}, ["removed /w/.git/config"]),
        ({}, ["removed /w/.git"]),
    ],
)
def test_what_became_of_what_was_there(after: Snapshot, found: list[str]) -> None:
    assert [f"{verb} {path}" for verb, path, _ in changes(BEFORE, after)] == found


def test_content_that_was_put_back_leaves_a_trace() -> None:
    after = {**BEFORE, "/w/.git/config": file(trace=(2,)), "/w/.git/hooks": FOLDER}
    assert put_back(BEFORE, after) == ("/w/.git/config",)
    assert put_back(BEFORE, BEFORE) == ()


def test_what_cannot_be_looked_at_is_named() -> None:
    assert unseen({**BEFORE, "/w/.claude": Entry(0, 0, (0, 0), b"too many files")}) == (
        ("/w/.claude", "too many files"),
    )


def test_a_sentence_is_short_and_drives_no_terminal() -> None:
    found = [Change("wrote", f"/w/{name}\x1b[2J") for name in range(9)]
    assert told([Change("removed", "/w/a"), Change("wrote", "/w/b"), Change("wrote", "/w/c")]) == (
        "a sandboxed command removed /w/a; wrote /w/b, /w/c"
    )
    assert told([Change("wrote", "/w/a"), Change("removed", "/w/b", doubtful=True)]) == (
        "a sandboxed command wrote /w/a; "
        "a sandboxed command or a program outside, nobody saw which, removed /w/b"
    )
    assert told(found).endswith(" and 4 more")
    assert "\x1b" not in told(found)
