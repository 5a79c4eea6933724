"""What is asked about although no rule names it, in whatever spelling, and what is not."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.escalation.dangerous import danger

ASKED = [
    # rm, in every spelling
    "rm -f x",
    "rm -rf x",
    "rm -fr x",
    "rm -r -f x",
    "rm -Rf x",
    "rm -v -rf x",
    "rm x -rf",
    "rm -r x",
    "rm --recursive --force x",
    "rm --rec x",
    "rm --forc x",
    "rm -I --no-preserve-root x",
    "/usr/bin/rm -rf x",
    "./rm -rf x",
    "busybox rm -rf x",
    "toybox rm -r x",
    # git
    "git reset --hard",
    "git -C x push --force",
    "/usr/lib/git-core/git-push --force",
    "git -c alias.z='!rm -rf x' z",
    "git -c alias.z='reset --hard' z",
    "git submodule foreach git clean -fdx",
    # what find and xargs run, they run on everything
    "find . -delete",
    "find . -name '*.o' -exec rm {} +",
    "find . -exec rm {} ';'",
    "find . -execdir sh -c 'rm \"$@\"' sh {} +",
    "find . -exec git -C {} clean -fd ';'",
    "xargs rm",
    "xargs -0 rm --",
    "xargs -n 1 env rm",
    "xargs -I{} sh -c 'rm {}'",
    # wrappers
    "env rm -rf x",
    "env -- A=b rm -rf x",
    "env -i -u HOME A=b rm -rf x",
    "env -S 'rm -rf x'",
    "env -S'A=b rm -rf' x",
    "env -S rm -rf x",
    "nice rm -rf x",
    "nice -n 5 rm -rf x",
    "nohup rm -rf x",
    "timeout 5 rm -rf x",
    "timeout -k 1 5s rm -rf x",
    "sudo rm -rf x",
    "sudo -u root -n rm -rf x",
    "doas rm -rf x",
    "command rm -rf x",
    "setsid rm -rf x",
    "stdbuf -oL rm -rf x",
    "ionice -c 3 rm -rf x",
    "chroot / rm -rf x",
    "sudo env A=b nice nohup timeout 5 rm -rf x",
    "ld-linux-x86-64.so.2 /bin/rm -rf x",
    # scripts
    "sh -c 'rm -rf x'",
    "bash -lc 'cd a && rm -rf x'",
    "bash -e -c 'a; rm -rf x'",
    "bash -xc 'a | rm -rf x'",
    "bash -ec 'a &\nrm -rf x'",
    "dash -c 'a || rm -rf x'",
    "zsh -c '\\rm -rf x'",
    "ksh -c '/bin/rm -rf x'",
    "bash -c 'if [ -d x ]; then rm -rf x; fi'",
    "bash -c 'for f in *; do git push -f; done'",
    "bash -c 'f() { rm -rf x; }; f'",
    "bash -c 'echo \"$(rm -rf x)\"'",
    "bash -c 'eval \"rm -rf x\"'",
    "bash -c 'trap \"rm -rf x\" EXIT; a'",
    "bash -c 'rm -rf \"$dir\"'",
    "bash -c 'exec rm -rf x'",
    "bash -c \"sh -c 'rm -rf x'\"",
    # the rest
    "dd if=/dev/zero of=/dev/sda",
    "dd of=x if=y",
    "mkfs -t ext4 /dev/sda1",
    "mkfs.ext4 /dev/sda1",
    "shred x",
    "truncate -s 0 x",
    "truncate -s0 x",
    "truncate --size=0 x",
    "truncate --si -1K x",
    "chmod -R 777 /",
    "chmod 777 -R //",
    "chmod -R 777 /usr/../",
    "chmod -R 777 /*",
    "chown -R me ~",
    "chown --recursive me /home/me",
    "chown -hR me /etc/",
    "bash -c 'chmod -R 700 \"$HOME\"'",
    "wipefs -a /dev/sda",
    "kill -9 -1",
    "kill -1",
    "kill -- -1",
    "kill -s KILL -1",
]
NOT_ASKED = [
    "rm x",
    "rm -v x y",
    "rm -i x",
    "rm -- -rf",
    "rmdir x",
    "git status",
    "git commit -m 'rm -rf x'",
    "find . -name rm",
    "find . -exec grep -rf patterns {} +",
    "find . -type d -empty -exec rmdir {} +",
    "xargs grep -rn rm",
    "env",
    "env A='rm -rf x' make",
    "command -v rm -f",
    "timeout 5 make clean",
    "sudo",
    "grep -rf rm x",
    "echo rm -rf x",
    "cp -rf a b",
    "ls -rf",
    "make clean",
    "sh script -rf",
    "sh -c 'echo rm -rf x'",
    "bash -c 'echo \"rm -rf x\" # rm -rf x'",
    "bash -c 'cat >cleanup <<E\nrm -rf x\nE'",
    "bash -c 'grep -c rm -f patterns'",
    "bash -c 'if [ -f x ]; then cat x; fi'",
    "bash rm -rf x",
    "python3 -c 'import os'",
    "dd if=x bs=1 count=1",
    "dd if=x of=/dev/null",
    "mkdir -p x",
    "truncate -s +1G x",
    "truncate -s %4096 x",
    "chmod -R u+w build",
    "chmod 755 /usr/local/bin/x",
    "chown -R me:me /home/me/project",
    "chmod -R 755 .",
    "kill 1234",
    "kill -9 1234",
    "kill -1 1234",
    "kill -l",
    "wipefs /dev/sda",
    "",
]


@pytest.mark.parametrize("command", ASKED)
def test_losing_work_for_good_is_asked_about(command: str) -> None:
    assert danger(shlex.split(command)) is not None


@pytest.mark.parametrize("command", NOT_ASKED)
def test_everyday_commands_are_not(command: str) -> None:
    assert danger(shlex.split(command)) is None


def test_the_reason_is_short_and_names_the_command_behind_the_wrapper() -> None:
    reason = danger(["env", "sh", "-c", "cd x && git push --force"])
    assert reason == "git push overwrites what is on the remote"


WRAPPERS = ["env A=b", "nice -n 1", "nohup", "timeout 5", "sudo -n", "setsid", "command"]


@given(
    st.lists(st.sampled_from(WRAPPERS), max_size=5),
    st.sampled_from([c for c in ASKED if not c.startswith(("bash", "kill"))]),
    st.booleans(),
)
def test_wrappers_and_shells_in_front_hide_nothing(
    wrappers: list[str], command: str, quoted: bool
) -> None:
    wrapped = " ".join((*wrappers, command))
    argv = ["bash", "-c", wrapped] if quoted else shlex.split(wrapped)
    assert danger(argv) is not None


@given(
    st.lists(st.sampled_from(WRAPPERS), max_size=5),
    st.sampled_from([c for c in NOT_ASKED if c and not c.startswith(("bash", "kill"))]),
    st.booleans(),
)
def test_wrappers_and_shells_in_front_add_no_danger(
    wrappers: list[str], command: str, quoted: bool
) -> None:
    wrapped = " ".join((*wrappers, command))
    argv = ["bash", "-c", wrapped] if quoted else shlex.split(wrapped)
    assert danger(argv) is None


NAMES = ["rm", "git", "find", "env", "sh", "bash", "xargs", "kill", "dd", "chmod", "truncate"]


@given(st.lists(st.text() | st.sampled_from([*NAMES, "-c", "-exec", "--", "-S", "-f", "\udcff"])))
def test_any_words_are_judged(argv: list[str]) -> None:
    assert danger(argv) is None or danger(argv)


def nested(levels: int) -> list[str]:
    command = ["rm", "-rf", "x"]
    for _ in range(levels):
        command = ["sh", "-c", shlex.join(command)]
    return command


def test_a_danger_a_few_shells_deep_is_named() -> None:
    assert danger(nested(6)) == "rm deletes whole directories"


@pytest.mark.parametrize(
    "argv",
    [
        ["env"] * (1 << 20),
        ["sudo", "-n"] * (1 << 19),
        ["sh", "-c", "a;" * (1 << 20)],
        ["sh", "-c", "eval " * 26_000],
        ["find", *(["-exec", "sh", "-c", "a;" * 60_000, ";"] * 16)],
    ],
)
def test_what_is_too_much_to_read_is_asked_about(argv: list[str]) -> None:
    reason = danger(argv)
    assert reason is not None
    assert "too long" in reason


@pytest.mark.parametrize(
    "argv",
    [
        ["grep", *(["word"] * 400_000)],
        ["rm", "-" + "v" * (2 << 20)],
        ["sh", "-c", "$(" * 60_000],
        ["sh", "-c", "${" * 60_000],
        ["sh", "-c", '"' * 120_000],
        ["sh", "-c", "$(cat <<A\n" * 12_000],
        ["sh", "-c", "1<" * 60_000],
        ["env", *(["-S", "env"] * 200_000)],
    ],
)
def test_work_grows_with_the_input_only(argv: list[str]) -> None:
    # Quadratic work would take hours here.
    assert danger(argv) is None or danger(argv)
