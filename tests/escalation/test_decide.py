"""One table for the one function that decides."""

import re

import pytest

from codex_multitool.escalation.decide import (
    Ask,
    Deny,
    Escalate,
    ExecRequest,
    Run,
    decide,
    resolve,
)
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.parser import Source, parse

RULES = """
prefix_rule(pattern=["git", "push"], decision="forbidden", justification="ask a colleague")
prefix_rule(pattern=["git", "init"], decision="prompt")
prefix_rule(pattern=["git"], decision="allow")
prefix_rule(pattern=["make"], decision="allow")
prefix_rule(pattern=["python3"], decision="allow")
prefix_rule(pattern=["curl"], decision="forbidden")
prefix_rule(pattern=["rm", "-rf", "build"], decision="allow")
prefix_rule(pattern=["tox"])
host_executable(name="tox", paths=["/opt/tox"])
prefix_rule(pattern=["/opt/nox"])
"""
JUDGEMENT = Judgement(parse([Source("my.rules", RULES)]))
ALLOWED_GIT = "rule `git` (my.rules:4)"
STAYS = "allows it, but it stays in the sandbox"
FORBIDDEN_PUSH = Deny(
    "Execution forbidden by policy: ask a colleague; rule `git push` (my.rules:2)",
)


def request(program: str, *arguments: str, **more: object) -> ExecRequest:
    argv = (program.rpartition("/")[2], *arguments)
    return ExecRequest((program,), argv, "/", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (request("/usr/bin/ls"), Run()),
        (request("/usr/bin/git", "status"), Escalate(ALLOWED_GIT)),
        (
            request("/usr/bin/git", "push", "origin"),
            FORBIDDEN_PUSH,
        ),
        # The strictest counts, also where only a name, an interpreter or a link leads to it.
        (request("/usr/bin/git", "status", untrusted="x"), Run(f"{ALLOWED_GIT} {STAYS}: x")),
        (request("/home/u/git", "push", untrusted="x"), FORBIDDEN_PUSH),
        # A base name is no name for what the user himself could have replaced.
        (
            request("/home/u/make", replaceable="x"),
            Run(
                "rule `make` (my.rules:5) allows it by its base name, but it stays in the sandbox:"
                ' x; a rule host_executable(name="make", paths=["/home/u/make"]) trusts it'
            ),
        ),
        (request("/opt/tox", replaceable="x"), Escalate("rule `tox` (my.rules:9)")),
        (request("/opt/nox", replaceable="x"), Escalate("rule `/opt/nox` (my.rules:11)")),
        (request("/opt/nox", replaceable="x", untrusted="y"),
         Run(f"rule `/opt/nox` (my.rules:11) {STAYS}: y")),
        (
            request("/opt/tool", interpreters=(("/usr/bin/curl", "-o", "/opt/tool"),)),
            Deny("Execution forbidden by policy: rule `curl` (my.rules:7)"),
        ),
        (request("/opt/tool.py", interpreters=(("/usr/bin/python3", "/opt/tool.py"),)), Run()),
        (
            ExecRequest(("/usr/bin/busybox", "/usr/bin/curl"), ("curl",), "/"),
            Deny("Execution forbidden by policy: rule `curl` (my.rules:7)"),
        ),
        # argv[0] is the caller's to choose and says nothing.
        (ExecRequest(("/usr/bin/ls",), ("git", "push"), "/"), Run()),
        (ExecRequest(("/usr/bin/ls",), (), "/"), Run()),
        # A rule settles what would otherwise be asked.
        (request("/usr/bin/rm", "-rf", "build"), Escalate("rule `rm -rf build` (my.rules:8)")),
    ],
)  # fmt: skip
def test_verdicts(asked: ExecRequest, verdict: object) -> None:
    assert decide(JUDGEMENT, asked) == verdict


def test_a_prompt_rule_asks_and_means_outside() -> None:
    verdict = decide(JUDGEMENT, request("/usr/bin/git", "init"))
    assert isinstance(verdict, Ask)
    assert verdict.accepted == Escalate("rule `git init` (my.rules:3)")
    assert "my.rules:3" in verdict.because
    assert not verdict.own_shell_only


def test_a_dangerous_command_is_asked_about_and_stays_inside() -> None:
    asked = request("/usr/bin/rm", "-rf", "/x")
    verdict = decide(JUDGEMENT, asked)
    assert isinstance(verdict, Ask)
    assert verdict.accepted == Run()
    assert verdict.own_shell_only
    assert "--dangerous-commands=run" in verdict.how_to_allow
    relaxed = Judgement(JUDGEMENT.policy, ask_when_dangerous=False)
    assert decide(relaxed, asked) == Run()


def test_preserved_paths_match_only_rules_on_paths() -> None:
    policy = parse([Source("r", 'prefix_rule(pattern=["/usr/bin/git"], decision="forbidden")')])
    strict = Judgement(policy, preserve_program_paths=True)
    assert isinstance(decide(strict, request("/usr/bin/git")), Deny)
    named = Judgement(JUDGEMENT.policy, preserve_program_paths=True)
    assert decide(named, request("/usr/bin/git", "push")) == Run()


@pytest.mark.parametrize(
    ("action", "reason", "outcome"),
    [
        ("accept", None, Escalate("r")),
        ("decline", None, Deny("User declined execution")),
        ("decline", "not today", Deny("User declined execution: not today")),
        ("cancel", None, Deny("User cancelled execution")),
        ("unavailable", None, Deny("nobody can be asked (why): do this")),
        ("unavailable", "timed out", Deny("nobody can be asked (why): timed out")),
        ("nonsense", None, Deny("nobody can be asked (why): do this")),
    ],
)
def test_answers(action: str, reason: str | None, outcome: object) -> None:
    assert resolve(Ask(Escalate("r"), "why", "do this"), action, reason) == outcome


@pytest.mark.parametrize(
    "asked",
    [
        request("/usr/bin/rm", "-rf", "x"),
        request("/usr/bin/sh", "-c", "rm -rf x"),
        request("/usr/bin/git", "fetch"),
    ],
)
def test_a_denial_names_no_way_that_a_model_could_go_by_itself(asked: ExecRequest) -> None:
    policy = parse([Source("r", 'prefix_rule(["git", "fetch"], "prompt")')])
    verdict = decide(Judgement(policy), asked)
    assert isinstance(verdict, Ask)
    denied = resolve(verdict, "unavailable")
    assert isinstance(denied, Deny)
    _, _, how = denied.reason.partition("): ")
    assert how.startswith("only the user can ")
    assert not re.search(r"\b(script|make|below|without|copy|other|instead)\b", how)
