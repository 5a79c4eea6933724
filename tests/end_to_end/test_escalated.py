"""An escalated program is the caller's in all but its sandbox: umask, descriptors, signals."""

from __future__ import annotations

import pytest

from tests.end_to_end.processes import running, wait_until
from tests.end_to_end.rig import OUR_PAIRINGS, READ_ONLY, WORKSPACE, Box, Pairing, Start, over
from tests.end_to_end.shared import Share

ALLOW_SH = 'prefix_rule(pattern=["sh"])\n'


@over(OUR_PAIRINGS)
def test_umask_and_folder_are_the_callers(pairing: Pairing, share: Share, box: Box) -> None:
    (box.ws / "sub").mkdir()
    client = share(pairing, rules=ALLOW_SH)
    result = client.shell("umask 027; cd sub; sh -c 'umask; pwd'")
    assert result.lines == ["0027", f"{box.ws}/sub"]


@over(OUR_PAIRINGS)
def test_redirections_beyond_the_standard_streams(pairing: Pairing, share: Share, box: Box) -> None:
    (box.ws / "in").write_text("from the file\n")
    client = share(pairing, rules=ALLOW_SH, policy=WORKSPACE)
    result = client.shell("exec 3<in 4>out 7>&1; sh -c 'cat <&3 >&4; echo seven >&7'; cat out")
    assert sorted(result.lines) == ["from the file", "seven"]


@over(OUR_PAIRINGS)
def test_a_file_that_only_the_user_can_write_is_read_line_by_line(
    pairing: Pairing, start: Start, box: Box
) -> None:
    """It is behind a pipe; what one program has read the next one does not get."""
    lines = box.home / "lines"
    lines.write_text("one\ntwo\nthree\nfour\n")
    client = start(pairing, rules=ALLOW_SH, policy=READ_ONLY)
    script = "while read -r a; do sh -c 'read -r b; echo $b'; done"
    assert client.shell(f"{script} <{lines}").lines == ["two", "four"]
    result = client.shell(f"sh -c 'wc -c; echo >/dev/stdin' <{lines}")
    assert result.lines[0] == "19"
    assert lines.read_text().startswith("one")


@over(OUR_PAIRINGS)
def test_process_substitution(pairing: Pairing, start: Start) -> None:
    client = start(pairing, rules='prefix_rule(pattern=["cat"])\n')
    assert client.shell("cat <(echo one) <(env echo two)").output == "one\ntwo\n"


@over(OUR_PAIRINGS)
def test_a_signal_to_the_caller_reaches_the_program(pairing: Pairing, share: Share) -> None:
    client = share(pairing, rules=ALLOW_SH, policy=WORKSPACE)
    for signal in ("TERM", "HUP", "USR1"):
        result = client.shell(
            f"""
            sh -c 'trap "echo got it; exit 9" {signal}; : > {signal}; sleep 612 & wait' &
            while [ ! -e {signal} ]; do sleep 0.02; done
            kill -{signal} $!; wait $!; echo rc=$?
            """
        )
        assert result.lines == ["got it", "rc=9"], signal


@over(OUR_PAIRINGS)
@pytest.mark.parametrize(("signal", "number"), [("TERM", 15), ("KILL", 9)])
def test_a_deadly_signal_to_the_caller_ends_the_program(
    pairing: Pairing, signal: str, number: int, start: Start, box: Box
) -> None:
    client = start(pairing, rules=ALLOW_SH, policy=WORKSPACE)
    result = client.shell(
        f"""
        sh -c ': > ready; exec sleep 613' &
        while [ ! -e ready ]; do sleep 0.02; done
        kill -{signal} $!; wait $!; echo rc=$?
        """
    )
    assert f"rc={128 + number}" in result.lines
    wait_until(lambda: not running(box.mark, "sleep 613"), "the program's end")


@over(OUR_PAIRINGS)
def test_death_by_a_signal_is_told_apart(pairing: Pairing, share: Share) -> None:
    client = share(pairing, rules=ALLOW_SH)
    for signal, number in (("TERM", 15), ("SEGV", 11), ("KILL", 9)):
        result = client.shell(f"ulimit -c 0; sh -c 'kill -{signal} $$'; echo rc=$?")
        assert f"rc={128 + number}" in result.lines
        assert client.shell(f"sh -c 'exit {128 + number}'").exit_code == 128 + number


@over(OUR_PAIRINGS)
def test_it_ends_with_the_pipe_it_writes_to(pairing: Pairing, start: Start) -> None:
    client = start(pairing, rules='prefix_rule(pattern=["yes"])\n')
    assert client.shell("yes word | head -n 2").output == "word\nword\n"


@over(OUR_PAIRINGS)
def test_many_at_once(pairing: Pairing, share: Share) -> None:
    client = share(pairing, rules=ALLOW_SH)
    result = client.shell('for i in 1 2 3 4 5 6 7 8; do sh -c "echo $i" & done; wait')
    assert sorted(result.lines) == list("12345678")
