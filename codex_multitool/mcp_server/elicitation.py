"""How a question about an exec is put to the human, and what the answer means — pure."""

from codex_multitool.mcp_server.calls import Answer, Question
from codex_multitool.mcp_server.messages import Object
from codex_multitool.mcp_server.session import Response
from codex_multitool.running import quoting

# A yes or no, and nothing to fill in. Clients show a question only if they know all of its form:
# `title` is unknown to some, and a field for text makes others accept whatever is typed.
_SCHEMA = {"type": "object", "properties": {}}
_ACTIONS = frozenset({"accept", "decline", "cancel"})
# Faster than a human reads: clients without a terminal refuse for them.
AT_ONCE = 0.15  # seconds
_MAX_TOLD = 1000  # characters of what a client says
# What a human reads in a dialog of a terminal: a screen at most, whatever the command is like.
_MAX_COMMAND = 800
_MAX_DIRECTORY, _MAX_LINE = 240, 320


def possible(capabilities: Object) -> bool:
    """Whether a client with these capabilities can be asked by a form.

    It need not say `form` unless it says `url`: Elicitation, capabilities.
    """
    declared = capabilities.get("elicitation")
    if not isinstance(declared, dict):
        return False
    form = declared.get("form")
    return declared.get("url") is None if form is None else isinstance(form, dict)


def params(question: Question) -> Object:
    """What is sent; `mode` is left out: without it a question is a form in every version."""
    return {"message": message(question), "requestedSchema": _SCHEMA}


def message(question: Question) -> str:
    """The question, and in a line each what there is to know before it is answered.

    The program stands there by its absolute path, its arguments as a shell reads them. Code spans
    are its own: no other line has a backtick, none has a line break, and all are short.
    """
    command = quoting.command_line(question.program, question.argv[1:], _MAX_COMMAND)
    where = quoting.directory(question.workdir, _MAX_DIRECTORY)
    place = "It leaves the sandbox." if question.outside else "It stays in the sandbox."
    asked = f"Asked {'by' if question.outside else 'because'} {question.because}"
    lines = [f"Allow agent to run `{command}` in `{where}`?", place, _line(asked)]
    if question.justification:
        lines.append(_line(f"Reason given: {question.justification}"))
    if question.warning:
        lines.append(_line(f"Beware: {question.warning}"))
    return "\n".join(lines)


def _line(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text.replace("`", "'"))
    return quoting.shortened(" ".join(text.split()), _MAX_LINE)


def answer(response: Response, seconds: float) -> Answer:
    """What the client's answer says; whatever is none means that nobody could be asked.

    seconds: how long it took.
    """
    if response.error is not None:
        told = response.error.get("message") if isinstance(response.error, dict) else None
        text = _text(told) or "no reason given"
        return Answer("unavailable", f"the client could not ask: {text}")
    action = response.result.get("action") if isinstance(response.result, dict) else None
    if not isinstance(action, str) or action not in _ACTIONS:
        return Answer("unavailable", "the client's answer is neither accept, decline nor cancel")
    if action != "accept" and seconds < AT_ONCE:
        return Answer(action, f"the client answered `{action}` at once, perhaps unseen by anybody")
    return Answer(action)


def _text(value: object) -> str | None:
    """A client's words on one line; None if there are none."""
    if not isinstance(value, str):
        return None
    shown = "".join(c if c.isprintable() else " " for c in value[:_MAX_TOLD])
    return " ".join(shown.split()) or None
