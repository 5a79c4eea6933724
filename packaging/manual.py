"""Make the manual from what the commands say of themselves: man pages and a reference page.

    OUT/codex-multitool.1, codex-multitool-exec.1, ...    man(7), each command and role
    docs/reference/commands.md                            the same for docs/

Options, synopses and descriptions are those of the commands' own help; exit statuses, variables and
files are the tables of docs/reference. So a page cannot say anything else than `--help` and the
documentation do.
"""

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from codex_multitool import __version__, execve_wrapper, roles
from codex_multitool.cli import commands as cli
from codex_multitool.mcp_server.command_line import command_line as mcp_server
from codex_multitool.sandbox import main as linux_sandbox

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
COMMANDS_PAGE = REFERENCE / "commands.md"
# Pages under a second name.
ALIASES = {
    f"{roles.CLI} mcp-server": roles.MCP_SERVER,
    f"{roles.CLI} mcp": roles.MCP_SERVER,
    f"{roles.CLI} execve-wrapper": roles.EXECVE_WRAPPER,
    f"{roles.CLI} linux-sandbox": roles.LINUX_SANDBOX,
    f"{roles.CLI} sandbox": f"{roles.CLI} debug",
}
INTRODUCTION = f"""\
# Commands

<!-- Made by `make manual` from the commands' own help; not edited by hand. -->

`--help` behind any command tells the same, with examples; so does `man {roles.CLI}` when the
executable's folder is in `PATH`. What the statuses mean: [exit statuses](exit-status.md).
"""


@dataclass(slots=True)
class Entry:
    """A command or a role: its name, and its help taken apart.

    text: paragraphs, those to be left as they are with a line break at their beginning.
    """

    name: str
    summary: str
    usage: str
    text: list[str] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    commands: list[tuple[str, str]] = field(default_factory=list)
    examples: str = ""

    @property
    def page(self) -> str:
        """The name of its page."""
        return self.name.replace(" ", "-")


def entries() -> list[Entry]:
    """All commands and roles, each once."""
    root = _of_command(roles.CLI, cli.command_line)
    found = [root]
    context = click.Context(cli.command_line)
    for name, summary in cli.SUBCOMMANDS.items():
        full = f"{roles.CLI} {name}"
        command = cli.command_line.get_command(context, name)
        assert command is not None, name
        if full not in ALIASES:
            found += _with_subcommands(full, command, summary)
    summaries = dict(reversed(cli.ROLES.values()))  # a second name says only that it is one
    server = _of_command(roles.MCP_SERVER, mcp_server, summaries[roles.MCP_SERVER])
    return [
        *found,
        server,
        _of_text(roles.EXECVE_WRAPPER, execve_wrapper.HELP, summaries[roles.EXECVE_WRAPPER]),
        _of_text(roles.LINUX_SANDBOX, linux_sandbox.HELP, summaries[roles.LINUX_SANDBOX]),
    ]


def _with_subcommands(name: str, command: click.Command, summary: str) -> list[Entry]:
    entry = _of_command(name, command, summary)
    found = [entry]
    if isinstance(command, click.Group):
        for sub, its in command.commands.items():
            below = _of_command(f"{name} {sub}", its)
            found.append(below)
    return found


def _of_command(name: str, command: click.Command, summary: str = "") -> Entry:
    above = click.Context(cli.command_line, **cli.command_line.context_settings)
    context = click.Context(command, parent=above, **command.context_settings)
    paragraphs = (command.help or "").strip().split("\n\n")
    if not summary:
        summary = " ".join(paragraphs[0].split()).partition(". ")[0].rstrip(".") + "."
    entry = Entry(name, summary, " ".join([name, *command.collect_usage_pieces(context)]))
    for paragraph in paragraphs:
        _place(entry, paragraph.removeprefix("\b"), kept=paragraph.startswith("\b"))
    options = [it for it in command.get_params(context) if isinstance(it, click.Option)]
    entry.options = [it for option in options if (it := option.get_help_record(context))]
    if isinstance(command, cli.LazyGroup):
        told = {**{name: text for name, (_, text) in cli.ROLES.items()}, **cli.SUBCOMMANDS}
        entry.commands = [(f"{name} {sub}", text) for sub, text in told.items()]
    elif isinstance(command, click.Group):
        entry.commands = [
            (f"{name} {sub}", it.get_short_help_str(limit=200))
            for sub, it in command.commands.items()
        ]
    return entry


def _of_text(name: str, text: str, summary: str) -> Entry:
    """A role whose help is written out, since it has no time to make it."""
    usage, _, rest = text.partition("\n")
    entry = Entry(name, summary, usage.partition(": ")[2])
    for paragraph in rest.strip().split("\n\n"):
        if paragraph.startswith("  -"):
            for option in re.split(r"\n(?=  -)", paragraph):
                terms, told = re.split(r"  +", option.strip(), maxsplit=1)
                entry.options.append((terms, " ".join(told.split())))
            continue
        lists, _, status = paragraph.partition("\nExit status: ")
        _place(entry, lists if status else paragraph, kept="\n  " in paragraph)
    return entry


def _place(entry: Entry, paragraph: str, *, kept: bool) -> None:
    if paragraph.lstrip().startswith("Exit status"):
        return  # the reference has all of them
    head, _, rest = paragraph.strip("\n").partition("\n")
    if kept and head == "Examples:":
        entry.examples = textwrap.dedent(rest)
    elif kept:
        entry.text.append(f"\n{paragraph.strip(chr(10))}")
    else:
        entry.text.append(" ".join(paragraph.split()))


def rows(page: str, name: str) -> list[tuple[str, str]]:
    """What a table of the reference says of a program: first and last column."""
    text = (REFERENCE / page).read_text()
    if page == "exit-status.md":
        while f"\n## {name}\n" not in text and " " in name:
            name = name.rpartition(" ")[0]  # as the command it is a part of
        text = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| ") or cells[-1] == "meaning" or cells[0] == "file":
            continue
        if len(cells) == 2 or _concerns(cells[1], name):
            found.append((cells[0], cells[-1]))
    return found


def _concerns(readers: str, name: str) -> bool:
    whole, _, exceptions = readers.partition("all but ")
    listed = re.split(r", | and ", exceptions or whole)
    named = any(f"{name} ".startswith(f"{reader} ") for reader in listed)
    return named != bool(exceptions)


def roff(entry: Entry, others: Sequence[Entry]) -> str:
    """The entry as a man page."""
    title = f'.TH {entry.page.upper()} 1 "" "{roles.CLI} {__version__}" "User Commands"'
    # Newer groff_man(7) goes back to the string AD with each paragraph.
    lines = [title.replace("-", r"\-"), ".nh", ".ad l", ".ds AD l", ".SH NAME"]
    lines.append(f"{_escaped(entry.page)} \\- {_escaped(_lowered(entry.summary))}")
    lines += [".SH SYNOPSIS", *_filled(f"`{entry.name}`{entry.usage.removeprefix(entry.name)}")]
    lines.append(".SH DESCRIPTION")
    for number, paragraph in enumerate(entry.text):
        lines += [".PP"] if number else []
        lines += _kept(paragraph[1:]) if paragraph.startswith("\n") else _filled(paragraph)
    sections = [
        ("COMMANDS", [(f"`{name}`", text) for name, text in entry.commands]),
        ("OPTIONS", [(f"`{terms}`", text) for terms, text in entry.options]),
        ("EXIT STATUS", rows("exit-status.md", entry.name)),
        ("ENVIRONMENT", rows("environment.md", entry.name)),
        ("FILES", rows("files.md", entry.name)),
    ]
    for heading, pairs in sections:
        if pairs:
            lines.append(f".SH {heading}")
        for term, text in pairs:
            lines += [".TP", *_filled(_plain(term), 1000), *_filled(_plain(text))]
    if entry.examples:
        lines += [".SH EXAMPLES", *_kept(entry.examples)]
    pages = [f"`{other.page}`(1)" for other in others if _related(entry, other)]
    lines += [".SH SEE ALSO", *_filled(", ".join(pages))]
    return "\n".join(lines) + "\n"


def _related(entry: Entry, other: Entry) -> bool:
    if entry is other:
        return False
    near = other.name.rpartition(" ")[0] in (entry.name, entry.name.rpartition(" ")[0])
    return near or other.name == roles.CLI


def _lowered(summary: str) -> str:
    return summary[:1].lower() + summary[1:].rstrip(".")


def _plain(cell: str) -> str:
    """A cell of Markdown without its links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)


_SPECIAL = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def _escaped(text: str) -> str:
    text = "".join(_SPECIAL.get(character, character) for character in text)
    return rf"\&{text}" if text.startswith(".") else text


def _filled(text: str, width: int = 60) -> list[str]:
    """Running text; what stands in backquotes is bold."""
    lines, bold = [], False
    for line in textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False):
        pieces = []
        for index, piece in enumerate(line.split("`")):
            if index:
                bold = not bold
                pieces.append(r"\fB" if bold else r"\fR")
            pieces.append(_escaped(piece))
        lines.append("".join(pieces))
    return lines


def _kept(text: str) -> list[str]:
    return [".RS 4", ".nf", *map(_escaped, text.split("\n")), ".fi", ".RE"]


def commands_page(found: Sequence[Entry]) -> str:
    """docs/reference/commands.md."""
    return "\n".join([INTRODUCTION, *(line for entry in found for line in _markdown(entry))])


def _markdown(entry: Entry) -> Iterator[str]:
    yield f"## {entry.name}\n"
    yield f"```text\n{entry.usage}\n```\n"
    for paragraph in entry.text:
        if paragraph.startswith("\n"):
            yield f"```text\n{paragraph[1:]}\n```\n"
        else:
            text = re.sub(r"<([a-z]+)>", r"\\<\1>", paragraph)
            yield textwrap.fill(text, 110, break_on_hyphens=False, break_long_words=False) + "\n"
    for heading, pairs in (("command", entry.commands), ("option", entry.options)):
        if pairs:
            yield f"| {heading} | |\n|---|---|"
            for term, text in pairs:
                yield f"| `{_cell(term)}` | {_cell(text)} |"
            yield ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def write_pages(out: Path, found: Sequence[Entry]) -> None:
    """All man pages, and nothing else, into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.1"):
        old.unlink()
    for entry in found:
        (out / f"{entry.page}.1").write_text(roff(entry, found))
    for name, target in ALIASES.items():
        (out / f"{name.replace(' ', '-')}.1").symlink_to(f"{target.replace(' ', '-')}.1")


def main() -> int:
    """Make what is asked for; returns the exit status."""
    parser = argparse.ArgumentParser(description="Make the manual.")
    parser.add_argument("--man", type=Path, metavar="OUT", help="write the man pages there")
    parser.add_argument("--write", action="store_true", help="write docs/reference/commands.md")
    parser.add_argument("--check", action="store_true", help="fail if that page is not up to date")
    options = parser.parse_args()
    found = entries()
    if options.man:
        write_pages(options.man, found)
    page = commands_page(found)
    if options.write:
        COMMANDS_PAGE.write_text(page)
    if options.check and (not COMMANDS_PAGE.is_file() or COMMANDS_PAGE.read_text() != page):
        print(f"{COMMANDS_PAGE.relative_to(ROOT)} is not up to date: run `make manual`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
