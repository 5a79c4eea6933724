"""What this server is made of and obeys."""

import logging
import os

from codex_multitool import roles
from codex_multitool.mcp_server.service import Service
from codex_multitool.running.own_files import Names, OwnFiles, own_files

log = logging.getLogger(__name__)


def files_of(service: Service) -> OwnFiles:
    """Those of the server that serves it. Raises ConfigError."""
    names = Names(roles.started(), roles.executable(roles.MCP_SERVER))
    files = own_files(names, os.environ, service.rules_files, service.choice)
    return OwnFiles(files, accepted=log.warning if service.accept_writable else None)
