"""What of the server's environment reaches commands, and what escalated programs."""

from __future__ import annotations

import pytest

from tests.end_to_end.client import Client
from tests.end_to_end.processes import MARK
from tests.end_to_end.rig import (
    FULL_ACCESS,
    OUR_PAIRINGS,
    READ_ONLY,
    WORKSPACE,
    Box,
    Pairing,
    Start,
    over,
)

SECRET = "correct horse battery staple"  # what no command may see
SERVER = {
    "GITHUB_TOKEN": SECRET,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "OPENAI_API_KEY": SECRET,
    "SSH_AUTH_SOCK": f"/run/{SECRET}",
    "LC_TIME": "C",
    "TZ": "UTC",
}
ALLOW_SH = 'prefix_rule(pattern=["sh"])\n'


def configure(box: Box, text: str = "") -> None:
    """Write config.toml; the mark of the test's processes is set besides."""
    mark = f'[shell_environment_policy.set]\n{MARK} = "{box.mark}"\n'
    (box.home / ".codex" / "config.toml").write_text(f"{text}\n{mark}")


def variables(client: Client, script: str = "env", **arguments: object) -> dict[str, str]:
    """The variables that a script prints."""
    result = client.shell(script, **arguments)
    assert result.exit_code == 0, result.output
    return dict(line.split("=", 1) for line in result.lines if "=" in line)


@over(OUR_PAIRINGS)
@pytest.mark.parametrize("policy", [READ_ONLY, WORKSPACE, FULL_ACCESS], ids=lambda it: it["type"])
def test_a_secret_of_the_servers_reaches_no_command(
    pairing: Pairing, policy: dict[str, str], start: Start, box: Box
) -> None:
    configure(box)
    client = start(pairing, policy=policy, env=SERVER)
    expected = {**box.environment(), "LC_TIME": "C", "TZ": "UTC"}
    for login in (False, True):
        found = variables(client, login=login)
        assert SECRET not in "".join(found.values())
        for name in ("HOME", "LANG", "TERM", "USER", "LC_TIME", "TZ", MARK):
            assert found[name] == expected[name]
        assert login or found["PATH"] == expected["PATH"]  # a profile may set it
        assert found.keys().isdisjoint({"CODEX_HOME", *SERVER} - {"LC_TIME", "TZ"})


@over(OUR_PAIRINGS)
def test_nor_can_the_sandbox_read_it_from_another_process(
    pairing: Pairing, start: Start, box: Box
) -> None:
    configure(box)
    client = start(pairing, env=SERVER)
    server = client.process.pid
    script = f"""
        for process in $PPID {server}; do cat /proc/$process/environ; echo rc=$?; done
        for file in /proc/[0-9]*/environ; do cat $file; done 2>/dev/null
        """
    result = client.shell(script)
    assert result.lines.count("rc=1") == 2
    assert SECRET not in result.output


@over(OUR_PAIRINGS)
def test_a_program_outside_the_sandbox_has_what_was_withheld(
    pairing: Pairing, start: Start, box: Box
) -> None:
    configure(box)
    client = start(pairing, rules=ALLOW_SH, env=SERVER)
    result = client.shell(
        """
        echo "[$GITHUB_TOKEN]"
        sh -c 'echo "[$GITHUB_TOKEN] [$SSH_AUTH_SOCK]"'
        GITHUB_TOKEN=mine sh -c 'echo "[$GITHUB_TOKEN]"'
        MINE=1 sh -c 'echo "[$MINE]"'
        TZ=Asia/Tokyo sh -c 'echo "[$TZ]"'
        unset LC_TIME; sh -c 'echo "[$LC_TIME]"'
        """
    )
    assert result.lines == [
        "[]",
        f"[{SECRET}] [/run/{SECRET}]",
        f"[{SECRET}]",
        "[]",
        "[Asia/Tokyo]",
        "[]",
    ]
    assert result.structured is not None
    assert [note.partition(":")[0] for note in result.structured["notes"]] == [
        "/usr/bin/sh ran outside without the caller's GITHUB_TOKEN",
        "/usr/bin/sh ran outside without the caller's MINE",
    ]


@over(OUR_PAIRINGS)
def test_the_user_may_drop_and_keep_variables_of_programs_outside(
    pairing: Pairing, start: Start, box: Box
) -> None:
    script = (
        """PYTHONPATH=/x AWS_X=1 CC=cc sh -c 'echo "[$PYTHONPATH] [$GITHUB_TOKEN] [$AWS_X$CC]"'"""
    )
    configure(box)
    with start(pairing, rules=ALLOW_SH, env=SERVER) as client:
        assert client.shell(script).output == f"[] [{SECRET}] []\n"
    configure(
        box,
        "[codex_multitool]\n"
        'keep_environment = ["PYTHON*"]\n'
        'drop_environment = ["GITHUB_TOKEN", "AWS_*"]\n'
        'keep_environment_of = {sh = ["CC"], make = ["AWS_X"]}\n',
    )
    client = start(pairing, rules=ALLOW_SH, env=SERVER)
    result = client.shell(script)
    assert result.output == "[/x] [] [cc]\n"
    assert result.structured is not None
    notes = " ".join(result.structured.get("notes", []))
    assert "AWS_X" in notes  # the caller had it, and lost it
    assert "GITHUB_TOKEN" not in notes


@over(OUR_PAIRINGS)
def test_the_policy_is_the_users(pairing: Pairing, start: Start, box: Box) -> None:
    (box.home / ".codex" / "config.toml").write_text(
        "[shell_environment_policy]\n"
        'inherit = "all"\n'
        "ignore_default_excludes = true\n"
        f'set = {{{MARK} = "{box.mark}", AWS_NEW = "new", LANG = "C"}}\n'
        'filters = {"aws_secret*" = "exclude"}\n'
    )
    found = variables(start(pairing, env=SERVER))
    assert found["GITHUB_TOKEN"] == SECRET
    assert found["AWS_NEW"] == "new"
    assert found["LANG"] == "C"
    assert "AWS_SECRET_ACCESS_KEY" not in found


@over(OUR_PAIRINGS[:1])
def test_the_env_file_is_the_servers_environment(pairing: Pairing, start: Start, box: Box) -> None:
    configure(box, 'shell_environment_policy.inherit = "all"')
    (box.home / ".codex" / ".env").write_text(
        'TZ=Asia/Tokyo\nNEW="$TZ new"\nNEW_KEY=hidden\nCODEX_NEW=x\nbad line\n'
    )
    client = start(pairing, rules=ALLOW_SH, env=SERVER)
    found = variables(client)
    assert (found["TZ"], found["NEW"]) == ("Asia/Tokyo", "Asia/Tokyo new")
    assert found.keys().isdisjoint({"NEW_KEY", "CODEX_NEW"})
    assert client.shell("sh -c 'echo $NEW_KEY'").output == "hidden\n"


@over(OUR_PAIRINGS[:1])
def test_a_trusted_project_sets_variables_and_widens_nothing(
    pairing: Pairing, start: Start, box: Box
) -> None:
    project = box.ws / ".codex" / "config.toml"
    project.parent.mkdir()
    project.write_text('shell_environment_policy.set.FROM = "project"')
    configure(box)
    with start(pairing, env=SERVER) as client:
        assert "FROM" not in variables(client)
    configure(box, f'[projects."{box.ws}"]\ntrust_level = "trusted"')
    with start(pairing, policy=WORKSPACE, rules=ALLOW_SH, env=SERVER) as client:
        assert variables(client)["FROM"] == "project"
        assert client.shell("sh -c 'echo [$FROM]'").output == "[]\n"  # nor reaches it the outside
        # A command rewrites it for the next server.
        client.shell("""echo 'shell_environment_policy.inherit = "all"' > .codex/config.toml""")
    assert "all" in project.read_text()
    refused = start(pairing, env=SERVER, initialize=False)
    assert refused.wait() == 1
    assert f"{project}:1:26: `shell_environment_policy.inherit` gives" in refused.stderr()
