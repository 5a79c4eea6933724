"""Our rules language against the original's own, by the answers of both."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from codex_multitool.cli.execpolicy import execpolicy
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import RulesError
from codex_multitool.execpolicy.shell_words import UnbalancedError, split
from tests.execpolicy import peer

GIT = """
prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="leaves the host")
prefix_rule(pattern=["git", "push", "--force"], decision="forbidden")
prefix_rule(["git", "status"])
"""
LANGUAGE = """
# words and rules may be computed
TOOLS = ["make", "ninja"]
def careful(name, *rest):
    prefix_rule(pattern = [name] + list(rest), decision = "prompt")
for tool in TOOLS:
    prefix_rule([tool])
careful("make", "install")
[careful(tool, f"-j{number}") for tool in TOOLS for number in [1, 2] if number > 1]
word = "é\\n\\x7f\\u2028\\U0001f600\\""
prefix_rule([word], justification = word)
prefix_rule([["rm", "rmdir", "rm"], ["-r", "-f"]], **{"decision": "forbidden"})
"""
EXAMPLES = """
prefix_rule(["a", ["b", "c"]], match = ["a b", ["a", "c", "d e"], "'a' \\"b\\" #x", "a b # c"],
            not_match = ["a", "a d", "a b#c", "'a b'", "A b", "\\\\a\\\\ b", "b a", "a 'b ' c"])
"""
BASE_CASES = [
    (GIT, ["git", "push"]),
    (GIT, ["git", "push", "--force", "origin"]),
    (GIT, ["git", "push", "origin", "--force"]),
    (GIT, ["git", "fetch", "--all"]),
    (GIT, ["git", "status"]),
    (GIT, ["git"]),
    (GIT, ["git", "Push"]),
    (GIT, ["/usr/bin/git", "push"]),
    (GIT, ["GIT", "push"]),
    (GIT, [""]),
    (LANGUAGE, ["make"]),
    (LANGUAGE, ["make", "install"]),
    (LANGUAGE, ["ninja", "-j2", "-v"]),
    (LANGUAGE, ["ninja", "-j1"]),
    (LANGUAGE, ["rm", "-f", "x"]),
    (LANGUAGE, ["rmdir", "-r"]),
    (LANGUAGE, ['é\n\x7f\u2028\U0001f600"', "\t\x01\\"]),
    (EXAMPLES, ["a", "b", "c"]),
    ("", ["anything"]),
    ("prefix_rule([''])", ["", "x"]),
    ("prefix_rule(['a'])\r\nprefix_rule(['a', 'b'], 'prompt')\r\n", ["a", "b"]),
    ("prefix_rule(['a', ['b', 'b']])", ["a", "b"]),
    ("prefix_rule([['a', 'a']])", ["a", "b"]),
    ("prefix_rule(['a'], match = [], not_match = [])", ["a"]),
    ("prefix_rule(['bash', '-lc', 'rm x'], 'forbidden')", ["bash", "-lc", "rm x"]),
    ("x = prefix_rule(['a'])\nprefix_rule([type(x)])", ["NoneType"]),
    ("prefix_rule(['-x'])", ["--", "-x", "--pretty", "-r"]),
    ("prefix_rule(['a'])", ["--", "a", "--pretty", "--"]),
]
HOST = 'prefix_rule(["git", "push"], "prompt", justification = "j")\n'
HOST_CASES = [
    (HOST + extra, [program, "push"])
    for extra in (
        "",
        'host_executable(name = "git", paths = ["/usr/bin/git", "/opt//x/../git/"])',
        'host_executable("git", [])',
        'host_executable("git", ["/a/git"])\nhost_executable("git", ["/usr/bin/git"])',
        'prefix_rule(["/usr/bin/git"])',
        'prefix_rule(["/usr/bin/git", "status"], "forbidden")',
        'host_executable("hg", [])',
        'prefix_rule(["git"], match = ["/x/git a", "./git", "sub/git"])',
    )
    for program in (
        "git",
        "/usr/bin/git",
        "/usr//bin/./git/",
        "/opt/git",
        "//opt/git",
        "/opt/x/../git",
        "/usr/bin/hg",
        "./git",
        "../sub/git",
        "/",
        "",
    )
]
MISTAKES = [
    'prefix_rule("ls")',
    'prefix_rule(("ls",))',
    "prefix_rule(['a'], decision = None)",
    "prefix_rule(['a'], decision = 1)",
    "prefix_rule(['a'], match = None)",
    "prefix_rule(['a'], match = 'a')",
    "prefix_rule(['a'], not_match = {})",
    "prefix_rule(['a'], justification = True)",
    "prefix_rule(1, decision = 1)",
    "prefix_rule([])",
    "prefix_rule([[]])",
    "prefix_rule(['a', []])",
    "prefix_rule([['a', 1.5]])",
    "prefix_rule([[['a']]])",
    "prefix_rule([None])",
    "prefix_rule([len])",
    "prefix_rule([lambda: 1])",
    "prefix_rule([range(3)])",
    "prefix_rule(['a', ('b', 'c')])",
    "prefix_rule(['a'], decision = 'ALLOW')",
    "prefix_rule(['a'], decision = '')",
    "prefix_rule(['a'], decision = 'deny')",
    "prefix_rule([], decision = 'no', justification = ' ', match = [''])",
    "prefix_rule([], justification = ' ', match = [''])",
    "prefix_rule([], match = [''])",
    "prefix_rule(['a'], match = [''], not_match = [1])",
    "prefix_rule(['a'], match = ['  \\n'])",
    "prefix_rule(['a'], match = ['# c'])",
    "prefix_rule(['a'], match = [\"'\"])",
    "prefix_rule(['a'], match = ['a \\\\'])",
    "prefix_rule(['a'], match = ['a \"\\\\'])",
    "prefix_rule(['a'], match = [[]])",
    "prefix_rule(['a'], match = [['a', 1]])",
    "prefix_rule(['a'], match = [{}])",
    "prefix_rule(['a'], not_match = [('a',)])",
    "x = 1\n\nprefix_rule(['a'], 'x'); prefix_rule(['b'])",
    "def f():\n    prefix_rule([])\nf()",
]
HOST_MISTAKES = [
    *(
        f"network_rule('{host}', 'http', 'allow')"
        for host in (
            "",
            " ",
            "...",
            "[]",
            "https://x",
            "x/y",
            "x?y",
            "x#y",
            "x/*",
            "[::1",
            "[::1]:",
            "[::1]x",
            " [::1]:y",
            "*",
            "*.x",
            "* x",
            "[*]",
            "x y",
            "[a b]",
        )
    ),
    "network_rule('*', 'HTTP', 'x', ' ')",
    "network_rule('*', 'http', 'ask', ' ')",
    "network_rule('*', 'http', 'deny', ' ')",
    "network_rule(1, 'http', 'x')",
    "network_rule('x', 'http', None)",
    "host_executable('', [1])",
    "host_executable('a/b', [1])",
    "host_executable('/git', [])",
    "host_executable('.', [])",
    "host_executable('..', [])",
    "host_executable('git', ('/git',))",
    "host_executable('git', [1, 'x'])",
    "host_executable('git', [['/git']])",
    "host_executable('git', [''])",
    "host_executable('git', ['git', 1])",
    "host_executable('git', ['~/git'])",
    "host_executable('git', ['/'])",
    "host_executable('git', ['/usr/bin/hg'])",
    "host_executable('git', ['/usr/bin/git/..'])",
]
ACCEPTED_HOSTS = [
    f"network_rule('{host}', 'https_connect', 'deny')"
    for host in ("X.Org.", " x:80 ", "::1", "[::1]:80", "a:b:c", "x:", ":80", "x..", "x:80.", "é")
]
UNLOADABLE = [
    "foo",
    "prefix_rule(['a']",
    "\tprefix_rule(['a'])",
    " prefix_rule(['a'])",
    "prefix_rule()",
    "prefix_rule(['a'], reviewer = 'user')",
    "prefix_rule(['a'], 'allow', [], [], 'x', 1)",
    "prefix_rule(['a'], pattern = ['b'])",
    "load('x', 'y')",
    "print('x')",
    "struct(a = 1)",
    "call_stack()",
    "_record()",
    "1 / 0",
    "fail('no')",
    "prefix_rule = 1\nprefix_rule(['a'])",
    "def f(n):\n    return f(n + 1)\nf(0)",
    "\ufeffprefix_rule(['a'])",
    "prefix_rule(['a'], match = ['b'])",
    "prefix_rule(['a'], match = ['a', 'a b', 'A'])",
    "prefix_rule(['a'], not_match = ['a b'])",
    "prefix_rule([['a', 'z'], 'q'], match = ['a q', 'z b'])",
    "prefix_rule(['a'], not_match = ['a'], match = ['b'])",
    "prefix_rule(['a'], match = ['/bin/a'])\nhost_executable('a', [])",
    "prefix_rule(['a'], match = ['a'])\nprefix_rule(['b'], match = ['a'])",
]


def texts_to_split(count: int) -> list[str]:
    """Short texts full of what shells treat specially, always the same ones."""
    draw = random.Random(1)
    return ["".join(draw.choices("aab '\"\\#\n\t$", k=draw.randrange(1, 9))) for _ in range(count)]


# What is ours alone in the JSON, in one line and in several.
_OUR_OWN = re.compile(
    r',\s*"codex_multitool": ?\{\s*"decision": ?"[a-z]+",\s*"because": ?"(?:[^"\\]|\\.)*"\s*\}'
)


def ours(arguments: list[str]) -> Result:
    return CliRunner().invoke(execpolicy, ["check", *arguments])


def shared(result: Result) -> str:
    """What it prints, byte for byte, but for what is ours alone."""
    return _OUR_OWN.sub("", result.stdout)


@pytest.mark.parametrize(("text", "command"), BASE_CASES)
@pytest.mark.parametrize("version", [peer.BASE, peer.HOST_EXECUTABLES])
def test_same_answer(
    version: str, text: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.rules").write_text(text, newline="")
    arguments = ["-r", "f.rules", *command]
    theirs = peer.check(version, arguments, cwd=tmp_path)
    assert (theirs.stderr, theirs.exit_code) == ("", 0)
    result = ours(arguments)
    assert (shared(result), result.exit_code) == (theirs.stdout, 0)


@pytest.mark.parametrize(("text", "command"), HOST_CASES)
def test_same_answer_with_host_executables(
    text: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.rules").write_text(text)
    for flags in (["--resolve-host-executables"], []):
        arguments = [*flags, "-r", "f.rules", *command]
        theirs = peer.check(peer.HOST_EXECUTABLES, arguments, cwd=tmp_path)
        assert (theirs.stderr, theirs.exit_code) == ("", 0)
        result = ours(arguments)
        assert (shared(result), result.exit_code) == (theirs.stdout, 0)


@pytest.mark.parametrize("version", [peer.BASE, peer.HOST_EXECUTABLES])
def test_same_answer_over_several_files_and_lines(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.rules").write_text(GIT)
    Path("a.rules").write_text('prefix_rule(["git"], "forbidden", justification = "a")')
    for arguments in (
        ["--rules", "b.rules", "-r", "a.rules", "--pretty", "git", "push"],
        ["--pretty", "--rules=a.rules", "--rules", "b.rules", "git", "push"],
        ["--pretty", "-r", "a.rules", "--", "hg", "--pretty"],
    ):
        theirs = peer.check(version, arguments, cwd=tmp_path)
        assert theirs.exit_code == 0
        assert shared(ours(arguments)) == theirs.stdout


@pytest.mark.parametrize(
    ("version", "text"),
    [(version, text) for version in (peer.BASE, peer.HOST_EXECUTABLES) for text in MISTAKES]
    + [(peer.HOST_EXECUTABLES, text) for text in HOST_MISTAKES],
)
def test_same_mistake_at_the_same_line(version: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "f.rules").write_text(text)
    theirs = peer.check(version, ["-r", "f.rules", "x"], cwd=tmp_path)
    assert theirs.exit_code == 1
    with pytest.raises(RulesError) as caught:
        parse([Source("f.rules", text)])
    message = re.search(r"^ *error: (.*)$", theirs.stderr, re.MULTILINE)
    span = re.search(r"^ *--> f\.rules:(\d+):(\d+)$", theirs.stderr, re.MULTILINE)
    assert message is not None
    assert span is not None
    # The original also shows the value: `int (repr: 1)`.
    assert caught.value.what == re.sub(r" \(repr: .*\)`$", "`", message[1])
    assert caught.value.location is not None
    assert caught.value.location.line == int(span[1])
    assert caught.value.location.column == int(span[2])


@pytest.mark.parametrize("text", ACCEPTED_HOSTS)
def test_same_hosts_accepted(text: str, tmp_path: Path) -> None:
    (tmp_path / "f.rules").write_text(text)
    theirs = peer.check(peer.HOST_EXECUTABLES, ["-r", "f.rules", "x"], cwd=tmp_path)
    assert (theirs.exit_code, json.loads(theirs.stdout)) == (0, {"matchedRules": []})
    assert len(parse([Source("f.rules", text)]).network_rules) == 1


def test_examples_split_into_the_same_words(tmp_path: Path) -> None:
    statements: list[str] = []
    for text in texts_to_split(500):
        try:
            words = split(text)
        except UnbalancedError:
            continue
        if words:
            statements.append(f"prefix_rule({json.dumps(words)}, match = [{json.dumps(text)}])")
    (tmp_path / "f.rules").write_text("\n".join(statements))
    assert len(statements) > 100
    assert peer.check(peer.BASE, ["-r", "f.rules", "x"], cwd=tmp_path).stderr == ""


def test_the_same_examples_do_not_split(tmp_path: Path) -> None:
    refused = 0
    for text in texts_to_split(60):
        try:
            words = split(text)
        except UnbalancedError:
            words = []
        if not words:
            refused += 1
            (tmp_path / "f.rules").write_text(f"prefix_rule(['x'], match = [{json.dumps(text)}])")
            theirs = peer.check(peer.BASE, ["-r", "f.rules", "x"], cwd=tmp_path)
            assert "error: invalid example: " in theirs.stderr
    assert refused > 10


@pytest.mark.parametrize("text", UNLOADABLE)
def test_same_files_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.rules").write_text(text)
    arguments = ["-r", "f.rules", "x"]
    theirs = peer.check(peer.HOST_EXECUTABLES, arguments, cwd=tmp_path)
    result = ours(arguments)
    assert (result.exit_code, theirs.exit_code) == (1, 1)
    first = "failed to parse policy at f.rules\n"
    assert result.stderr.startswith(f"execpolicy check: {first}f.rules:")
    assert theirs.stderr.startswith(f"Error: {first}")


@pytest.mark.parametrize("arguments", [[], ["-r", "f.rules"]])
def test_same_usage_status(arguments: list[str], tmp_path: Path) -> None:
    assert peer.check(peer.BASE, arguments, cwd=tmp_path).exit_code == 2
    assert ours(arguments).exit_code == 2


@pytest.mark.parametrize("name", ["missing.rules", ".", "latin.rules"])
def test_same_unreadable_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("latin.rules").write_bytes(b"# caf\xe9")
    theirs = peer.check(peer.BASE, ["-r", name, "x"], cwd=tmp_path)
    result = ours(["-r", name, "x"])
    first = f"failed to read policy at {name}"
    assert (theirs.exit_code, theirs.stderr.startswith(f"Error: {first}")) == (1, True)
    assert (result.exit_code, result.stderr.startswith(f"execpolicy check: {first}")) == (1, True)
