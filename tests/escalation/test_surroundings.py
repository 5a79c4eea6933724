"""The environment of escalated programs: what is withheld from commands, dropped and kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from codex_multitool.escalation import surroundings as module
from codex_multitool.escalation.surroundings import Surroundings
from codex_multitool.launcher.spawn import NotStartedError, Process, Spawn
from codex_multitool.loop import Loop, Task, sleep
from tests.escalation.conftest import House

SERVER = {"PATH": "/usr/bin:/bin", "TOKEN": "secret", "LD_PRELOAD": "/lib/own.so", "TZ": "UTC"}
SHELL = {"PATH": "/usr/bin:/bin", "TZ": "UTC"}
WITHHELD = ("TOKEN", "LD_PRELOAD")


def started(surroundings: Surroundings, caller: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The environment of a program, and what its caller lost."""
    return Loop().result(
        surroundings.environment(no_start, "/usr/bin/true", ("true",), caller, ("/ws",))
    )


def no_start(spawn: Spawn) -> Process:
    """Nothing is to be asked for."""
    raise AssertionError(spawn)


def test_what_was_withheld_from_the_caller_is_there_as_the_server_has_it() -> None:
    surroundings = Surroundings(SERVER, withheld=WITHHELD)
    assert started(surroundings, SHELL) == (SERVER, "")


def test_what_the_caller_set_in_its_place_is_refused() -> None:
    surroundings = Surroundings(SERVER, withheld=WITHHELD)
    caller = {**SHELL, "TOKEN": "mine", "LD_PRELOAD": "/ws/evil.so", "TZ": "Asia/Tokyo"}
    environment, lost = started(surroundings, caller)
    assert environment == {**SERVER, "TZ": "Asia/Tokyo"}
    assert lost.startswith("LD_PRELOAD, TOKEN: ")


def test_what_the_caller_had_and_unset_stays_unset_if_it_is_harmless() -> None:
    environment, lost = started(Surroundings(SERVER, withheld=WITHHELD), {"PATH": SHELL["PATH"]})
    assert "TZ" not in environment
    assert lost == ""
    environment, lost = started(Surroundings(SERVER), SHELL)
    assert environment == SERVER
    assert lost.startswith("LD_PRELOAD, TOKEN: ")


def test_a_withheld_value_that_the_sandbox_can_write_does_not_come_back() -> None:
    server = {**SHELL, "LD_PRELOAD": "/ws/own.so"}
    environment, lost = started(Surroundings(server, withheld=WITHHELD), SHELL)
    assert environment == SHELL
    assert lost.startswith("LD_PRELOAD: ")


def test_only_what_the_caller_had_is_told_to_be_dropped() -> None:
    surroundings = Surroundings(SERVER, withheld=WITHHELD, drop=("TOKEN", "T*"))
    environment, lost = started(surroundings, SHELL)
    assert environment == {"PATH": SHELL["PATH"], "LD_PRELOAD": "/lib/own.so"}
    assert lost == "TZ: the configuration drops it"


def test_what_is_kept_comes_as_the_caller_has_it() -> None:
    caller = {**SERVER, "LD_PRELOAD": "/lib/other.so"}
    assert started(Surroundings(SERVER, keep=("LD_*",)), caller) == (caller, "")


@pytest.mark.parametrize(("program", "kept"), [("true", 1), ("/usr/bin/true", 1), ("rue", 0)])
def test_what_is_kept_of_one_program_is_of_that_one(program: str, kept: int) -> None:
    caller = {**SERVER, "LD_PRELOAD": "/lib/other.so"}
    environment, _ = started(Surroundings(SERVER, keep_of={program: ("LD_*",)}), caller)
    assert (environment == caller) == bool(kept)


def test_the_working_directory_has_the_name_its_caller_has_for_it(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    surroundings = Surroundings(SHELL)

    def said(path: object, workdir: Path) -> str:
        caller = {**SHELL, "PWD": str(path), "_": "/ws/evil"}
        environment, lost = Loop().result(
            surroundings.environment(
                no_start, "/usr/bin/true", ("true",), caller, ("/ws",), str(workdir)
            )
        )
        assert environment["_"] == "/usr/bin/true"
        assert lost == ""
        return environment["PWD"]

    assert said(link, folder) == str(link)
    for lie in (tmp_path, ".", "", "/nowhere"):
        assert said(lie, folder) == str(folder)


def git_environment(house: House, surroundings: Surroundings) -> dict[str, str]:
    server = {"PATH": "/usr/bin:/bin"}
    environment, _ = house.loop.result(
        surroundings.environment(house.start, "/usr/bin/git", ("git", "log"), server, ("/ws",))
    )
    return environment


@pytest.fixture
def gate(house: House) -> Iterator[int]:
    """What to write a line to for programs to begin."""
    closed, gate = os.pipe()
    start = house.start

    def waiting(spawn: Spawn) -> Process:
        script = [b"sh", b"-c", b'read line; exec "$@"', b"sh", *spawn.argv]
        slowly = spawn._replace(path=b"/bin/sh", argv=script, program=None)
        return start(slowly._replace(descriptors=(*spawn.descriptors, (closed, 0))))

    house.start = waiting  # type: ignore[method-assign]
    yield gate
    os.close(closed)
    os.close(gate)


def pinned(environment: Mapping[str, str], key: str) -> str:
    """What a git setting is made to be."""
    for number in range(int(environment["GIT_CONFIG_COUNT"])):
        if environment[f"GIT_CONFIG_KEY_{number}"] == key:
            return environment[f"GIT_CONFIG_VALUE_{number}"]
    raise KeyError(key)


@pytest.fixture
def own(tmp_path: Path) -> Surroundings:
    """Of a user who has git settings."""
    (tmp_path / ".gitconfig").write_text('[core]\nsshCommand = "ssh -v"\n')
    return Surroundings({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})


def test_an_escalated_git_keeps_to_the_users_own_settings_asked_for_once(
    house: House, own: Surroundings
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        assert pinned(git_environment(house, own), "core.sshCommand") == "ssh -v"
    while house.starter.running():
        house.loop.turn()
    assert len(house.started) == 1
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_loop_goes_on_while_git_is_asked(house: House, own: Surroundings, gate: int) -> None:
    order: list[str] = []

    def asking() -> Task[None]:
        yield from own.environment(house.start, "/usr/bin/git", ("git",), {}, ("/ws",))
        order.append("asked")

    def other() -> Task[None]:
        while not house.started:
            yield from sleep(0)
        order.append("other")
        os.write(gate, b"\n")

    asked = house.loop.start(asking())
    house.loop.start(other())
    house.until(asked.done)
    assert order == ["other", "asked"]


@pytest.mark.usefixtures("gate")
def test_a_git_that_takes_too_long_is_ended_and_has_no_say(
    house: House, own: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GIT_SECONDS", 0.01)
    assert pinned(git_environment(house, own), "core.sshCommand") == "ssh"
    while house.starter.running():
        house.loop.turn()


def test_a_git_that_cannot_be_started_is_told(house: House, own: Surroundings) -> None:
    house.refusal = NotStartedError("no process can be started", 11)
    with pytest.raises(BlockingIOError, match="no process"):
        git_environment(house, own)
