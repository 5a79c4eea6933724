"""How a question about an exec is put to the human, and what the answer means — pure."""

from collections.abc import Sequence

from codex_multitool.mcp_server.calls import Answer
from codex_multitool.mcp_server.messages import Object
from codex_multitool.mcp_server.session import Response
from codex_multitool.running import quoting

# A yes or no, and nothing to fill in. Clients show a question only if they know all of its form:
# `title` is unknown to some, and a field for text makes others accept whatever is typed.
_SCHEMA = {"type": "object", "properties": {}}
_ACTIONS = frozenset({"accept", "decline", "cancel"})
_MAX_TOLD = 1000  # characters of what a client says


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
    action = response.result.get("action") if isinstance(response.result, dict) else None
    if not isinstance(action, str) or action not in _ACTIONS:
        return Answer("unavailable", "the client's answer is neither accept, decline nor cancel")
    return Answer(action)


def _text(value: object) -> str | None:
    """A client's words on one line; None if there are none."""
    if not isinstance(value, str):
        return None
    shown = "".join(c if c.isprintable() else " " for c in value[:_MAX_TOLD])
    return " ".join(shown.split()) or None
