"""The reference pages have what the code has: arguments, results, variables, rules."""

from __future__ import annotations

import inspect
import re

from codex_multitool.execpolicy import parser
from codex_multitool.mcp_server.shell_tool import DEFINITION
from tests.documentation.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
# Asked of the surroundings, or mended; nothing that a user sets for us.
NOT_SETTINGS = {
    *("LC_CTYPE", "KUBERNETES_SERVICE_HOST", "TERM", "XDG_CACHE_HOME"),
    *("_CODEX_EXEC_MCP_SERVER_COMPLETE", "RUST_BACKTRACE"),
}


def first_column(page: str, heading: str) -> list[str]:
    text = (REFERENCE / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def test_the_tools_arguments_and_results() -> None:
    given = DEFINITION["inputSchema"]["properties"]
    assert first_column("shell-tool.md", "Arguments") == list(given)
    gets = DEFINITION["outputSchema"]["properties"]
    told = first_column("shell-tool.md", "Result")
    decision = gets["decisions"]["items"]["properties"]
    assert sorted(told) == sorted([*gets, *decision])


def test_the_arguments_of_rules() -> None:
    for call in re.findall(r"\w+\([^)]+\)", inspect.getsource(parser).partition("_SIGNATURES")[2]):
        name, _, arguments = call.rstrip(")").partition("(")
        if name in ("prefix_rule", "network_rule", "host_executable"):
            listed = first_column("rules.md", f"`{name}`")
            assert sorted(listed) == sorted(arguments.split(", ")), name


def test_every_variable_that_is_read() -> None:
    asked = r'environ(?:\.get\(|\[)"([A-Z_]+)"|envvar="([A-Z_]+)"|_VARIABLE = "([A-Z_]+)"'
    code = "".join(path.read_text() for path in (ROOT / "codex_multitool").rglob("*.py"))
    read = {name for names in re.findall(asked, code) for name in names if name}
    page = (REFERENCE / "environment.md").read_text()
    told = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    assert read - NOT_SETTINGS <= told
    shells = (ROOT / "packaging" / "shells" / "exec_wrapper.c").read_text()
    assert {name for name in told if name not in code + shells} == set()
