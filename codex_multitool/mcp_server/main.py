"""Role: serve the tool `shell` to an MCP client over stdio."""

import os
import signal

from codex_multitool import roles
from codex_multitool.keeper import zygote as keepers
from codex_multitool.launcher.hardening import harden
from codex_multitool.running import rules_engine, shells
from codex_multitool.running.probe import Probe


def main(argv: list[str]) -> int:
    """Run the role; returns the exit status: 128 + n when ended by signal n."""
    shells.open_standard_descriptors()
    # A terminal's Ctrl-C during start-up ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        probe = Probe()
        zygote = keepers.start(harden(), probe)
        engine = rules_engine.begin()
    except OSError as error:
        os.write(2, f"{roles.MCP_SERVER}: no process can be started: {error.strerror}\n".encode())
        return 1
    # Loaded when the zygote is forked: it has to do with none of it.
    from codex_multitool.mcp_server import starting

    return starting.run(argv[1:], zygote, probe, engine)
