"""What would become of a command, by its words."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_multitool.cli.expectations import EXPLAINED
from codex_multitool.cli.explain import to_object
from codex_multitool.cli.judging import answer_of
from codex_multitool.escalation.judgement import Judgement
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.running.judged import ASK, DENY, ESCALATE, NONE, RUN, Judge, strictest

RULES = """
prefix_rule(["git", "push"], "forbidden")
prefix_rule(["git", "fetch"], "prompt")
prefix_rule(["git", "status"])
prefix_rule(["sudo", "-n"], "prompt")
prefix_rule(["no-such", "stop"], "forbidden")
prefix_rule(["no-such"])
prefix_rule(["listed"])
prefix_rule(["env", "true"])
host_executable(name="listed", paths=["/opt/bin/listed", "/usr/bin/listed"])
"""


def judge(text: str = RULES, *, workdir: str = "/", writable: tuple[str, ...] = ()) -> Judge:
    judgement = Judgement(parse([Source("my.rules", text)]))
    return Judge(judgement, workdir, writable, {"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (DENY, ["git", "push"]),
        (DENY, ["git", "-C", "dir", "push"]),
        (DENY, ["git", "-c", "a.b=c", "--no-pager", "push", "-f"]),
        (DENY, ["/usr/bin/git", "push"]),
        (DENY, ["/no/such/git", "--git-dir=x", "push"]),
        (ASK, ["git", "fetch"]),
        (RUN, ["git", "log"]),
        # What a command runs in turn is judged, too, but cannot be allowed by that.
        (DENY, ["env", "A=b", "git", "push"]),
        (DENY, ["sh", "-c", "cd x && git push"]),
        (DENY, ["timeout", "5", "env", "git", "-C", "x", "push"]),
        (DENY, ["find", ".", "-exec", "git", "push", ";"]),
        (ASK, ["sh", "-c", "git fetch"]),
        (RUN, ["env", "git", "status"]),
        # Outside nobody judges.
        (ESCALATE, ["env", "true", "git", "push"]),
        (ASK, ["sudo", "-n", "git", "push"]),
        # By their names.
        (DENY, ["no-such", "stop"]),
        (ESCALATE, ["no-such", "go"]),
        (ESCALATE, ["listed"]),
        (ESCALATE, ["/opt/bin/listed"]),
        (NONE, ["/elsewhere/listed"]),
        (NONE, ["cd", "x"]),
        (DENY, ["exec", "git", "push"]),
        (NONE, [""]),
        # Dangers: of the shell's own programs.
        (ASK, ["rm", "-rf", "x"]),
        (ASK, ["env", "rm", "-rf", "x"]),
        (ASK, ["command", "rm", "-rf", "x"]),
    ],
)
def test_it_is_what_exec_and_the_server_decide(decision: str, words: list[str]) -> None:
    if words[0] == "git" and not os.path.exists("/usr/bin/git"):
        pytest.skip("no git here")
    if decision is ESCALATE and os.geteuid() and os.access("/usr/bin", os.W_OK):
        pytest.skip("nothing here is out of this user's reach")
    judged = judge().command(words)
    assert (judged.decision, judged.command) == (decision, tuple(words)), judged.reason


def test_a_reason_names_what_decides() -> None:
    judged = judge().command(["env", "sh", "-c", "git push"])
    assert judged.reason.startswith("it runs sh: it runs git: Execution forbidden by policy")
    assert judged.by is not None
    assert judged.by.command == ("git", "push")
    assert "judged by its name" in judge().command(["no-such", "go"]).reason


def test_what_is_not_there_is_not_trusted_where_the_sandbox_writes(tmp_path: Path) -> None:
    text = f'prefix_rule(["{tmp_path}/tool"])'
    command = [f"{tmp_path}/tool"]
    assert judge(text).command(command).decision == ESCALATE
    judged = judge(text, writable=(str(tmp_path),)).command(command)
    assert judged.decision == RUN
    assert "lies where the sandbox can write" in judged.reason


def test_commands_in_commands_have_a_bound() -> None:
    assert judge().command([*["env"] * 100, "git", "push"]).decision == RUN
    assert judge().command(["sh", "-c", "true;" * 5000]).decision == RUN


@pytest.mark.parametrize(
    ("script", "decision"),
    [
        ("git status; git push", DENY),
        ("git status && git fetch", ASK),
        ("git status; ls", RUN),
        ("git status", ESCALATE),
    ],
)
def test_of_a_script_the_strictest_counts(script: str, decision: str) -> None:
    found = strictest(judge().script([script]))
    assert found is not None
    assert found.decision == decision


PROGRAMS = ["git", "ls", "no-such", "/usr/bin/git", "/opt/git", "rm", "true"]
WORDS = ["push", "status", "-f", "-rf", "-C", "x", "--git-dir=x", "--", "log"]
WRAPPERS = [["env", "A=b"], ["timeout", "5"], ["nice", "-n", "1"], ["sh", "-c"], ["xargs"]]
commands = st.tuples(st.sampled_from(PROGRAMS), st.lists(st.sampled_from(WORDS), max_size=4)).map(
    lambda it: [it[0], *it[1]]
)
rules = st.builds(
    lambda program, words, decision: f'prefix_rule({[program, *words]}, "{decision}")',
    st.sampled_from(PROGRAMS),
    st.lists(st.sampled_from(WORDS), max_size=2),
    st.sampled_from(["allow", "prompt", "forbidden"]),
)
hosts = st.lists(st.sampled_from(["/usr/bin/git", "/opt/git"]), max_size=2).map(
    lambda paths: f'host_executable("git", {paths})'
)


@settings(max_examples=60, deadline=None)
@given(st.lists(rules, max_size=5), st.none() | hosts, commands, st.sampled_from(WRAPPERS))
def test_one_command_has_one_answer(
    lines: list[str], host: str | None, command: list[str], wrapper: list[str]
) -> None:
    one = judge("\n".join([*lines, *([host] if host else [])]))
    plain = one.command(command)
    answer = answer_of(one, command)
    assert answer.decision == EXPLAINED[plain.decision]
    assert to_object(one.judgement, plain)["decision"] == plain.decision
    if plain.decision == DENY:
        assert plain.installed is False or "Execution forbidden by policy" in plain.reason
    # Behind a wrapper that no rule names it is refused if it is refused, and never let out.
    words = [*wrapper, " ".join(command)] if wrapper[0] == "sh" else [*wrapper, *command]
    behind = one.command(words)
    assert (behind.decision == DENY) == (plain.decision == DENY)
    assert behind.decision != ESCALATE
    if plain.decision == ASK and "outside" in plain.reason:
        assert behind.decision == ASK
