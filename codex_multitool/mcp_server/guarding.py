"""A command's part in the watch over protected names, which is the server's for all its calls."""

import logging
from typing import Any

import trio

from codex_multitool.escalation.local_watch import LocalWatch
from codex_multitool.keeper.protocol import Agree, Handed, Leaving, Look, Returned
from codex_multitool.keeper.watch_service import WatchService
from codex_multitool.mcp_server.tasks import drive

log = logging.getLogger(__name__)


class Guarding:
    """nursery: for what goes on as long as programs may be outside."""

    def __init__(self, watch: LocalWatch, nursery: trio.Nursery) -> None:
        self._watch = watch
        self._nursery = nursery
        self._answers: list[tuple[int, Any]] = []
        self._service = WatchService(watch, lambda *answer: self._answers.append(answer))
        self._attending: trio.CancelScope | None = None

    async def heed(
        self, message: Look | Agree | Leaving | Handed | Returned
    ) -> list[tuple[int, Any]]:
        """Do what it takes; the answers to be sent, with their numbers."""
        match message:
            case Look():
                await drive(self._service.look(message))
            case Agree():
                self._service.agree(message)
            case Leaving():
                self._attend()
                await drive(self._service.leaving(message))
            case Handed():
                await drive(self._service.handed(message))
            case Returned(0, absence):
                self._service.lost(absence)
            case Returned():
                await drive(self._service.returned(message))
        answers, self._answers = self._answers, []
        return answers

    def notes(self, *, ended: bool) -> list[str]:
        """What the result of the command must tell. ended: no process of it is left."""
        return self._watch.notes(ended=ended)

    def end(self) -> None:
        """No process of the command is left."""
        if self._attending is not None:
            self._attending.cancel()
        self._watch.end()

    def _attend(self) -> None:
        """Tell apart who writes what from now on."""
        if self._attending is None:
            self._attending = trio.CancelScope()
            self._nursery.start_soon(self._attended, self._attending)

    async def _attended(self, scope: trio.CancelScope) -> None:
        with scope:
            try:
                await drive(self._watch.attend())
            except Exception:
                log.exception("nobody watches any more what programs outside do")
