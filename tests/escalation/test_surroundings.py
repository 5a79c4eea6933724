"""The environment of escalated programs: what is withheld from commands, dropped and kept."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from codex_multitool.escalation.surroundings import Surroundings

SERVER = {"PATH": "/usr/bin:/bin", "TOKEN": "secret", "LD_PRELOAD": "/lib/own.so", "TZ": "UTC"}
SHELL = {"PATH": "/usr/bin:/bin", "TZ": "UTC"}
WITHHELD = {"TOKEN": "secret", "LD_PRELOAD": "/lib/own.so"}


def started(
    surroundings: Surroundings, caller: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment of a program, and what its caller lost."""
    return trio.run(surroundings.environment, "/usr/bin/true", ("true",), caller, ("/ws",))


def test_what_was_withheld_from_the_caller_is_there_as_the_server_has_it() -> None:
    surroundings = Surroundings(SERVER, withheld=WITHHELD)
    assert started(surroundings, SHELL) == (SERVER, ())


def test_what_the_caller_set_in_its_place_is_judged_as_ever() -> None:
    surroundings = Surroundings(SERVER, withheld=WITHHELD)
    caller = {**SHELL, "TOKEN": "mine", "LD_PRELOAD": "/ws/evil.so"}
    environment, lost = started(surroundings, caller)
    assert environment == {**SERVER, "TOKEN": "mine"}
    assert [reason.split(":")[0] for reason in lost] == ["LD_PRELOAD"]


def test_what_the_caller_had_and_unset_stays_unset() -> None:
    environment, _ = started(Surroundings(SERVER, withheld=WITHHELD), {"PATH": SHELL["PATH"]})
    assert "TZ" not in environment


def test_nothing_is_withheld_unless_said() -> None:
    assert started(Surroundings(SERVER), SHELL) == (SHELL, ())


def test_a_withheld_value_that_the_sandbox_can_write_does_not_come_back() -> None:
    server = {**SERVER, "LD_PRELOAD": "/ws/own.so"}
    surroundings = Surroundings(server, withheld={"LD_PRELOAD": "/ws/own.so"})
    assert started(surroundings, SHELL) == (SHELL, ())


def test_only_what_the_caller_had_is_told_to_be_dropped() -> None:
    surroundings = Surroundings(SERVER, withheld=WITHHELD, drop=("TOKEN", "T*"))
    environment, lost = started(surroundings, SHELL)
    assert environment == {"PATH": SHELL["PATH"], "LD_PRELOAD": "/lib/own.so"}
    assert lost == ("TZ: the configuration drops it",)


def test_what_is_kept_comes_as_the_caller_has_it() -> None:
    surroundings = Surroundings(SERVER, keep=("LD_*",))
    environment, lost = started(surroundings, {**SHELL, "LD_PRELOAD": "/lib/other.so"})
    assert environment["LD_PRELOAD"] == "/lib/other.so"
    assert lost == ()
