"""Our server as an ordinary user's, where root runs the tests.

The role is imported before the user changes, so the interpreter may be out of that user's reach.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.client import Answer, Client, accept
from tests.end_to_end.processes import kill_marked
from tests.end_to_end.rig import ROOT, Box, Pairing, make_box, server_command

USER = 65534 if os.geteuid() == 0 else os.geteuid()

_START = """
import os, sys, tomllib
import prctl
sys.path.insert(0, {root!r})
from codex_multitool import roles
from codex_multitool.execpolicy import engine
from codex_multitool.keeper import forking
from codex_multitool.mcp_server import command_line, main, serving, starting
from codex_multitool.running import trial
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({user})
    os.setuid({user})
    prctl.set_dumpable(1)  # as every program is that was just executed
sys.argv = sys.argv[1:]
sys.exit(roles.main(sys.argv))
"""


@contextmanager
def ordinary_box(config: str) -> Iterator[Box]:
    """A box of the user's, whose configuration says `config` besides what a box's does."""
    with tempfile.TemporaryDirectory(prefix="codex-ordinary-") as folder:
        os.chmod(folder, 0o755)
        box = make_box(Path(folder).resolve() / "box")
        with (box.home / ".codex" / "config.toml").open("a") as file:
            file.write(config)
        if os.geteuid() == 0:
            for path in (box.root, *box.root.rglob("*")):
                shutil.chown(path, USER, USER)
        try:
            yield box
        finally:
            kill_marked(box.mark)


@contextmanager
def ordinary_server(
    box: Box,
    pairing: Pairing,
    *,
    rules: str = "",
    answer: Answer | None = accept,
    env: Mapping[str, str] | None = None,
) -> Iterator[Client]:
    """The pairing's server, run by the user in a box of the user's, initialised."""
    box.rules.write_text(rules)
    code = _START.format(root=str(ROOT), user=USER)
    client = Client(
        [sys.executable, "-c", code, *server_command(pairing)],
        env=box.environment() | dict(env or {}),
        cwd=box.ws,
        stderr=box.root.parent / "stderr",
        answer=answer,
    )
    try:
        client.initialize()
        yield client
    finally:
        client.close()
