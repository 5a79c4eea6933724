"""Decisions for the tests, and a program that runs one command under them.

decisions.py COMMAND...: prints what happened as JSON. As a program it needs no more than a
standard Python, so it can be run as another user.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from codex_multitool.interception import relay, stand_in
from codex_multitool.interception.listener import Listener, Notification
from codex_multitool.interception.redirect import Replacement
from codex_multitool.interception.tracee import ExecSnapshot
from tests.interception.supervise import (
    Become,
    Decision,
    End,
    Errno,
    Finished,
    Plain,
    Run,
    supervise,
)

NOBODY = 65534


class ByWord:
    """Decide by the exec's first argument; any other word than these runs."""

    def __init__(self) -> None:
        self.stand_ins: list[stand_in.StandIn] = []

    def __call__(self, snapshot: ExecSnapshot) -> Decision:
        match snapshot.argv[1:2]:
            case ("plain",):
                return Plain()
            case ("end",):
                return End(7)
            case ("errno",):
                return Errno(13)
            case ("deny",):
                return Become(_deny)
            case ("exit5",):
                return Become(lambda *call: self._stand_in(5, None, *call))
            case ("term",):
                return Become(lambda *call: self._stand_in(0, 15, *call))
            case ("kill",):
                return Become(lambda *call: self._stand_in(0, 9, *call))
            case _:
                return Run()

    def _stand_in(
        self,
        code: int,
        number: int | None,
        listener: Listener,
        notification: Notification,
        snapshot: ExecSnapshot,
    ) -> Replacement:
        prepared = stand_in.stand_in(listener, notification, snapshot.tgid)
        os.write(prepared.status, relay.ended(code, number))
        self.stand_ins.append(prepared)
        return prepared.replacement

    def close(self) -> None:
        for prepared in self.stand_ins:
            prepared.close()


def _deny(listener: Listener, notification: Notification, snapshot: ExecSnapshot) -> Replacement:
    text = "Execution denied: it's `forbidden`"
    return stand_in.denial(listener, notification, snapshot.tgid, text, 1)


def supervise_by_word(command: list[str], **options: object) -> Finished:
    decide = ByWord()
    try:
        return supervise(command, decide, **options)
    finally:
        decide.close()


if __name__ == "__main__":
    finished = supervise_by_word(sys.argv[1:])
    told = {
        "status": finished.status,
        "out": os.fsdecode(finished.out),
        "err": os.fsdecode(finished.err),
        "asked": finished.asked,
        "outcomes": [str(outcome) for outcome in finished.outcomes],
        "uid": os.getuid(),
    }
    sys.stdout.write(json.dumps(told))
