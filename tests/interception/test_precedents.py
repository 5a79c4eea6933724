"""An exec like one before is known again; one that differs in anything that counts is not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_multitool.escalation.decide import Ask, Deny, Escalate, ExecRequest, Run, Verdict
from codex_multitool.interception.exec_stop import Resumed, command_line
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.precedents import Facts, Precedents, facts_of
from codex_multitool.interception.program import Kind
from codex_multitool.interception.tracee import (
    AT_SYMLINK_NOFOLLOW,
    ExecSnapshot,
    Gone,
    Repeated,
    Unreadable,
    read_exec,
    read_known,
)
from tests.executables import loader
from tests.interception.supervise import Decision, Plain, expected, supervise
from tests.interception.supervise import Run as Watched

Read = ExecSnapshot | Repeated | Gone | Unreadable

LONG = "x" * 5000


def _seen(tmp_path: Path, script: str) -> list[tuple[Facts, ExecSnapshot]]:
    """The execs below a shell that runs `script`; their descriptors are closed."""
    seen = []

    def decide(snapshot: ExecSnapshot) -> Decision:
        seen.append((facts_of(snapshot), snapshot))
        return Plain()

    assert supervise(["/bin/sh", "-c", script], decide, cwd=tmp_path).status == 0
    return seen[1:]


def _said(snapshot: ExecSnapshot, *more: str) -> tuple[bytes, bytes]:
    """Path and command line of such an exec, with these arguments on top."""
    return os.fsencode(snapshot.file), command_line((*snapshot.argv, *more))


def _request(snapshot: ExecSnapshot, untrusted: str | None = None) -> ExecRequest:
    return ExecRequest((snapshot.file,), snapshot.argv, snapshot.cwd, (), untrusted)


def test_facts_tell_every_difference_that_counts(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("#!/bin/true one\n")
    (tmp_path / "s").chmod(0o755)
    (tmp_path / "other").mkdir()
    same = _seen(tmp_path, "/bin/true a; /bin/true a; ./s; ./s; :")
    assert same[0][0] == same[1][0]
    assert same[2][0] == same[3][0]
    status = os.stat(tmp_path / "s")
    differing = (
        "/bin/true a; /bin/true b; /bin/true a ''; /usr/bin/../bin/true a; cd other; /bin/true a;"
        "cd ..; /bin/false a || :; ./s; echo '#!/bin/true two' > s;"
        f"touch -d @{status.st_mtime_ns / 1e9:.9f} s; ./s; :"
    )
    found = [
        facts for facts, snapshot in _seen(tmp_path, differing) if "touch" not in snapshot.argv
    ]
    assert len(found) == 8
    assert len(set(found)) == 8


def test_only_what_ran_or_was_forbidden_is_remembered(tmp_path: Path) -> None:
    ((facts, snapshot),) = _seen(tmp_path, "/bin/true a; :")
    request = _request(snapshot)
    other: list[Verdict] = [Run("a note"), Escalate("rule", "/bin/true"), Ask(Run(), "", "")]
    for verdict in other:
        precedents = Precedents(our_view=True)
        precedents.learn(facts, snapshot, request, verdict)
        assert precedents.judged(facts) is None
        assert precedents.knows(*_said(snapshot)) is None
        assert precedents.decided(request) == verdict
        assert precedents.decided(request._replace(untrusted="it can be written")) is None
    for verdict in (Deny("no"), Run()):
        precedents = Precedents(our_view=True)
        precedents.learn(facts, snapshot, request, verdict)
        assert precedents.judged(facts) == (request, verdict)
        assert precedents.knows(*_said(snapshot)) is not None
        denied = (request, verdict) if isinstance(verdict, Deny) else None
        assert precedents.denied(*_said(snapshot)) == denied
    assert precedents.denied(*_said(snapshot, "more")) is None


def test_long_arguments_are_not_kept(tmp_path: Path) -> None:
    for words in (LONG, "x " * 5000):
        ((facts, snapshot),) = _seen(tmp_path, f"/bin/true {words}; :")
        precedents = Precedents(our_view=False)
        precedents.learn(facts, snapshot, _request(snapshot), Run())
        assert precedents.judged(facts) is None
        precedents.learn(facts, snapshot, _request(snapshot), Escalate("rule"))
        assert precedents.decided(_request(snapshot)) is None


def test_few_are_kept(tmp_path: Path) -> None:
    ((_, snapshot),) = _seen(tmp_path, "/bin/true; :")
    precedents = Precedents(our_view=False)
    for number in range(3000):
        precedents.learn((number,), snapshot, _request(snapshot), Run())
    kept = [number for number in range(3000) if precedents.judged((number,)) is not None]
    assert 0 < len(kept) <= 1024
    assert kept[-1] == 2999
    requests = [_request(snapshot, str(number)) for number in range(3000)]
    for request in requests:
        precedents.learn((), snapshot, request, Escalate("rule"))
    decided = [request for request in requests if precedents.decided(request) is not None]
    assert 0 < len(decided) <= 1024
    assert decided[-1] == requests[-1]


def _kept(snapshot: ExecSnapshot, **more: Any) -> bool:
    """Whether such an exec is known by its path and arguments, once it has run or was denied."""
    ran, denied = (_kept_as(snapshot, verdict, **more) for verdict in (Run(), Deny("no")))
    assert ran == denied
    return ran


def _kept_as(
    snapshot: ExecSnapshot,
    verdict: Verdict,
    *,
    our_view: bool = True,
    programs: tuple[str, ...] | None = None,
    untrusted: str | None = None,
) -> bool:
    precedents = Precedents(our_view=our_view)
    names = programs or (snapshot.file,)
    asked = ExecRequest(names, snapshot.argv, snapshot.cwd, (), untrusted)
    precedents.learn(facts_of(snapshot), snapshot, asked, verdict)
    known = precedents.knows(*_said(snapshot))
    assert known in (None, expected(snapshot)._replace(path=os.fsencode(snapshot.file)))
    assert precedents.knows(*_said(snapshot, "more")) is None
    return known is not None


def test_a_plain_program_is_known_by_path_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("#!/bin/sh\n")
    (tmp_path / "s").chmod(0o755)
    relative = os.path.relpath("/bin/true", tmp_path)
    plain, by_folder, script = (
        snapshot for _, snapshot in _seen(tmp_path, f"/bin/true a; {relative}; {tmp_path}/s; :")
    )
    assert _kept(plain)
    assert not _kept(plain, our_view=False)
    assert not _kept(plain, untrusted="it can be written")
    assert not _kept(plain, programs=("/usr/bin/true",))
    assert plain.program is not None
    unreadable = plain.program._replace(kind=Kind.UNREADABLE)
    assert not _kept(plain._replace(program=unreadable))
    assert not _kept(plain._replace(flags=AT_SYMLINK_NOFOLLOW))
    assert not _kept(by_folder)
    assert not _kept(script)


def test_a_program_is_known_with_other_arguments(tmp_path: Path) -> None:
    ((facts, snapshot),) = _seen(tmp_path, "/usr/bin/env a=b; :")
    for our_view, untrusted in ((True, None), (False, None), (True, "it can be written")):
        precedents = Precedents(our_view=our_view)
        request = _request(snapshot, untrusted)
        said = _said(snapshot, "more", "")
        assert precedents.like(*said) is None
        precedents.learn(facts, snapshot, request, Deny("no"))
        if not our_view or untrusted:
            assert precedents.like(*said) is None
            continue
        argv = (*snapshot.argv, "more", "")
        assert precedents.like(*said) == request._replace(argv=argv)
        assert precedents.like(said[0], b"") is None  # the kernel adds a word to none
        assert precedents.like(b"/usr/bin/envy", said[1]) is None
        assert precedents.knows(*said) is None
        known = precedents.learn_like(*said)
        assert precedents.knows(*said) == known
        assert known == expected(snapshot)._replace(path=said[0], command_line=said[1])
        assert precedents.denied(*said) is None
        assert precedents.denied(*_said(snapshot)) is not None


def test_what_git_means_by_other_arguments_is_judged(tmp_path: Path) -> None:
    ((facts, snapshot),) = _seen(tmp_path, "/bin/true; :")
    precedents = Precedents(our_view=True)
    request = _request(snapshot)._replace(programs=("/bin/true", "/usr/bin/git"))
    precedents.learn(facts, snapshot, request, Run())
    found = precedents.like(b"/bin/true", b"git\0-C\0/\0push\0")
    assert found is not None
    assert found.interpreters == (("/usr/bin/git", "push"),)


def test_a_program_that_was_changed_is_not_known(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copy("/bin/true", copy)
    ((facts, snapshot),) = _seen(tmp_path, f"{copy} a; :")
    precedents = Precedents(our_view=True)
    precedents.learn(facts, snapshot, _request(snapshot), Run())
    assert precedents.knows(*_said(snapshot)) is not None
    status = copy.stat()
    shutil.copy("/bin/false", copy)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert precedents.knows(*_said(snapshot)) is None
    assert precedents.like(*_said(snapshot)) is None
    copy.unlink()
    assert precedents.knows(*_said(snapshot)) is None
    assert precedents.like(*_said(snapshot)) is None


def test_files_in_the_sandboxs_reach_are_looked_at_each_time(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("#!/bin/sh\n")
    (tmp_path / "s").chmod(0o755)
    ((facts, snapshot),) = _seen(tmp_path, "./s; :")
    precedents = Precedents(our_view=False)
    precedents.learn(facts, snapshot, _request(snapshot, "it can be written"), Run())
    assert not precedents.known.files
    assert not precedents.known.loaders
    precedents.learn(facts, snapshot, _request(snapshot), Run())
    assert {path for _, path in precedents.known.files} == {
        str(tmp_path / "s"),
        os.path.realpath("/bin/sh"),
        os.path.realpath(loader()),
    }


@pytest.mark.parametrize(("untrusted", "ours"), [("it can be written", True), (None, False)])
def test_a_loader_is_known_by_its_name_where_that_leads_there_for_everybody(
    tmp_path: Path, untrusted: str | None, ours: bool
) -> None:
    ((facts, snapshot),) = _seen(tmp_path, "/bin/true a; :")
    precedents = Precedents(our_view=ours)
    precedents.learn(facts, snapshot, _request(snapshot, untrusted), Run())
    assert precedents.known.loaders == set()
    precedents = Precedents(our_view=True)
    precedents.learn(facts, snapshot, _request(snapshot), Run())
    assert precedents.known.loaders == {loader("/bin/true")}


def test_an_exec_like_one_before_looks_up_nothing_below_proc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    precedents = Precedents(our_view=True)
    touched: list[str] = []

    def read(listener: Listener, notification: Notification) -> Read:
        known = read_known(listener.architecture, notification, precedents.knows)
        return known or read_exec(listener, notification, precedents.known)

    def decide(found: Read) -> Decision:
        if isinstance(found, ExecSnapshot):
            precedents.learn(facts_of(found), found, _request(found), Run())
        else:
            touched.clear()
        assert isinstance(found, ExecSnapshot | Repeated)
        return Watched(found.expected)

    def noted(look: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *arguments: Any, **options: Any) -> Any:
            touched.append(os.fsdecode(path))
            return look(path, *arguments, **options)

        return called

    monkeypatch.setattr("tests.interception.supervise.read_exec", read)
    for name in ("open", "stat", "readlink"):
        monkeypatch.setattr(os, name, noted(getattr(os, name)))
    finished = supervise(["/bin/sh", "-c", "/bin/true; /bin/true; /bin/true; :"], decide)
    assert finished.outcomes == [Resumed.EXECUTED] * 4
    assert touched == ["/bin/true"]
