"""`codex-multitool exec`, the built executable: what runs, and what is told of it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_multitool import roles
from codex_multitool.execpolicy.parser import Source, parse
from codex_multitool.execpolicy.rules import Decision
from tests.cli.exec_ground import Ground
from tests.cli.terminal import DEADLINE
from tests.end_to_end.processes import marked, wait_until
from tests.executables import built, patched_shell


class TestCommand:
    def test_it_has_the_callers_stdin_stdout_and_stderr(self, ground: Ground) -> None:
        done = ground.run("cat; echo wrong >&2", typed="typed\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, "typed\n", "wrong\n")

    def test_output_is_live(self, ground: Ground) -> None:
        with subprocess.Popen(
            [built() / roles.CLI, "exec", "echo first; read line; echo $line"],
            env=ground.environment(),
            cwd=ground.workspace,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin
            assert process.stdout
            assert process.stdout.readline() == "first\n"
            out, _ = process.communicate("second\n", timeout=DEADLINE)
            assert out == "second\n"

    def test_it_has_the_limits_of_the_users_configuration(self, ground: Ground) -> None:
        (ground.home / "config.toml").write_text("codex_multitool.max_file_size = 1024\n")
        done = ground.run("-s", "workspace-write", "ulimit -f; ulimit -c; exec yes > f")
        assert (done.returncode, done.stdout) == (128 + signal.SIGXFSZ, "1\n0\n")
        assert "at its limit `codex_multitool.max_file_size`" in done.stderr
        (ground.home / "config.toml").write_text("codex_multitool.max_file_size = 0\n")
        done = ground.run("true")
        assert done.returncode == 125
        assert "`codex_multitool.max_file_size`: out of range" in done.stderr

    def test_it_is_not_run_without_the_mount_namespace_that_was_asked_for(
        self, ground: Ground
    ) -> None:
        (ground.home / "config.toml").write_text('codex_multitool.protect = "namespace"\n')
        (ground.workspace / ".envrc").touch()
        none_left = (
            "cd /proc/sys/user && echo 0 > max_mnt_namespaces && echo 0 > max_user_namespaces"
            ' || exit 99; cd - >/dev/null; exec "$@"'
        )
        done = subprocess.run(
            [
                *("unshare", "--user", "--map-root-user", "sh", "-c", none_left, "sh"),
                *(built() / roles.CLI, "exec", "--sandbox=workspace-write", "echo ran"),
            ],
            cwd=ground.workspace,
            env=ground.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )
        if done.returncode in (1, 99) and "namespace (" not in done.stderr:
            pytest.skip(f"no user namespace to forbid others in: {done.stderr}")
        assert (done.returncode, done.stdout) == (125, "")
        assert done.stderr == (
            'codex-multitool exec: mount namespace (codex_multitool.protect = "check" does '
            "without): No space left on device\n"
        )

    def test_one_word_is_a_script_and_several_are_a_program_with_arguments(
        self, ground: Ground
    ) -> None:
        assert ground.run("echo $((1+1)) | cat").stdout == "2\n"
        assert ground.run("--", "printf", "%s|", "a b", "$HOME", "--tree").stdout == (
            "a b|$HOME|--tree|"
        )

    @pytest.mark.parametrize(
        ("script", "status"),
        [("exit 7", 7), ("kill -9 $$", 128 + 9), ("no-such-program", 127), ("true", 0)],
    )
    def test_exit_status_is_the_commands(self, ground: Ground, script: str, status: int) -> None:
        assert ground.run("--", script).returncode == status

    def test_signals_that_our_caller_ignored_are_ignored(self, ground: Ground) -> None:
        asked = "grep SigIgn /proc/self/status"  # as nohup(1), and a shell's background job
        for trap, mask in (("HUP", 1), ("INT QUIT", 2 | 4), ("HUP INT QUIT TERM", 0x4007)):
            done = subprocess.run(
                [
                    "/bin/sh",
                    "-c",
                    f'trap "" {trap}; exec "$@"',
                    "sh",
                    built() / roles.CLI,
                    "exec",
                    asked,
                ],
                env=ground.environment(),
                cwd=ground.workspace,
                capture_output=True,
                text=True,
                check=False,
                timeout=DEADLINE,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert int(done.stdout.split()[1], 16) & 0x4007 == mask

    def test_signals_that_our_caller_blocked_are_no_matter(self, ground: Ground) -> None:
        blocking = (
            "import os, signal, sys\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})\n"
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        done = subprocess.run(
            [sys.executable, "-c", blocking, built() / roles.CLI, "exec", "true; exit 7"],
            env=ground.environment(),
            check=False,
            timeout=DEADLINE,
        )
        assert done.returncode == 7

    def test_time_is_up(self, ground: Ground) -> None:
        done = ground.run("--timeout", "0.2", "--", "sleep", "1000")
        assert done.returncode == 124
        assert "ended after 0.2 seconds" in done.stderr
        assert marked(ground.mark) == []

    @pytest.mark.parametrize(("text", "seconds"), [("200ms", 0.2), (".2s", 0.2), ("0.003m", 0.18)])
    def test_time_has_a_unit(self, ground: Ground, text: str, seconds: float) -> None:
        done = ground.run("--timeout", text, "--", "sleep", "1000")
        assert done.returncode == 124
        assert f"ended after {seconds:g} seconds" in done.stderr

    def test_what_it_leaves_running_is_ended_and_named(self, ground: Ground) -> None:
        done = ground.run("setsid sleep 1000 & echo done")
        assert (done.returncode, done.stdout) == (0, "done\n")
        assert re.search(r"ended what was left running: (setsid )?sleep 1000 \(\d+\)", done.stderr)
        assert marked(ground.mark) == []

    def test_directory_is_the_one_asked_for(self, ground: Ground) -> None:
        (ground.workspace / "below").mkdir()
        done = ground.run("-C", "below", "--", "sh", "-c", "pwd; echo $PWD")
        assert done.stdout == f"{ground.workspace}/below\n" * 2

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    def test_signal_to_us_ends_the_whole_tree(self, ground: Ground, number: int) -> None:
        with subprocess.Popen(
            [built() / roles.CLI, "exec", "setsid sleep 1000 & echo up; sleep 1000; true"],
            env=ground.environment(),
            cwd=ground.workspace,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            assert process.stdout
            assert process.stdout.readline() == b"up\n"
            process.send_signal(number)
            assert process.wait(DEADLINE) == 128 + number
        wait_until(lambda: marked(ground.mark) == [], "no process is left")

    def test_it_does_so_at_whatever_moment(self, ground: Ground) -> None:
        number = signal.SIGTERM
        for turn in range(20):
            with subprocess.Popen(
                [built() / roles.CLI, "exec", "sleep 1000"],
                env=ground.environment(),
                cwd=ground.workspace,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            ) as process:
                time.sleep(turn * 0.015)
                process.send_signal(number)
                _, told = process.communicate(timeout=DEADLINE)
            assert (process.returncode, told) in ((-number, b""), (128 + number, b""))
        wait_until(lambda: marked(ground.mark) == [], "no process is left")


class TestKilled:
    """Whichever of our processes is killed, nothing of the command outlives the run."""

    @pytest.fixture
    def run(self, ground: Ground) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [built() / roles.CLI, "exec", "setsid sleep 1000 & echo up; sleep 1000; true"],
            env=ground.environment(),
            cwd=ground.workspace,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout
            assert process.stdout.readline() == "up\n"
            yield process

    def kill(self, ground: Ground, name: str) -> None:
        (pid,) = (
            found.pid
            for found in marked(ground.mark)
            if Path(f"/proc/{found.pid}/comm").read_text() == f"{name}\n"
        )
        os.kill(pid, signal.SIGKILL)

    def test_the_front(self, ground: Ground, run: subprocess.Popen[str]) -> None:
        run.kill()
        assert run.wait(DEADLINE) == -signal.SIGKILL
        wait_until(lambda: marked(ground.mark) == [], "no process is left")

    def test_the_keeper(self, ground: Ground, run: subprocess.Popen[str]) -> None:
        self.kill(ground, "codex-keeper")
        _, told = run.communicate(timeout=DEADLINE)
        assert run.returncode == 125
        assert "codex-multitool exec: the keeper was killed\n" in told
        wait_until(lambda: marked(ground.mark) == [], "no process is left")

    @pytest.mark.parametrize("name", ["codex-zygote", "codex-spawner"])
    def test_one_that_the_command_can_do_without(
        self, ground: Ground, run: subprocess.Popen[str], name: str
    ) -> None:
        self.kill(ground, name)
        run.terminate()
        assert run.wait(DEADLINE) == 128 + signal.SIGTERM
        wait_until(lambda: marked(ground.mark) == [], "no process is left")


class TestSandbox:
    @pytest.mark.parametrize(
        ("mode", "inside", "outside"),
        [
            ("read-only", False, False),
            ("workspace-write", True, False),
            ("danger-full-access", True, True),
        ],
    )
    def test_mode_says_what_can_be_written(
        self, ground: Ground, mode: str, inside: bool, outside: bool
    ) -> None:
        ground.run("--sandbox", mode, "echo x > here; echo x > ../there")
        assert (ground.workspace / "here").exists() == inside
        assert (ground.folder / "there").exists() == outside

    def test_allowed_program_leaves_it_and_its_neighbour_does_not(self, ground: Ground) -> None:
        ground.rules('prefix_rule(pattern=["touch", "allowed"], decision="allow")')
        done = ground.run("touch allowed; touch other")
        assert done.returncode != 0
        assert (ground.workspace / "allowed").exists()
        assert not (ground.workspace / "other").exists()

    def test_rules_option_adds_to_the_users_rules(self, ground: Ground) -> None:
        more = ground.folder / "more.rules"
        more.write_text('prefix_rule(pattern=["touch"], decision="forbidden")')
        ground.rules('prefix_rule(pattern=["touch"], decision="allow")')
        done = ground.run("--rules", str(more), "--", "touch", "x")
        assert done.returncode == 1
        assert f"Execution denied: Execution forbidden by policy: rule `touch` ({more}:1)" in (
            done.stderr
        )
        assert not (ground.workspace / "x").exists()

    def test_program_named_like_a_builtin_is_judged(self, ground: Ground) -> None:
        ground.rules('prefix_rule(pattern=["echo"], decision="forbidden")')
        assert ground.run("--", "echo", "hi").returncode == 1


class TestStart:
    def test_options_that_cannot_be_kept_are_told(self, ground: Ground) -> None:
        for words, told in (
            (["--shell", "/no/shell", "true"], "--shell /no/shell: no such file"),
            (["--rules", "/no/rules", "true"], "/no/rules"),
            (["-C", "/no/dir", "true"], "No such file or directory"),
            (["--json-fd", "77", "true"], "--json-fd 77: Bad file descriptor"),
            (["-C", "/etc/passwd", "true"], "/etc/passwd: Not a directory"),
            (["--learn", "/dev/full", "true"], "--learn /dev/full: not a regular file"),
            (["--learn", "/no/dir/x.rules", "true"], "--learn /no/dir/x.rules: its folder"),
        ):
            done = ground.run(*words)
            assert done.returncode == 125, words
            assert told in done.stderr

    def test_numbers_that_are_none_are_usage_errors(self, ground: Ground) -> None:
        for words in (
            *(["--timeout", text] for text in ("nan", "inf", "0", "0ms", "1 s", "1d", "-1", "1s2")),
            ["--json-fd", "9" * 20],
        ):
            done = ground.run(*words, "true")
            assert done.returncode == 2
            assert words[0] in done.stderr

    def test_broken_rules_run_nothing(self, ground: Ground) -> None:
        ground.rules('prefix_rule(pattern=["a"], decision="perhaps")')
        done = ground.run("--", "touch", "/tmp/x")
        assert done.returncode == 125
        assert f"{ground.home}/rules/mine.rules:1" in done.stderr

    def test_a_command_that_could_write_what_we_obey_is_not_run(self, ground: Ground) -> None:
        words = ("-C", str(ground.folder), "-s", "workspace-write")
        script = "mkdir home/rules; echo 'prefix_rule([\"touch\"])' > home/rules/z.rules; echo ran"
        done = ground.run(*words, script)
        assert (done.returncode, done.stdout) == (125, "")
        assert f"{ground.home}/config.toml, its configuration" in done.stderr
        assert "--accept-writable-server" in done.stderr
        assert not (ground.home / "rules").exists()
        done = ground.run(*words, "--accept-writable-server", script)
        assert (done.returncode, done.stdout) == (0, "ran\n")
        assert "WARNING: accepted: commands could write" in done.stderr

    def test_it_invites_nobody_to_that(self, ground: Ground) -> None:
        done = ground.run(
            "-C", str(ground.folder), "-c", "sandbox_mode='workspace-write'", "exit 3"
        )
        assert done.returncode == 3
        assert f"{ground.folder} is not writable: {ground.home} is in it\n" in done.stderr
        with ground.terminal("-C", str(ground.folder), "exit 3") as terminal:
            assert terminal.status() == 3
            assert "workspace-write" not in terminal.seen

    def test_without_a_command_it_is_a_usage_error(self, ground: Ground) -> None:
        done = ground.run()
        assert done.returncode == 2
        assert "CMD" in done.stderr

    def test_help_teaches_by_example(self, ground: Ground) -> None:
        done = ground.run("--help")
        assert done.returncode == 0
        assert "codex-multitool exec --tree 'cd src" in done.stdout

    def test_wrapper_mode_judges_with_a_patched_shell(self, ground: Ground) -> None:
        shell = str(patched_shell("bash"))
        ground.rules('prefix_rule(pattern=["touch"], decision="allow")')
        done = ground.run(
            "--intercept=wrapper", "--shell", shell, "--tree", "touch made; ls nowhere"
        )
        assert (ground.workspace / "made").exists(), done.stderr
        assert re.search(r"├─ \d+  OUTSIDE  \S+/touch made  exit 0", done.stderr)
        assert re.search(r"└─ \d+  inside  \S+/ls nowhere  exit 2", done.stderr)

    def test_wrapper_mode_runs_nothing_under_a_shell_that_is_not_patched(
        self, ground: Ground
    ) -> None:
        done = ground.run("--intercept=wrapper", "--shell", "/bin/sh", "echo ran")
        assert (done.returncode, done.stdout) == (125, "")
        assert "no rule would hold under the shell /bin/sh" in done.stderr
        assert "make shells" in done.stderr


class TestTree:
    RULES = """
prefix_rule(pattern=["touch"], decision="allow")
prefix_rule(pattern=["uname"], decision="forbidden")
"""

    def test_it_shows_every_exec_with_its_fate(self, ground: Ground) -> None:
        ground.rules(self.RULES)
        done = ground.run("--tree", "touch x; uname; sh -c 'ls nowhere; exit 4'; kill -9 $$")
        shown = re.sub(r"\d+\.\d{3} s", "T s", re.sub(r"(?m)^(\W*)\d+ ", r"\1PID ", done.stderr))
        rules = ground.home / "rules" / "mine.rules"
        root, touch, uname, sh, ls = shown.splitlines()[-5:]
        assert re.fullmatch(r"PID  inside  \S+sh -c .*  SIGKILL T s", root)
        assert re.fullmatch(
            rf"├─ PID  OUTSIDE  /\S+/touch x  exit 0 T s  \(rule `touch` \({rules}:2\)\)", touch
        )
        assert re.fullmatch(
            r"├─ PID  DENIED  /\S+/uname  exit 1 T s  \(Execution forbidden .*:3\)\)", uname
        )
        assert re.fullmatch(
            r"└─ PID  inside  /\S+ -c 'ls nowhere; exit 4'  exit 4 T s(  \(called sh\))?", sh
        )
        assert re.fullmatch(r"   └─ PID  inside  /\S+/ls nowhere  exit 2 T s", ls)

    def test_process_that_executes_twice_is_seen_twice(self, ground: Ground) -> None:
        done = ground.run("--tree", "--", "env", "true")
        lines = [line for line in done.stderr.splitlines() if "  inside  " in line]
        assert len({re.sub(r"\W*(\d+) .*", r"\1", line) for line in lines}) == 1
        # The shell by which we start a program is none of the user's, unless it starts nothing.
        assert ["became the next" in line for line in lines] == [True, False]
        assert "no-such-program" in ground.run("--tree", "--", "no-such-program", "x").stderr

    def test_other_name_that_a_program_is_called_by_is_told(self, ground: Ground) -> None:
        (ground.workspace / "linked").symlink_to("/bin/ls")
        done = ground.run("--tree", "--", "./linked", "/")
        assert re.search(r"  inside  /\S+/ls /  exit 0 \S+ s  \(called linked\)\n", done.stderr)

    def test_the_end_of_a_foreign_program_is_told_with_its_reason(self, ground: Ground) -> None:
        if os.uname().machine != "x86_64":
            pytest.skip("the system call is one of i386")
        program = ground.workspace / "foreign.py"
        program.write_text(
            "import ctypes, mmap\n"
            "memory = mmap.mmap(-1, 4096, prot=7)\n"
            "memory.write(bytes.fromhex('b814000000cd80c3'))  # getpid by int 0x80\n"
            "start = ctypes.addressof(ctypes.c_char.from_buffer(memory))\n"
            "ctypes.CFUNCTYPE(ctypes.c_int)(start)()\n"
        )
        done = ground.run("--tree", "--", os.path.realpath(sys.executable), "-IS", str(program))
        assert done.returncode == 128 + signal.SIGSYS
        why = "SIGSYS ends what makes system calls of another architecture"
        assert f"exec: {why}" in done.stderr
        assert re.search(rf"foreign\.py  SIGSYS .*\({why}", done.stderr)

    def test_lines_fit_the_terminal(self, ground: Ground) -> None:
        with ground.terminal("--tree", f"read line; ls {'x' * 300}; true", TERM="dumb") as terminal:
            terminal.resize(24, 90)
            terminal.type(b"go\n")
            assert terminal.status() == 0
            tree = [line for line in terminal.seen.splitlines() if "  inside  " in line]
            assert [len(line) <= 90 and "…" in line for line in tree] == [True, True]

    def test_nothing_of_it_is_printed_unasked(self, ground: Ground) -> None:
        assert ground.run("--", "ls", "/").stderr == ""

    @pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
    def test_colours_are_for_terminals(self, ground: Ground, no_color: str, coloured: bool) -> None:
        with ground.terminal("--tree", "--", "true", NO_COLOR=no_color) as terminal:
            assert terminal.status() == 0
            assert ("\x1b[32minside\x1b[m" in terminal.seen) == coloured
            assert ("\x1b" in terminal.seen) == coloured

    def test_terminal_sequences_in_arguments_are_spelled_out(self, ground: Ground) -> None:
        done = ground.run("--tree", "--", "true", "\x1b[2J")
        assert "\x1b" not in done.stderr
        assert "true $'\\x1b[2J'" in done.stderr


class TestJSON:
    def test_it_is_the_last_line_of_stdout(self, ground: Ground) -> None:
        ground.rules(TestTree.RULES)
        done = ground.run("--json", "--tree", "printf unended; touch x; exit 3")
        assert done.returncode == 3
        assert done.stdout.startswith("unended\n{")
        result = json.loads(done.stdout.splitlines()[-1])
        assert (result["exit_code"], result["signal"], result["timed_out"]) == (3, None, False)
        (decision,) = result["decisions"]
        assert (decision["decision"], decision["argv"]) == ("escalate", ["touch", "x"])
        shell, touch = result["execs"]
        assert (shell["caller"], touch["caller"]) == (None, 0)
        assert (touch["decision"], touch["exit_code"], touch["asked"]) == ("escalate", 0, False)

    def test_or_goes_to_a_descriptor_which_the_command_does_not_get(self, ground: Ground) -> None:
        reader, writer = os.pipe()
        done = ground.run(
            "--json-fd", str(writer), f"ls /proc/self/fd | grep -qx {writer}", pass_fds=[writer]
        )
        os.close(writer)
        with os.fdopen(reader) as file:
            result = json.loads(file.read())
        assert done.stdout == ""
        assert result["exit_code"] == 1
        assert "execs" not in result

    def test_signal_is_named(self, ground: Ground) -> None:
        result = json.loads(ground.run("--json", "kill -SEGV $$").stdout)
        assert (result["exit_code"], result["signal"]) == (139, "SIGSEGV")


class TestOutlets:
    """What was asked for and cannot be written is told, and no success."""

    @pytest.mark.parametrize("redirected", [">/dev/full", "</dev/null >&0"])
    def test_a_result_that_nobody_could_have_runs_nothing(
        self, ground: Ground, redirected: str
    ) -> None:
        done = self.shell(ground, f"exec --json --sandbox=workspace-write 'touch ran' {redirected}")
        assert done.returncode == 125
        assert "--json: descriptor 1 cannot be written" in done.stderr
        assert not (ground.workspace / "ran").exists()

    def test_a_result_that_is_lost_in_the_end_is_no_success(self, ground: Ground) -> None:
        for status in (0, 7):
            read, write = os.pipe()
            os.close(read)
            done = ground.run("--json-fd", str(write), f"exit {status}", pass_fds=[write])
            os.close(write)
            assert done.returncode == (status or 125)
            assert "the result cannot be written to descriptor" in done.stderr

    def test_a_tree_that_nobody_could_see_runs_nothing(self, ground: Ground) -> None:
        done = self.shell(ground, "exec --tree --sandbox=workspace-write 'touch ran' 2>/dev/full")
        assert done.returncode == 125
        assert not (ground.workspace / "ran").exists()

    @pytest.mark.parametrize("name", ["none/x.rules", "folder", "/proc/version", "/dev/full"])
    def test_rules_that_cannot_be_kept_are_not_learned(self, ground: Ground, name: str) -> None:
        (ground.folder / "folder").mkdir()
        path = str(ground.folder / name)
        words = ("--sandbox=workspace-write", "--learn", path, "touch ran")
        done = ground.run(*words)
        assert done.returncode == 125
        assert f"exec: --learn {path}: " in done.stderr
        assert not (ground.workspace / "ran").exists()

    def test_the_command_leads_what_is_learned_nowhere_else(self, ground: Ground) -> None:
        (ground.folder / "theirs").write_text("mine\n")
        script = f"rm learned; ln -s {ground.folder}/theirs learned"
        done = ground.run("-s", "workspace-write", "--learn", "learned", script)
        assert done.returncode == 125
        assert "--learn learned: it was replaced while the command ran" in done.stderr
        assert (ground.folder / "theirs").read_text() == "mine\n"

    def shell(self, ground: Ground, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", f"{built() / roles.CLI} {command}"],
            cwd=ground.workspace,
            env=ground.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )


class TestLearn:
    def test_rules_allow_what_ran_and_was_denied(self, ground: Ground) -> None:
        learned = ground.folder / "learned.rules"
        script = "touch 'a b'; rm -rf 'a b'; ls / >&2"
        first = ground.run("--learn", str(learned), script)
        assert "Execution denied" in first.stderr
        policy = parse([Source(str(learned), learned.read_text())])
        found = [rule for rules in policy.rules.values() for rule in rules]
        assert {rule.decision for rule in found} == {Decision.ALLOW}
        patterns = [[token for (token,) in rule.pattern] for rule in found]
        assert [[os.path.basename(p[0]), *p[1:]] for p in patterns] == [
            ["rm", "-rf", "a b"],
            ["touch", "a b"],
            ["ls", "/"],
        ]
        assert all(os.path.isabs(pattern[0]) for pattern in patterns)
        second = ground.run("--json", "--rules", str(learned), script)
        result = json.loads(second.stdout.splitlines()[-1])
        assert [found["decision"] for found in result["decisions"]] == ["escalate"] * 3
        assert "Execution denied" not in second.stderr

    def test_useless_and_boundless_rules_are_comments(self, ground: Ground) -> None:
        ground.rules('prefix_rule(pattern=["uname"], decision="forbidden")')
        learned = ground.workspace / "learned.rules"
        program = ground.workspace / "mine"
        program.write_bytes(Path("/bin/true").read_bytes())
        program.chmod(0o755)
        ground.run(
            "--sandbox=workspace-write", "--learn", str(learned), "uname; ./mine; echo : | sh"
        )
        text = learned.read_text()
        assert parse([Source("learned", text)]).rules == {}
        for told in ("the stricter one wins", "the sandbox can write this", "too wide"):
            assert told in text

    def test_a_file_of_somebody_elses_stays(self, ground: Ground) -> None:
        kept = ground.folder / "kept.rules"
        kept.write_text("# mine\n")
        done = ground.run("--learn", str(kept), "true")
        assert done.returncode == 125
        assert kept.read_text() == "# mine\n"
        learned = ground.folder / "learned.rules"
        for words in ("ls", "pwd -L; ls /"):
            assert ground.run("--learn", str(learned), words).returncode == 0
        assert "pwd -L; ls /" in learned.read_text()
