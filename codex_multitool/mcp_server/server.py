"""The server's side of MCP: requests in order, each call in a task of its own.

A call ends with its answer, with the client's cancellation (then it has no answer), or with the
input. Whatever goes wrong in one of them, the others go on.
"""

import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import trio

from codex_multitool.mcp_server import arguments, audience, messages, result, shell_tool
from codex_multitool.mcp_server.audience import Form
from codex_multitool.mcp_server.calls import (
    Asker,
    CommandResult,
    CommandSpec,
    Run,
    ToolError,
)
from codex_multitool.mcp_server.conversation import NAME, Conversation
from codex_multitool.mcp_server.messages import Object, RequestId, is_id, named
from codex_multitool.mcp_server.progress import Progress
from codex_multitool.mcp_server.questions import Questions
from codex_multitool.mcp_server.sandbox_state import META, META_PREFIX, StateError, parse_state
from codex_multitool.mcp_server.session import (
    Event,
    Invalid,
    Notification,
    Request,
    Response,
)
from codex_multitool.mcp_server.state import SandboxState
from codex_multitool.mcp_server.stdio import Answers

log = logging.getLogger(__name__)

_MAX_CALLS = 256  # at a time; each has a process tree


class RequestError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


class _Call(NamedTuple):
    """form: of its result. token: of the progress the client wants to hear of, if it does."""

    spec: CommandSpec
    state: SandboxState | None
    form: Form
    token: RequestId | None


class Server:
    """One session with one client.

    run: what a `shell` call does. patience: seconds a human has to answer.
    cwd: what a sandbox state without a directory is relative to. expect: told of each state that
    the client sends; says why calls would fail under it, which the client is told. begun: what
    came before there was a server and is not answered, in order. results, size: what results are
    like, see `audience`.
    """

    def __init__(
        self,
        run: Run,
        conversation: Conversation,
        *,
        patience: float,
        cwd: str,
        expect: Callable[[SandboxState], str | None] = lambda _: None,
        begun: Sequence[Event] = (),
        results: str = "auto",
        size: int | None = None,
    ) -> None:
        self._run = run
        self._conversation = conversation
        self._expect = expect
        self._cwd = cwd
        self._begun = begun
        self._results, self._size = results, size
        self._reference = False  # whether the client has spoken as the reference's does
        self._state: SandboxState | None = None
        self._session = conversation.session
        self._questions = Questions(self._session, self._send, patience)
        self._calls: dict[RequestId, trio.CancelScope] = {}

    async def serve(self, chunks: AsyncIterator[bytes], answers: Answers) -> None:
        """Serve until the input ends; then every call is cancelled."""
        self._answers = answers
        async with trio.open_nursery() as nursery:
            for event in self._begun:
                self._handle(event, nursery)
            async for data in chunks:
                for event in self._session.receive(data):
                    self._handle(event, nursery)
            self._questions.close()
            nursery.cancel_scope.cancel()

    def _send(self, message: bytes) -> None:
        if not message:
            return
        try:
            self._answers.send_nowait(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("the client has gone before it could be told: %.200r", message)

    def _handle(self, event: Event, nursery: trio.Nursery) -> None:
        match event:
            case Request(_, messages.CALL_TOOL) if len(self._calls) < _MAX_CALLS:
                self._begin(event, nursery)
            case Request():
                self._send(self._answer(event))
            case Notification(messages.CANCELLED, params):
                self._cancel(params)
            case Notification(method):
                self._conversation.notified(method)
                log.debug("notification %s", method)
            case Response():
                self._questions.settle(event)
            case Invalid(answer):
                self._send(answer)

    def _cancel(self, params: Object) -> None:
        number = params.get("requestId")
        if is_id(number) and number in self._calls:
            log.info("call %r is cancelled: %s", number, params.get("reason"))
            self._calls[number].cancel()

    def _answer(self, request: Request) -> bytes:
        """The answer to a request that needs no waiting."""
        try:
            if (answer := self._conversation.answer(request)) is not None:
                return answer
            if request.method == messages.UPDATE_STATE:
                return self._session.result(request.id, self._update_state(request.params))
            if request.method == messages.CALL_TOOL:
                text = f"{_MAX_CALLS} calls are running: wait for one to end"
                raise RequestError(messages.INVALID_REQUEST, text)
            text = f"method not found: {request.method}"
            raise RequestError(messages.METHOD_NOT_FOUND, text)
        except Exception as error:  # noqa: BLE001 - told to the client, and logged if it is a defect
            return self._failure(request, error)

    def _failure(self, request: Request, error: Exception) -> bytes:
        if isinstance(error, RequestError):
            try:
                return self._session.error(request.id, error.code, str(error), error.data)
            except RecursionError:  # data may be as deep as the decoder takes, the encoder less
                return self._session.error(request.id, error.code, str(error))
        _log_defect(request, error)
        text = "internal error: the server's standard error says more"
        return self._session.error(request.id, messages.INTERNAL_ERROR, text)

    def _update_state(self, params: Object | None) -> Object:
        if params is None:
            text = "missing params for sandbox state request"
            raise RequestError(messages.INVALID_PARAMS, text)
        self._reference = True
        # Taken in any case: under the one before it, a command might do what this one forbids.
        self._state = self._parsed(params)
        if (told := self._conversation.follow(self._state)) is not None:
            self._send(told)
        if reason := self._expect(self._state):
            raise RequestError(messages.INVALID_PARAMS, f"no command will run: {reason}")
        return {}

    def _parsed(self, value: object) -> SandboxState:
        try:
            return parse_state(value, self._cwd)
        except StateError as error:
            raise RequestError(messages.INVALID_PARAMS, str(error), value) from None

    def _begin(self, request: Request, nursery: trio.Nursery) -> None:
        try:
            call = self._understood(request.params or {})
        except ToolError as error:
            failure = result.encode_failure(str(error))
            self._send(self._session.result(request.id, failure))
        except Exception as error:  # noqa: BLE001 - as in _answer
            self._send(self._failure(request, error))
        else:
            scope = self._calls[request.id] = trio.CancelScope()
            # What else its parameters held is not kept as long as the call runs.
            request = Request(request.id, request.method, None)
            nursery.start_soon(self._call, request, call, scope, nursery)

    def _understood(self, params: Object) -> _Call:
        """A call's arguments. The state is taken now: an update that comes later is for later."""
        meta = _member(params, "_meta")
        if any(key.startswith(META_PREFIX) for key in meta):
            self._reference = True
        state = self._parsed(meta[META]) if META in meta else self._state
        token = meta.get("progressToken")
        return _Call(self._arguments(params), state, self._form(), token if is_id(token) else None)

    def _form(self) -> Form:
        return audience.form(
            self._session.version,
            self._session.client,
            reference=self._reference,
            wanted=self._results,
            size=self._size,
        )

    async def _call(
        self, request: Request, call: _Call, scope: trio.CancelScope, nursery: trio.Nursery
    ) -> None:
        found: Object | bytes | Exception = {}
        try:
            with scope:
                await trio.lowlevel.checkpoint_if_cancelled()
                found = await self._called(call, nursery)
        except Exception as error:  # noqa: BLE001 - as in _answer
            found = error
        finally:
            del self._calls[request.id]
        # Cancellation, behaviour requirements: a cancelled request gets no answer.
        if scope.cancel_called:
            if isinstance(found, Exception):
                _log_defect(request, found)
            self._send(self._session.forget(request.id))
        elif isinstance(found, Exception):
            self._send(self._failure(request, found))
        else:
            self._send(self._encoded(request, found))

    def _encoded(self, request: Request, value: Object | bytes) -> bytes:
        try:
            return self._session.result(request.id, value)
        except Exception as error:  # noqa: BLE001 - as in _answer
            return self._failure(request, error)

    async def _called(self, call: _Call, nursery: trio.Nursery) -> Object | bytes:
        progress = None if call.token is None else Progress(call.token, self._send)
        try:
            found = await self._ran(call, progress, nursery)
        except ToolError as error:
            return result.encode_failure(str(error))
        # Encoded it is larger, and would lie there until a client that is slow has read the others.
        await self._answers.room()
        return result.encode(found, _signal_name(found.signal), call.form)

    def _arguments(self, params: Object) -> CommandSpec:
        name = params.get("name")
        if name != shell_tool.NAME:
            what = repr(name) if isinstance(name, str) else named(name)
            text = f"unknown tool: {what}; the only one is `{shell_tool.NAME}`"
            raise RequestError(messages.INVALID_PARAMS, text)
        try:
            return arguments.parse_arguments(_member(params, "arguments"))
        except arguments.ArgumentError as error:
            text = f"failed to deserialize parameters: {error}"
            if self._session.version < messages.NEWEST:
                raise RequestError(messages.INVALID_PARAMS, text) from None
            # Tools, error handling (2025-11-25): what a model got wrong is for it to read.
            raise ToolError(text) from None

    async def _ran(
        self, call: _Call, progress: Progress | None, nursery: trio.Nursery
    ) -> CommandResult:
        questions = self._questions
        asker = Asker(questions.ask, questions.possible(), size=call.form.size)
        if progress is None:
            return await self._run(call.spec, call.state, asker)
        asker = asker._replace(progress=progress.follow)
        nursery.start_soon(progress.report)
        try:
            return await self._run(call.spec, call.state, asker)
        finally:
            progress.end()


def _log_defect(request: Request, error: Exception) -> None:
    log.error("%s failed; this is a defect of %s", request.method, NAME, exc_info=error)


def _signal_name(number: int | None) -> str | None:
    """SIGTERM for 15; most real-time signals have only a number."""
    try:
        return None if number is None else signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _member(params: Object, name: str) -> Object:
    """An object among the params, empty if it is not there."""
    value = params.get(name)
    if value is not None and not isinstance(value, dict):
        text = f"`{name}` must be an object, not {named(value)}"
        raise RequestError(messages.INVALID_PARAMS, text)
    return value or {}
