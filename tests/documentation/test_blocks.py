"""Every command, setting and rule that the documentation shows does what the page says."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from codex_multitool import roles
from codex_multitool.config.configuration import configuration
from codex_multitool.config.documents import file_document
from codex_multitool.config.settings import statements
from codex_multitool.execpolicy.parser import Source, parse
from tests.documentation.pages import NAMES, Block, blocks
from tests.documentation.session import DocumentationError, Session, commands, installed
from tests.executables import built

RUN = ("console", "sh")
READ = ("toml", "python", "json")
SHOWN = ("text", "")  # diagrams, messages, excerpts
MOST_NOT_RUN = 12
WITH_COMMANDS = [name for name in NAMES if any(it.kind in RUN for it in blocks(name))]


@pytest.fixture
def session() -> Iterator[Session]:
    # Not in /tmp, which a sandbox may open.
    with tempfile.TemporaryDirectory(prefix="codex-pages-", dir="/var/tmp") as folder:
        yield Session(folder)


@functools.cache
def unavailable(what: str) -> str | None:
    """Why something that a block needs cannot be had here."""
    if what == "kernel interception":
        command = [str(built() / roles.CLI), "exec", "--intercept=kernel", "true"]
        reason = "kernel interception does not work here"
    elif not shutil.which(what):
        return f"{what} is not installed"
    else:
        command = [what, "info" if what == "docker" else "--version"]
        reason = f"{what} does not answer"
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    return reason if done.returncode else None


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_commands_do_what_the_page_says(session: Session, name: str) -> None:
    confined = ("codex-multitool exec ", "codex-multitool debug ")
    needed = any(words in block.text for block in blocks(name) for words in confined)
    if needed and (reason := unavailable("kernel interception")):
        pytest.skip(reason)
    missing = []
    for block in blocks(name):
        if block.marker == "file":
            session.write(block.value, block.text)
        if block.kind not in RUN or block.marker in ("file", "not run"):
            continue
        if block.marker == "needs" and (reason := unavailable(block.value)):
            missing.append(f"{block.place}: {reason}")
            continue
        if block.marker == "needs":
            session.environ["PATH"] += f":{os.path.dirname(shutil.which(block.value) or '')}"
        session.run(block)
    if missing:
        pytest.skip(f"all but {'; '.join(missing)}")


@pytest.mark.parametrize("name", NAMES)
def test_settings_and_rules_can_be_read(name: str) -> None:
    for block in blocks(name):
        match block.kind:
            case "toml":
                found = statements(file_document(block.place, "/folder", block.text), "/home/me")
                configuration(found)
            case "python":
                parse([Source(block.place, block.text)])
            case "json":
                json.loads(block.text)
            case kind:
                assert kind in (*RUN, *SHOWN) or block.marker == "not run", block.place


def test_configurations_of_clients_are_what_mcp_config_prints(session: Session) -> None:
    printed = subprocess.run(
        [installed() / roles.CLI, "mcp-config", "cursor"],
        env=session.environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    wanted, _ = json.JSONDecoder().raw_decode(session.there(printed.stdout))
    shown = [block for name in NAMES for block in blocks(name) if '"mcpServers"' in block.text]
    static = [block for block in shown if block.kind == "json"]
    assert static
    for block in static:
        assert json.loads(block.text) == wanted, block.place


def test_little_is_not_run() -> None:
    found = [it for name in NAMES for it in blocks(name) if it.marker == "not run"]
    for block in found:
        print(f"{block.place}: {block.value}")  # noqa: T201 — shown when it fails
        assert len(block.value) > 15, f"{block.place}: say why"
    assert len(found) <= MOST_NOT_RUN


def test_what_is_run_is_not_little() -> None:
    shown = [it for name in NAMES for it in blocks(name) if it.kind in RUN and not it.marker]
    assert sum(len(commands(block)) for block in shown) > 40


class TestTheRunnerNotices:
    """What a page says wrongly."""

    def block(self, text: str, kind: str = "console") -> Block:
        return Block("page.md:1", kind, text, "", "")

    @pytest.mark.parametrize(
        "text",
        [
            "$ echo one\ntwo\n",
            "$ echo one\n",
            "$ printf 'one\\ntwo\\n'\none\n",
            "$ false\n",
            "$ exit 1\n$ echo never\nnever\n",
            "no command\n",
        ],
    )
    def test_wrong(self, session: Session, text: str) -> None:
        with pytest.raises(DocumentationError):
            session.run(self.block(text))

    @pytest.mark.parametrize(
        "text",
        [
            "$ echo one\none\n",
            "$ echo one two three\none ... three\n",
            "$ printf 'a\\nb\\nc\\nd\\n'\na\n...\nd\n",
            "$ false\n$ echo $?\n1\n",
            "$ cat <<E\n> text\n> E\ntext\n",
            "$ cd /usr\n$ pwd\n/usr\n",
        ],
    )
    def test_right(self, session: Session, text: str) -> None:
        session.run(self.block(text))
