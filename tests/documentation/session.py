"""A user's shell, in which the commands of one page are run, one block after the other."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.terminal import Terminal
from tests.documentation.pages import ROOT, Block
from tests.executables import built

DEADLINE = 120  # seconds a block may take on a loaded machine
# What the pages call these places.
INSTALLED, HOME, CHECKOUT = "/opt/codex-multitool", "/home/me", "/home/me/codex-multitool"
_INSTALLED = tempfile.TemporaryDirectory(prefix="codex-installed-", dir="/var/tmp")
_END = "\x01"  # parts the outputs of the commands of a block
_QUESTION = "/N] > "


@functools.cache
def installed() -> Path:
    """The executable as a user has it: not where commands may write, as in /tmp."""
    return Path(shutil.copytree(built(), Path(_INSTALLED.name, "dist"), symlinks=True))


class DocumentationError(Exception):
    """A page says what is not so; the text says where."""


@dataclass(slots=True)
class Command:
    """A command as a page shows it, and what is shown as its output."""

    line: str
    output: list[str] = field(default_factory=list)


def commands(block: Block) -> list[Command]:
    """What a block shows: commands behind `$ `, going on behind `> `; in sh, all of it is one."""
    if block.kind == "sh":
        return [Command(block.text)]
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif not found:
            raise DocumentationError(f"{block.place}: it does not begin with a command")
        elif line.startswith("> ") and not found[-1].output:
            found[-1].line += f"\n{line[2:]}"
        else:
            found[-1].output.append(line)
    return found


class Session:
    """Home, working folder and files last from block to block."""

    def __init__(self, folder: str) -> None:
        self.home = Path(folder, "me")
        self.home.mkdir()
        self._cwd = self.home
        self.environ = {
            "PATH": f"{installed()}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "USER": "me",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TMPDIR": str(self.home.parent / "tmp"),
        }
        Path(self.environ["TMPDIR"]).mkdir()

    def here(self, text: str) -> str:
        """The text with this machine's places."""
        text = text.replace(INSTALLED, str(installed()))
        return text.replace(CHECKOUT, str(ROOT)).replace(HOME, str(self.home))

    def there(self, text: str) -> str:
        """The text with the places the pages name."""
        text = text.replace(str(installed()), INSTALLED)
        return text.replace(str(self.home), HOME).replace(str(ROOT), CHECKOUT)

    def write(self, path: str, text: str) -> None:
        """Make the file that a block is."""
        file = self._cwd / path.replace("~", str(self.home))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.here(text))

    def run(self, block: Block) -> None:
        """Run what it shows; raises DocumentationError where something else comes out."""
        shown = commands(block)
        where = self.home.parent / "cwd"
        script = "".join(
            f"{self.here(it.line)}\n__=$?; printf '\\001%d\\n' $__; (exit $__)\n" for it in shown
        )
        lasting = "declare -p OLDPWD >/dev/null 2>&1"
        program = f"{script}{lasting}; pwd > {where}\n"
        typed = block.value.split(", ") if block.marker == "typed" else None
        said = self._at_terminal(program, typed) if typed else self._run(program)
        self._cwd = Path(where.read_text().strip()) if where.exists() else self._cwd
        outputs = re.split(f"{_END}([0-9]+)\r?\n", self.there(said))
        if len(outputs) != 2 * len(shown) + 1:
            raise DocumentationError(f"{block.place}: it does not come to its end:\n{said}")
        for number, command in enumerate(shown):
            self._compare(block, command, outputs[2 * number])
            status = int(outputs[2 * number + 1])
            told = command.output or any(it.line == "echo $?" for it in shown[number + 1 :][:1])
            if status and not told:
                raise DocumentationError(f"{block.place}: $ {command.line}\nfails with {status}")

    def _run(self, program: str) -> str:
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            subprocess.run(
                ["/bin/bash", "-c", program],
                cwd=self._cwd,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                timeout=DEADLINE,
            )
            output.seek(0)
            return output.read()

    def _at_terminal(self, program: str, typed: list[str]) -> str:
        shell = ["/bin/bash", "-c", program]
        with Terminal(shell, self.environ, self._cwd) as terminal:
            for answer in typed:
                terminal.until(_QUESTION)
                terminal.type(os.fsencode(f"{answer}\n"))
            terminal.status()
            return terminal.seen

    def _compare(self, block: Block, command: Command, output: str) -> None:
        wanted = [line.rstrip() for line in command.output]
        found = "\n".join(line.rstrip() for line in output.splitlines()).strip("\n")
        if block.kind == "console" and not _like("\n".join(wanted).strip("\n")).fullmatch(found):
            shown = "\n".join(wanted)
            told = f"{block.place}: $ {command.line}"
            raise DocumentationError(f"{told}\nThe page says:\n{shown}\n\nIt is:\n{found}")


_VARYING = re.compile(r"\\\.\\\.\\\.|\b[0-9]+\\\.[0-9]{3}(?=\\ s\b)|\b47[0-9]{2}\b")


def _like(text: str) -> re.Pattern[str]:
    """What a text matches in which `...` stands for a part of a line, or alone for any lines.

    A time in milliseconds is any time, and 47xx any process id.
    """
    lines = []
    for line in text.split("\n"):
        alone = line.strip() == "..."
        lines.append("(?:.*\n)*?.*" if alone else _VARYING.sub(".*", re.escape(line)))
    return re.compile("\n".join(lines))
