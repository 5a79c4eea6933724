"""The files that make up the server, and those it obeys: no command may be able to write them.

Whoever changes one of them is outside the sandbox as soon as the next server starts.
"""

import logging
import os
import sys
from collections.abc import Iterable, Sequence

from codex_multitool import roles
from codex_multitool.config.layers import SYSTEM_FILE
from codex_multitool.escalation.identity import beneath, redirectable
from codex_multitool.mcp_server.service import Service

log = logging.getLogger(__name__)

_OPTION = "--accept-writable-server"


class OwnFiles:
    """Files and folders by what they are. accepted: that commands write them is told, no more."""

    def __init__(self, files: Iterable[tuple[str, str]] = (), *, accepted: bool = False) -> None:
        self._files = tuple(files)
        self._accepted = accepted
        self._told: set[str] = set()

    def exposed(self, roots: Sequence[str]) -> str | None:
        """Why commands must not get these writable directories; None if they may."""
        reason = self._exposed(roots)
        if reason is None or not self._accepted:
            return reason
        if reason not in self._told:
            self._told.add(reason)
            log.warning("accepted: %s", reason)
        return None

    def _exposed(self, roots: Sequence[str]) -> str | None:
        for root in roots:
            canonical = os.path.realpath(root)
            for what, path in self._files:
                if beneath(canonical, (os.path.realpath(path),)) or redirectable(
                    path, (canonical,)
                ):
                    return (
                        f"commands could write in {root}, and so change {path}, {what}: what they "
                        f"leave there would act outside the sandbox. Move it, make less writable, "
                        f"or start the server with {_OPTION}"
                    )
        return None


def files_of(service: Service) -> OwnFiles:
    """Those of the server that serves it."""
    choice = service.choice
    executable = roles.executable(roles.MCP_SERVER)
    files = own_files(executable, service.home, service.rules_files, choice.shell, choice.wrapper)
    return OwnFiles(files, accepted=service.accept_writable)


def own_files(
    executable: str, home: str, rules: Sequence[str], shell: str, wrapper: str | None
) -> list[tuple[str, str]]:
    """The files of a server. executable: any of its names. home: CODEX_HOME. rules: all files."""
    return [
        ("the folder of this server", os.path.dirname(executable)),
        ("the code of this server", os.path.dirname(os.path.dirname(__file__))),
        ("its interpreter", sys.executable),
        ("its interpreter's library", os.path.dirname(os.__file__)),
        ("its configuration", os.path.join(home, "config.toml")),
        ("its configuration", os.path.join(home, ".env")),
        ("its configuration", SYSTEM_FILE),
        ("its rules", os.path.join(home, "rules")),
        *(("its rules", os.path.abspath(path)) for path in rules),
        ("the shell it runs", shell),
        *([("the exec wrapper", wrapper)] if wrapper is not None else []),
    ]
