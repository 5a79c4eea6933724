"""What this server is made of and obeys."""

import os

from codex_multitool import roles
from codex_multitool.mcp_server.service import Service
from codex_multitool.running.own_files import Names, OwnFiles, own_files


def files_of(service: Service) -> OwnFiles:
    """Those of the server that serves it. Raises ConfigError."""
    names = Names(roles.started(), roles.executable(roles.MCP_SERVER))
    files = own_files(names, os.environ, service.rules_files, service.choice)
    return OwnFiles(files, accepted=service.accept_writable)
