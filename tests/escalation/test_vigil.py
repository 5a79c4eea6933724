"""Who wrote what while programs were outside."""

from codex_multitool.escalation.protected import Entry
from codex_multitool.escalation.vigil import Vigil, unmoved

OLD, NEW, EVIL = (Entry(0o100000, 0o644, (0, 0), it, (1, 2, 3)) for it in (b"o", b"n", b"e"))
ASLEEP, LATER = {7: 1, 8: 5}, {7: 1, 8: 6}


def vigil() -> tuple[Vigil, set[str]]:
    doubtful = set[str]()
    begun = Vigil(doubtful, lambda entry: entry is EVIL)
    begun.start(ASLEEP, {"a": OLD}, 100)
    return begun, doubtful


def test_what_its_caller_had_a_program_write_is_the_callers() -> None:
    one, doubtful = vigil()
    assert one.went_on(ASLEEP, {"a": EVIL, "b": NEW}, {"a": OLD}, 200) == {"a": OLD, "b": NEW}
    # Nor is it the program's by a second look, or by a second word of the program's own.
    assert one.went_on(ASLEEP, {"a": EVIL}, {"a": OLD}, 300) == {"a": OLD}
    assert one.went_on(ASLEEP, {"a": NEW}, {"a": OLD}, 400) == {"a": OLD}
    assert doubtful == set()


def test_what_changes_while_the_sandbox_sleeps_is_a_programs() -> None:
    one, doubtful = vigil()
    assert one.went_on(ASLEEP, {"a": NEW, "b": NEW}, {"a": OLD}, 200) == {"a": NEW, "b": NEW}
    assert one.went_on(ASLEEP, {"b": NEW}, {"a": NEW, "b": NEW}, 300) == {"b": NEW}
    assert doubtful == set()


def test_what_changes_while_a_thread_of_the_sandbox_runs_is_in_doubt() -> None:
    for threads in (LATER, {7: 1}, {**ASLEEP, 9: 1}, None):
        one, doubtful = vigil()
        assert one.went_on(threads, {"a": NEW}, {"a": OLD}, 200) is None
        assert doubtful == {"a"}


def test_what_the_sandbox_wrote_before_stays_open() -> None:
    one = Vigil(set(), lambda _: False)
    one.start(ASLEEP, {"a": EVIL}, 100)
    assert one.went_on(ASLEEP, {"a": NEW, "b": NEW}, {"a": OLD}, 200) == {"a": OLD, "b": NEW}


def test_a_caller_that_is_held_may_come_and_go() -> None:
    assert unmoved(ASLEEP, {7: 1}, (8,))
    assert unmoved({7: 1}, ASLEEP, (8,))
    assert not unmoved(ASLEEP, LATER, (7,))


def test_the_time_of_a_change_tells_whose_it_is_only_while_the_sandbox_slept() -> None:
    one, _ = vigil()
    one.went_on(ASLEEP, {}, {}, 200)
    assert [one.wrote(it, asleep=False) for it in (99, 100, 199, 200)] == [False, True, True, False]
    assert one.wrote(250, asleep=True)
    one.went_on(LATER, {}, {}, 300)
    one.start(None, {}, 301)
    assert not one.wrote(250, asleep=False)
    one.start(LATER, {}, 400)
    assert [one.wrote(it, asleep=True) for it in (250, 399, 400)] == [False, False, True]
