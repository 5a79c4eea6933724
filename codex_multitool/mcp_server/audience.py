"""What a client hands on of a result to its model, and so in which form it gets it — pure.

Clients hand on one half of a result: Codex and Claude Code `structuredContent` if there is any,
Gemini CLI, opencode and most frameworks `content`. So each half says all there is to say, once.
"""

from typing import NamedTuple

_STRUCTURED = "2025-06-18"  # the first version that has `structuredContent`
_CODEX = "codex"  # how its clients' names begin
# What they pass on whole, in characters of JSON, less what stands around an output: Codex 12,000,
# Gemini CLI 40,000, Claude Code 50,000, opencode 51,200.
_CODEX_SIZE, _SIZE = 11_000, 36_000


class Form(NamedTuple):
    """json: `content` is the reference's JSON, else words. structured: the other half is sent.

    size: bytes of output that are passed on, as JSON spells them.
    """

    json: bool
    structured: bool
    size: int


def form(
    version: str, client: str, *, reference: bool, wanted: str = "auto", size: int | None = None
) -> Form:
    """What a client of this protocol version and name gets.

    reference: it has spoken as the reference's client does. wanted: auto, text or json. size: as
    configured.
    """
    reference = reference or client.startswith(_CODEX)
    structured = version >= _STRUCTURED
    json = wanted == "json" or (wanted == "auto" and (reference or not structured))
    return Form(json, structured, size or (_CODEX_SIZE if reference else _SIZE))
