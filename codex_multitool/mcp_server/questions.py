"""Questions to the human, put to the client while calls run."""

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from codex_multitool.mcp_server import elicitation, messages
from codex_multitool.mcp_server.calls import Answer, Question
from codex_multitool.mcp_server.messages import RequestId
from codex_multitool.mcp_server.session import Response, Session

_MAX_OPEN = 64  # more than any human answers
_GONE = Answer("unavailable", "the client has gone")


@dataclass(slots=True)
class _Open:
    response: Response | None = None
    at: float = 0.0  # when it came
    settled: trio.Event = field(default_factory=trio.Event)


class Questions:
    """The questions of one session that wait for their answers, each at most `patience` seconds."""

    def __init__(self, session: Session, send: Callable[[bytes], None], patience: float) -> None:
        self._session = session
        self._send = send
        self._patience = patience
        self._open: dict[RequestId, _Open] = {}
        self._closed = False

    def possible(self) -> bool:
        """Whether the client takes questions."""
        return not self._closed and elicitation.possible(self._session.capabilities)

    async def ask(self, question: Question) -> Answer:
        """Put one question; cancelled meanwhile, the client is told that it is void."""
        if self._closed:
            return _GONE
        if not self.possible():
            return Answer("unavailable")
        if len(self._open) >= _MAX_OPEN:
            return Answer("unavailable", f"{_MAX_OPEN} questions are open already")
        number, request = self._session.request(messages.ELICIT, elicitation.params(question))
        opened = self._open[number] = _Open()
        begun = trio.current_time()
        self._send(request)
        try:
            with trio.move_on_after(self._patience):
                await opened.settled.wait()
        finally:
            del self._open[number]
            if not opened.settled.is_set():
                void = {"requestId": number, "reason": "the answer would come too late"}
                self._send(messages.notification(messages.CANCELLED, void))
        if opened.response is not None:
            return elicitation.answer(opened.response, opened.at - begun)
        if self._closed:
            return _GONE
        return Answer("unavailable", f"nobody answered within {self._patience:g} seconds")

    def settle(self, response: Response) -> None:
        """Take the client's answer; one to no open question, and a second one, is ignored."""
        question = self._open.get(response.id)
        if question is not None and not question.settled.is_set():
            question.response, question.at = response, trio.current_time()
            question.settled.set()

    def close(self) -> None:
        """The client has gone: whoever waits is told so, and whoever asks from now on."""
        self._closed = True
        for question in self._open.values():
            question.settled.set()
