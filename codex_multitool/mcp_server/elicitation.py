"""How a question about an exec is put to the human, and what the answer means — pure."""

from collections.abc import Sequence

from codex_multitool.mcp_server.calls import Answer
from codex_multitool.mcp_server.messages import Object
from codex_multitool.mcp_server.session import Response
from codex_multitool.running import quoting

_SCHEMA = {
    "type": "object",
    "title": "Execution Permission Request",
    "properties": {
        "reason": {
            "type": "string",
            "description": "Optional reason for allowing or denying execution",
        }
    },
}
_ACTIONS = frozenset({"accept", "decline", "cancel"})
_MAX_REASON = 1000  # characters of what a human, or a client, says


def possible(capabilities: Object) -> bool:
    """Whether a client with these capabilities can be asked by a form.

    It need not say `form` unless it says `url`: Elicitation, capabilities.
    """
    declared = capabilities.get("elicitation")
    if not isinstance(declared, dict):
        return False
    form = declared.get("form")
    return declared.get("url") is None if form is None else isinstance(form, dict)


def params(program: str, argv: Sequence[str], workdir: str, warning: str = "") -> Object:
    """What is sent: the program by its absolute path, its arguments as a shell reads them.

    warning: a sentence that goes before the question, or nothing. `mode` is left out: without it a
    question is a form in every version.
    """
    command = quoting.command_line(program, argv[1:])
    before = f"{warning[0].upper()}{warning[1:]}. " if warning else ""
    return {
        "message": f"{before}Allow agent to run `{command}` in `{quoting.directory(workdir)}`?",
        "requestedSchema": _SCHEMA,
    }


def answer(response: Response) -> Answer:
    """What the client's answer says; whatever is none means that nobody could be asked."""
    if response.error is not None:
        told = response.error.get("message") if isinstance(response.error, dict) else None
        text = _text(told) or "no reason given"
        return Answer("unavailable", f"the client could not ask: {text}")
    result = response.result if isinstance(response.result, dict) else {}
    action, content = result.get("action"), result.get("content")
    if not isinstance(action, str) or action not in _ACTIONS:
        return Answer("unavailable", "the client's answer is neither accept, decline nor cancel")
    return Answer(action, _text(content.get("reason")) if isinstance(content, dict) else None)


def _text(value: object) -> str | None:
    """A human's words on one line; None if there are none."""
    if not isinstance(value, str):
        return None
    shown = "".join(c if c.isprintable() else " " for c in value[:_MAX_REASON])
    return " ".join(shown.split()) or None
