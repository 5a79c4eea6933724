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
        canonical = {os.path.realpath(root): root for root in roots}
        for what, path in self._files:
            if not _changeable(path, tuple(canonical)):
                continue
            root = next(root for place, root in canonical.items() if _changeable(path, (place,)))
            return (
                f"commands could write in {root}, and so change {path}, {what}: what they leave "
                f"there would act outside the sandbox. Move it, make less writable, or start the "
                f"server with {_OPTION}"
            )
        return None


def _changeable(path: str, roots: tuple[str, ...]) -> bool:
    """Whether who may write below `roots`, canonical, can change the file or what is in it."""
    own = os.path.realpath(path)
    return any(beneath(root, (own,)) for root in roots) or redirectable(path, roots)


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
