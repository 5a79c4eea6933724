"""One command as the server sees it: its keeper runs it, asks, and tells.

A command lives until the last process of its tree has ended, which may be after its result: jobs
that the shell left behind run on, and their keeper is listened to. Whatever ends early — a
cancelled call, a client that goes — ends the whole tree.
"""

import logging
import os
from collections.abc import Sequence
from typing import Any

import trio

from codex_multitool.escalation.protected import told
from codex_multitool.escalation.question import Question as Asked
from codex_multitool.keeper.outcome import Outcome
from codex_multitool.keeper.protocol import (
    Agree,
    Answer,
    Ask,
    Began,
    Done,
    End,
    Handed,
    Leaving,
    Line,
    Look,
    Over,
    Refused,
    Returned,
    WantFile,
    WantRoom,
    Withdrawn,
)
from codex_multitool.mcp_server import calls
from codex_multitool.mcp_server.calls import Asker
from codex_multitool.mcp_server.guarding import Guarding
from codex_multitool.mcp_server.keepers import Keeper, KeeperError, Keepers
from codex_multitool.mcp_server.output_files import OutputFile
from codex_multitool.running import quoting

log = logging.getLogger(__name__)


class Command:
    """A command that `keeper` was ordered to run, to the end of its last process.

    nursery: for what goes on after the result.
    """

    def __init__(
        self,
        keepers: Keepers,
        keeper: Keeper,
        nursery: trio.Nursery,
        asker: Asker,
        file: OutputFile,
        guarding: Guarding,
    ) -> None:
        self._keepers = keepers
        self._keeper = keeper
        self._nursery = nursery
        self._asker = asker
        self._file = file
        self._guarding = guarding
        self._questions: dict[int, trio.CancelScope] = {}
        self._line = ""
        self._over = False

    async def result(self) -> Outcome | Refused:
        """What became of it. Cancelled meanwhile, the tree is ended first.

        Raises KeeperError when its keeper was killed.
        """
        if self._asker.progress is not None:
            self._asker.progress(self._latest)
        try:
            while True:
                message = await self._heard()
                if isinstance(message, Done):
                    return self._done(message.outcome)
                if isinstance(message, Refused):
                    self._release()
                    return message
                assert not self._over, "nobody has ended it"
        except BaseException:
            await self._end()
            raise

    def _latest(self) -> str:
        return self._line

    def _done(self, outcome: Outcome) -> Outcome:
        self._file.close(kept=outcome.file is not None)
        if notes := self._guarding.notes(ended=self._over):
            outcome = outcome._replace(notes=(*outcome.notes, *notes))
        if self._over:
            self._release()
        else:
            self._nursery.start_soon(self._see_out)
        return outcome

    async def _see_out(self) -> None:
        """Listen to the keeper for as long as jobs run on."""
        try:
            while not self._over:
                await self._heard()
        except KeeperError as error:
            log.error("what a command left in the background was ended: %s", error)
        except Exception:
            log.exception("what a command left in the background was ended")
        finally:
            await self._end()

    async def _end(self) -> None:
        """End all that is left of it, and let go of the keeper."""
        with trio.CancelScope(shield=True):
            try:
                if not self._over:
                    await self._keeper.send(End())
                while not self._over:
                    await self._heard()
            except KeeperError:
                pass
            except Exception:
                log.exception("a keeper is given up")
            finally:
                self._release()

    def _release(self) -> None:
        for scope in self._questions.values():
            scope.cancel()
        self._file.close(kept=False)
        self._guarding.end()
        if self._over:
            self._keepers.dismiss(self._keeper)
        else:
            self._keepers.lose(self._keeper)

    async def _heard(self) -> Any:
        """The keeper's next message, after doing what it takes."""
        message = await self._keeper.receive()
        match message:
            case Done():
                self._over = message.over
            case Over() | Refused():
                self._over = True
            case Ask(number, question):
                scope = self._questions[number] = trio.CancelScope()
                self._nursery.start_soon(self._ask, number, question, scope)
            case Withdrawn(number):
                if number in self._questions:
                    self._questions[number].cancel()
            case Look() | Leaving() | Handed() | Returned() | Agree():
                await self._guard(message)
            case WantFile(number):
                await self._make_file(number)
            case WantRoom(number):
                await self._make_room(number)
            case Line(text):
                self._line = text
            case Began(_, lacking):
                for root in lacking:
                    log.warning("not writable: %s", root)
            case _:
                raise AssertionError(f"a keeper sent {message!r}")
        return message

    async def _answer(self, number: int, value: Any, descriptors: Sequence[int] = ()) -> None:
        await self._keeper.send(Answer(number, value, bool(descriptors)), descriptors)

    async def _ask(self, number: int, question: Asked, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._answer(number, await self._put(question))
        except KeeperError:
            pass  # who listens to it finds out
        finally:
            del self._questions[number]

    async def _put(self, question: Asked) -> tuple[str, str | None]:
        try:
            answer = await self._asker.ask(_as_asked(question))
        except Exception:
            log.exception("a question was not put")
            return "unavailable", "it could not be put"
        return answer.action, answer.reason

    async def _guard(self, message: Look | Leaving | Handed | Returned | Agree) -> None:
        for number, value in await self._guarding.heed(message):
            await self._answer(number, value)

    async def _make_file(self, number: int) -> None:
        try:
            fd, path, room = await self._file.make()
        except OSError as error:
            await self._answer(number, (None, error.strerror))
            return
        try:
            await self._answer(number, (path, room), [fd])
        finally:
            os.close(fd)

    async def _make_room(self, number: int) -> None:
        try:
            await self._answer(number, (await self._file.more(), ""))
        except OSError as error:
            await self._answer(number, (0, error.strerror))


def _as_asked(question: Asked) -> calls.Question:
    return calls.Question(
        question.program,
        question.argv,
        question.workdir,
        question.because,
        question.outside,
        question.justification or "",
        told(question.changes, quoting.path) if question.changes else "",
    )
