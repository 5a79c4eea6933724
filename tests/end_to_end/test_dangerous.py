"""The question before a command that loses work for good, where no rule speaks."""

from __future__ import annotations

from tests.end_to_end.client import decline
from tests.end_to_end.rig import (
    ONLY_WORKSPACE,
    OUR_PAIRINGS,
    PAIRINGS,
    Box,
    Pairing,
    Start,
    over,
    which,
)
from tests.end_to_end.shared import Share

UNASKED = ("--dangerous-commands", "run")
SPELLINGS = (
    "rm -fr d",
    "rm -r -f d",
    "rm -Rf d",
    "rm -v -rf d",
    "rm --recursive --force d",
    "rm -r d",
    f"{which('rm')} -rf d",
    "command rm -rf d",
    "(exec -a ls rm -rf d)",
    "env rm -rf d",
    "nice rm -rf d",
    "timeout 9 rm -rf d",
    "echo d | xargs rm -rf",
    "find . -name d -exec rm -rf {} +",
    "sh -c 'rm -rf d'",
    "bash -ec 'if true; then rm -rf d; fi'",
    "git clean -fd",
    "git push --force",
    "git reset --hard",
)


def make_victims(box: Box) -> None:
    """A folder `d` in the workspace and outside, each with a file."""
    for folder in (box.ws / "d", box.out / "d"):
        folder.mkdir()
        (folder / "file").touch()


@over(PAIRINGS)
def test_it_is_asked_once_and_accepted_it_runs(pairing: Pairing, share: Share, box: Box) -> None:
    make_victims(box)
    client = share(pairing, policy=ONLY_WORKSPACE)
    assert client.shell("rm -rf d; echo rc=$?").output == "rc=0\n"
    assert [question.asked for question in client.questions] == [
        f"Allow agent to run `{which('rm')} -rf d` in `{box.ws}`?"
    ]
    assert not (box.ws / "d").exists()


@over(PAIRINGS)
def test_accepting_does_not_lift_the_sandbox(pairing: Pairing, share: Share, box: Box) -> None:
    make_victims(box)
    client = share(pairing, policy=ONLY_WORKSPACE)
    result = client.shell(f"rm -rf {box.out}/d; echo rc=$?")
    assert "rc=1" in result.lines
    assert "Permission denied" in result.output
    assert len(client.questions) == 1
    assert (box.out / "d" / "file").exists()


@over(PAIRINGS)
def test_declined_it_does_not_run(pairing: Pairing, share: Share, box: Box) -> None:
    make_victims(box)
    client = share(pairing, policy=ONLY_WORKSPACE, answer=decline)
    result = client.shell("rm -rf d")
    assert (result.exit_code, result.output) == (1, "Execution denied: User declined execution\n")
    assert (box.ws / "d" / "file").exists()


@over(OUR_PAIRINGS)
def test_spellings_that_are_asked_about(pairing: Pairing, share: Share, box: Box) -> None:
    make_victims(box)
    client = share(pairing, policy=ONLY_WORKSPACE, answer=decline)
    calls = {command: client.begin_shell(command) for command in SPELLINGS}
    for command, call in calls.items():
        assert "User declined execution" in call.shell_result().output, command
    assert len(client.questions) == len(SPELLINGS)  # so none was asked about twice
    assert (box.ws / "d" / "file").exists()


@over(OUR_PAIRINGS)
def test_commands_that_are_not_asked_about(pairing: Pairing, share: Share, box: Box) -> None:
    make_victims(box)
    client = share(pairing, policy=ONLY_WORKSPACE, answer=decline)
    result = client.shell("env true; touch f; rm f; mkdir e; rmdir e; ls -rf d; echo rm -rf d")
    assert result.exit_code == 0
    assert client.questions == []


@over(OUR_PAIRINGS)
def test_what_a_script_or_make_runs_is_not_asked_about(
    pairing: Pairing, share: Share, box: Box
) -> None:
    (box.ws / "Makefile").write_text("all:\n\trm -rf d\n")
    script = box.ws / "configure"
    script.write_text("#!/bin/sh\nrm -rf d\n")
    script.chmod(0o755)
    client = share(pairing, policy=ONLY_WORKSPACE, answer=decline)
    for command in (
        "./configure",
        "./configure; echo done",
        "sh configure",
        "make",
        "make && echo done",
        "find Makefile -exec ./configure ';'",
    ):
        (box.ws / "d").mkdir()
        assert client.shell(command).exit_code == 0, command
        assert not (box.ws / "d").exists()
    assert client.questions == []


@over(OUR_PAIRINGS)
def test_a_client_that_cannot_be_asked_is_told_how_to_allow_it(
    pairing: Pairing, start: Start, box: Box
) -> None:
    make_victims(box)
    client = start(pairing, policy=ONLY_WORKSPACE, answer=None)
    result = client.shell("rm -rf d")
    assert result.exit_code == 1
    assert result.output.startswith("Execution denied: ")
    assert "--dangerous-commands" in result.output
    assert client.questions == []
    assert (box.ws / "d" / "file").exists()


@over(OUR_PAIRINGS)
def test_an_option_turns_the_question_off(pairing: Pairing, start: Start, box: Box) -> None:
    make_victims(box)
    client = start(pairing, policy=ONLY_WORKSPACE, answer=decline, options=UNASKED)
    assert client.shell("rm -rf d; echo rc=$?").output == "rc=0\n"
    assert client.questions == []
    assert not (box.ws / "d").exists()


@over(OUR_PAIRINGS)
def test_a_rule_answers_instead(pairing: Pairing, start: Start, box: Box) -> None:
    make_victims(box)
    rules = 'prefix_rule(pattern=["rm", "-rf", "d"], decision="allow")\n'
    client = start(pairing, rules=rules, answer=decline)
    assert client.shell("rm -rf d; echo rc=$?").output == "rc=0\n"
    assert client.questions == []
    assert not (box.ws / "d").exists()
