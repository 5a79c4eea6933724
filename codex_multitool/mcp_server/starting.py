"""From the command line to the first answer, with no more loaded than that takes.

Options, configuration, rules and the way of interception are settled before anything is answered:
a server that cannot protect as it was told to ends without a word to the client. What only calls
need, the event loop above all, is loaded when the client has been answered.
"""

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from importlib import import_module

from codex_multitool import roles
from codex_multitool.execpolicy.engine_process import Engine
from codex_multitool.mcp_server.conversation import Conversation
from codex_multitool.mcp_server.opening import Opening, end_on_signals, take_over
from codex_multitool.mcp_server.options import Options, plain
from codex_multitool.mcp_server.service import Said, Service, prepared
from codex_multitool.mcp_server.words import Words
from codex_multitool.running.choice import StartError
from codex_multitool.running.probe import Probe

# What `serving` brings along, in parts: between them the client is attended to.
_LARGE = ("attrs", "trio", "codex_multitool.mcp_server.server", "codex_multitool.escalation.decide")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def run(
    arguments: Sequence[str], zygote: socket.socket, probe: Probe, engine: Engine | None
) -> int:
    """Serve as `arguments` say; returns the exit status. probe, engine: begun for this."""
    told = list[Said]()
    with closing(probe), closing(engine) if engine else nullcontext():
        options = _options(arguments)
        if isinstance(options, int):
            return options
        level = "WARNING"
        try:
            level = _level()
            service = prepared(options, probe, engine, told.append)
            _hold(service)
            _prove(service)
        except StartError as error:
            if told:
                _log(level, told)
            sys.stderr.write(f"{roles.MCP_SERVER}: {error}\n")
            return 1
    return _serve(service, zygote, level, told)


def _options(arguments: Sequence[str]) -> Options | int:
    found = plain(arguments, os.environ)
    if found is not None:
        return found
    from codex_multitool.mcp_server import command_line

    return command_line.parse(arguments)


def _level() -> str:
    level = (os.environ.get("CODEX_MULTITOOL_LOG") or "WARNING").upper()
    if level not in _LEVELS:
        raise StartError(f"CODEX_MULTITOOL_LOG={level} is none of {', '.join(_LEVELS)}")
    return level


def _hold(service: Service) -> None:
    """Raises StartError if the configured state would let commands write the server itself."""
    if service.state is None or service.accept_writable:
        return
    from codex_multitool.mcp_server.own_files import files_of

    if reason := files_of(service).exposed(service.roots(service.state)):
        raise StartError(f"the configured sandbox: {reason}")


def _prove(service: Service) -> None:
    """Raises StartError if the rules would hang on a shell that does not ask."""
    if service.choice.wrapper is not None:
        from codex_multitool.running.shell_proof import prove

        prove(service.choice)


def _serve(service: Service, zygote: socket.socket, level: str, told: Sequence[Said]) -> int:
    words = Words(service.choice.wrapper is None, service.choice.told, service.roots)
    opening = Opening(Conversation(words, service.state), take_over())
    end_on_signals()
    opening.attend()
    # From here on large imports: the client has its answer, or has not asked yet.
    _log(level, told)
    for module in _LARGE:
        opening.attend()
        import_module(module)
    opening.attend()
    from codex_multitool.mcp_server import serving

    opening.attend()
    return serving.serve(service, opening, zygote)


def _log(level: str, told: Sequence[Said]) -> None:
    import logging

    form = f"{roles.MCP_SERVER}: %(levelname)s: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=level, format=form)
    for severity, text in told:
        logging.log(logging.getLevelName(severity), "%s", text)
