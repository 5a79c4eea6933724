"""A question that misleads, and what happens while it is open."""

from __future__ import annotations

import mmap
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.attack import Sandbox
from tests.attacks.conftest import MODES, Serve
from tests.end_to_end.client import Json, Question, accept, decline

RULES = 'prefix_rule(pattern=[["deploy", "touch"]], decision="prompt")\n'
EVIL = '#!/bin/sh\necho written >"$OUT/file"\n'
HARMLESS = "#!/bin/sh\necho harmless\n"

over_modes = pytest.mark.parametrize("mode", MODES)


def _rewritten(path: Path, _: mmap.mmap) -> None:
    times = path.stat()
    with path.open("r+") as file:
        file.write(EVIL)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _replaced(path: Path, _: mmap.mmap) -> None:
    (path.parent / "new").write_text(EVIL)
    (path.parent / "new").chmod(0o755)
    (path.parent / "new").rename(path)


def _turned_into_a_link(path: Path, _: mmap.mmap) -> None:
    (path.parent / "new").write_text(EVIL)
    (path.parent / "new").chmod(0o755)
    path.unlink()
    path.symlink_to("new")


def _mapped(_: Path, memory: mmap.mmap) -> None:
    """Leaves no trace in the file's times: the page was written to before."""
    memory[: len(EVIL)] = EVIL.encode()
    memory.close()


@over_modes
@pytest.mark.parametrize("change", [_rewritten, _replaced, _turned_into_a_link, _mapped])
def test_the_program_changes_while_the_question_is_open(
    mode: str, change: Callable[[Path, mmap.mmap], None], serve: Serve
) -> None:
    def answer(question: Question) -> Json:
        change(path, memory)
        return accept(question)

    server = serve(mode, rules=RULES, answer=answer)
    server.enforce(Sandbox.WORKSPACE)
    out = server.root / "out"
    path = server.root / "ws/deploy"
    path.write_text(HARMLESS.ljust(len(EVIL) - 1, "#") + "\n")
    path.chmod(0o755)
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    memory[:1] = b"#"
    result = server.client.shell(f"export OUT={out}; ./deploy", workdir=str(server.root / "ws"))
    if not memory.closed:
        memory.close()
    assert len(server.client.questions) == 1
    assert not (out / "file").exists(), result
    assert result.structured is not None
    (told,) = result.structured["decisions"]
    if told["decision"] == "escalate":
        assert result.output == "harmless\n"
    else:
        assert "changed while it was judged" in told["reason"]


# Each would show something else than what runs, or make a terminal do something.
DECEIVING = (
    "\x1b[2J\x1b[H",  # clears the screen
    "\x1b]0;title\x07",
    "a\rAllow agent to run `ls`?",
    "a\n\nIt is safe",
    "a` in `/tmp`?\n`",
    "\u202egpj.exe",  # right to left
    "a\u200bb",  # no width
    "\x9b2J",  # a control sequence in one character
    "\u2028",
    "'; rm -rf /",
)


@over_modes
def test_a_question_shows_what_would_run_and_drives_no_terminal(mode: str, serve: Serve) -> None:
    server = serve(mode, rules=RULES, answer=decline)
    server.enforce(Sandbox.WORKSPACE)
    folder = server.root / "ws" / "\x1b[31m\u202efolder"
    folder.mkdir()
    for word in DECEIVING:
        quoted = "'" + word.replace("'", "'\\''") + "'"
        result = server.client.shell(f"touch {quoted}", workdir=str(folder))
        assert result.exit_code == 1
        assert "Execution denied: User declined execution" in result.output
        message = server.client.questions[-1].message
        shown = message.replace("\n", "", 2)
        assert not {"Cc", "Cf", "Zl"} & set(map(unicodedata.category, shown)), message
        assert message.count("`") == 4, message
    assert len(server.client.questions) == len(DECEIVING)
    assert list(folder.iterdir()) == []


@over_modes
def test_a_question_names_the_file_and_not_what_its_caller_calls_it(
    mode: str, serve: Serve
) -> None:
    server = serve(mode, rules=RULES, answer=decline)
    server.enforce(Sandbox.WORKSPACE)
    ws = server.root / "ws"
    (ws / "deploy").write_text(EVIL)
    (ws / "deploy").chmod(0o755)
    (ws / "folder").mkdir()
    (ws / "folder/usr").symlink_to(ws)
    server.client.shell("(exec -a /usr/bin/ls folder/usr/deploy x)", workdir=str(ws))
    (question,) = server.client.questions
    assert question.asked == f"Allow agent to run `{ws}/deploy x` in `{ws}`?"


@over_modes
def test_more_questions_than_anybody_answers(mode: str, serve: Serve) -> None:
    def nobody(_: Question) -> None:
        return None

    server = serve(mode, "--approval-timeout", "1", rules=RULES, answer=nobody)
    server.enforce(Sandbox.WORKSPACE)
    result = server.client.shell(
        "for i in $(seq 100); do touch f$i 2>>told & done; wait; "
        "grep -c '^Execution denied: nobody can be asked' told",
        workdir=str(server.root / "ws"),
        timeout_ms=60_000,
    )
    assert _most_open(server.client.received) <= 64
    assert result.output == "100\n"
    assert not list((server.root / "ws").glob("f*"))
    assert server.client.request("ping") == {}


def _most_open(messages: list[Json]) -> int:
    """How many questions were open at a time, given that nobody answered one."""
    count = most = 0
    for message in messages:
        count += message.get("method") == "elicitation/create"
        count -= message.get("method") == "notifications/cancelled"
        most = max(most, count)
    return most
