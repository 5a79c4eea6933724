"""How a command begins, or why it does not."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from codex_multitool.keeper import protocol
from codex_multitool.launcher.spawner import MAX_MESSAGE
from tests.keeper.driver import FULL, House, Keeper
from tests.keeper.test_inherited import MODES
from tests.keeper.test_spawner_attacked import BOTH

PAGE = 4096
MAX_WORD = 32 * PAGE  # MAX_ARG_STRLEN: execve(2)


@MODES
@BOTH
@pytest.mark.parametrize("size", [MAX_MESSAGE - 200, MAX_MESSAGE + 200, 100 << 10, 1900 << 10])
def test_long_words_arrive_whole(
    house: House, within: protocol.Sandbox, mode: dict[str, str], size: int
) -> None:
    keeper = house.keeper(**mode)
    words = tuple("x" * min(PAGE, size - at) for at in range(0, size, PAGE))
    ran = keeper.run(("/bin/bash", "-c", 'echo $# "${@: -1}"', "sh", *words), within)
    assert ran.text == f"{len(words)} {words[-1]}\n"
    assert keeper.works(within)


@MODES
@BOTH
@pytest.mark.parametrize(
    "words", [("x" * (MAX_WORD + 1),), ("x" * PAGE,) * 600], ids=["one", "all"]
)
def test_more_than_the_kernel_takes_is_refused(
    house: House, within: protocol.Sandbox, mode: dict[str, str], words: tuple[str, ...]
) -> None:
    keeper = house.keeper(**mode)
    refused = keeper.run(("/bin/echo", *words), within).refused
    assert refused is not None
    assert (refused.text, refused.errno) == ("execve: Argument list too long", errno.E2BIG)
    assert keeper.works(within)
    keeper.settled()


@MODES
@BOTH
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("missing", "execve: No such file or directory"),
        ("plain", "execve: Permission denied"),
        ("folder", "execve: Permission denied"),
        ("noise", "execve: Exec format error"),
        ("empty", "execve: Exec format error"),
        ("interpreter", "execve: No such file or directory"),
        ("circle", "execve: Too many levels of symbolic links"),
        ("below", "execve: Not a directory"),
    ],
)
def test_what_cannot_be_executed_is_refused_in_words(
    house: House, folder: Path, within: protocol.Sandbox, mode: dict[str, str], kind: str, text: str
) -> None:
    keeper = house.keeper(**mode)
    path = folder / kind
    match kind:
        case "plain":
            path.write_text("#!/bin/sh\n")
        case "folder":
            path.mkdir()
        case "noise" | "empty":
            path.write_bytes(b"\x7fELF nonsense" if kind == "noise" else b"")
            path.chmod(0o755)
        case "interpreter":
            path.write_text("#!/no/such/interpreter\n")
            path.chmod(0o755)
        case "circle":
            path.symlink_to(path)
        case "below":
            path.write_text("")
            path = path / "program"
        case _:
            pass
    for _ in range(2):
        refused = keeper.run((str(path), "word"), within).refused
        assert refused is not None
        assert (refused.text, refused.sandbox, refused.workdir) == (text, False, False)
        assert os.strerror(refused.errno) in text
    assert keeper.works(within)
    keeper.settled()


def test_a_script_is_executed_as_any_program(keeper: Keeper, house: House, folder: Path) -> None:
    script = folder / "some script"
    script.write_text('#!/bin/sh -e\necho "$0" "$@"\n')
    script.chmod(0o755)
    house.own(script)
    for within in (FULL, FULL):
        ran = keeper.run((str(script), "a b", ""), within)
        assert ran.text == f"{script} a b \n"


def test_words_may_be_any_bytes(keeper: Keeper) -> None:
    word = "\udcff\n'\"$x ü"
    ran = keeper.run(("/bin/bash", "-c", 'printf %s "$1" | od -An -tx1', "sh", word))
    assert bytes.fromhex(ran.text.replace("\n", "")) == os.fsencode(word)


@MODES
def test_one_that_is_ended_before_it_begins_is_refused(house: House, mode: dict[str, str]) -> None:
    keeper = house.keeper(**mode)
    keeper.order("sleep 1000", FULL)
    keeper.end()
    told = keeper.result()
    # It may have begun by then.
    assert told.refused is not None or told.code in (-signal.SIGTERM, -signal.SIGKILL)
    assert keeper.works(FULL)


@pytest.mark.parametrize("timeout", [0.0, 0.001])
def test_one_whose_time_is_over_at_once_leaves_nothing(keeper: Keeper, timeout: float) -> None:
    for _ in range(5):
        ran = keeper.run("sleep 1000", timeout=timeout)
        assert ran.refused is not None or ran.done.timed_out
        keeper.settled()
    assert keeper.works()


def test_signals_that_come_early_are_not_lost(keeper: Keeper) -> None:
    keeper.order("exec sleep 1000", FULL)
    keeper.tell(protocol.Signal(int(signal.SIGUSR2)))
    assert keeper.result().code == -signal.SIGUSR2
