"""What a new program's stack shows of its exec; that exec stops heed it: see test_exec_stop."""

from __future__ import annotations

import pytest

from codex_multitool.interception.stack import find

PATH, FIRST = 0x7FFF_0000, 0x7FFF_1000  # where the strings would be
AUXV = (33, 0x1234, 8, 0, 6, 4096, 31, PATH, 15, 0x5678, 0, 0)


def _stack(argc: int, variables: int, auxv: tuple[int, ...] = AUXV) -> tuple[int, ...]:
    argv = tuple(FIRST + 8 * number for number in range(argc))
    envp = tuple(FIRST + 8 * (argc + number) for number in range(variables))
    return (argc, *argv, 0, *envp, 0, *auxv)


@pytest.mark.parametrize("variables", [0, 1, 32, 5000])
@pytest.mark.parametrize("argc", [1, 2, 500])
def test_arguments_and_path_are_found(argc: int, variables: int) -> None:
    assert find(_stack(argc, variables), argc) == (FIRST, PATH)


@pytest.mark.parametrize("asked", [0, 1, 3, 4, 5, 6, 1 << 40])
def test_another_number_of_arguments_is_not_what_was_asked_for(asked: int) -> None:
    """Nor are six where two have three variables behind them, whose strings are next to theirs."""
    assert find(_stack(2, 3), asked) is None


def test_what_is_cut_off_tells_nothing() -> None:
    words = _stack(2, 3)
    for size in range(len(words) - 1):
        assert find(words[:size], 2) is None
    assert find((), 0) is None


def test_what_lies_behind_the_vector_is_not_of_it() -> None:
    """There stand bytes of the caller's: its strings."""
    none = (33, 0x1234, 6, 4096, 0, 0)
    assert find((*_stack(1, 1, none), 31, PATH, 0, 0), 1) is None
    other = (33, 31, 6, 31, *AUXV)
    assert find(_stack(1, 1, other), 1) == (FIRST, PATH)
