"""Everyday programs do their work inside workspace-write, network off."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.sandbox.confined import (
    READ_ONLY,
    USERS,
    WORKSPACE,
    Policy,
    Workspace,
    python,
    require_abi,
    workspace,
)

pytestmark = require_abi(1)

DEFAULT: Policy = {"type": "workspace-write"}


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Workspace:
    return workspace(request.param)


def need(*programs: str) -> None:
    """Skip where a program is missing."""
    for program in programs:
        if shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") is None:
            pytest.skip(f"no {program} here")


def shell(place: Workspace, script: str, policy: Policy = WORKSPACE, **options: object) -> str:
    """What a shell script prints; it must succeed and say nothing on stderr."""
    ran = place.run(policy, "/bin/sh", "-ec", script, **options)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    return str(ran.stdout)


def test_pipes_redirections_and_here_documents(place: Workspace) -> None:
    script = """
    yes | head -n 1
    cat <<end > here
    text
end
    cat < here | tee copy > /dev/null
    (echo out > /dev/stdout; echo error > /dev/stderr) 2>&1 | cat
    cmp here copy
    (sleep 0.01 & wait; echo waited)
    """
    assert shell(place, script) == "y\nout\nerror\nwaited\n"


def test_node_runs_programs(place: Workspace) -> None:
    need("node")
    code = """
    const cp = require("child_process");
    console.log(cp.execSync("echo sync").toString().trim());
    console.log(cp.spawnSync("cat", {input: "input"}).stdout.toString());
    const child = cp.fork(process.argv[1]);
    child.on("message", m => { console.log(m); child.disconnect(); });
    """
    place.file(place.inside / "child.js", "process.send('forked')")
    ran = shell(place, f"node -e '{code}' ./child.js")
    assert ran == "sync\ninput\nforked\n"


def test_npm_runs_a_script(place: Workspace) -> None:
    need("npm")
    manifest = {"name": "a", "version": "1.0.0", "scripts": {"build": "node -p '6*7' > built"}}
    place.file(place.inside / "package.json", json.dumps(manifest))
    environ = {"npm_config_update_notifier": "false"}
    ran = place.run(WORKSPACE, "npm", "run", "--silent", "build", environ=environ)
    assert ran.returncode == 0, ran.stderr
    assert (place.inside / "built").read_text() == "42\n"


POOLS = {
    "multiprocessing": "import multiprocessing\n"
    "multiprocessing.set_start_method('fork')\n"
    "with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, 2]))",
    "spawned": "import multiprocessing\n"
    "if __name__ == '__main__':\n"
    "    multiprocessing.set_start_method('spawn')\n"
    "    with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, 2]))",
    "futures": "import concurrent.futures, multiprocessing\n"
    "context = multiprocessing.get_context('fork')\n"
    "with concurrent.futures.ProcessPoolExecutor(2, context) as pool:\n"
    "    print(list(pool.map(abs, [-1, 2])))",
    "queue": "import multiprocessing\n"
    "context = multiprocessing.get_context('fork')\n"
    "queue = context.Queue()\n"
    "process = context.Process(target=queue.put, args=([1, 2],))\n"
    "process.start(); print(queue.get()); process.join()",
    "shared memory": "from multiprocessing import shared_memory\n"
    "block = shared_memory.SharedMemory(create=True, size=2)\n"
    "block.buf[:2] = bytes([1, 2]); print(list(block.buf[:2]))\n"
    "block.close(); block.unlink()",
    "asyncio": "import asyncio\n"
    "async def main():\n"
    "    process = await asyncio.create_subprocess_exec('echo', '[1,', '2]', stdout=-1)\n"
    "    print((await process.communicate())[0].decode().strip())\n"
    "asyncio.run(main())",
}


@pytest.mark.parametrize("kind", POOLS)
def test_python_shares_work_among_processes(place: Workspace, kind: str) -> None:
    place.file(place.inside / "work.py", POOLS[kind])
    assert shell(place, f"{python()} -W error work.py") == "[1, 2]\n"


TERMINALS = {
    "openpty": """
import os, pty, termios, tty
controller, terminal = pty.openpty()
assert os.isatty(terminal) and os.ttyname(terminal).startswith("/dev/pts/")
tty.setraw(terminal)
os.write(terminal, b"typed")
print(os.read(controller, 9).decode())
""",
    "fork": """
import os, pty
child, controller = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", "stty size >/dev/null; echo typed > /dev/tty"])
print(os.read(controller, 9).decode().strip())
os.waitpid(child, 0)
""",
}


@pytest.mark.parametrize("kind", TERMINALS)
def test_python_opens_terminals(place: Workspace, kind: str) -> None:
    place.file(place.inside / "work.py", TERMINALS[kind])
    assert shell(place, f"{python()} work.py") == "typed\n"


def test_script_records_a_session(place: Workspace) -> None:
    need("script")
    assert "recorded" in shell(place, "script -qc 'tty -s && echo recorded' typescript")
    assert "recorded" in (place.inside / "typescript").read_text()


def test_sqlite_keeps_a_database(place: Workspace) -> None:
    code = """
import sqlite3
with sqlite3.connect("base.db") as base:
    base.execute("pragma journal_mode=wal")
    base.execute("create table t (a)")
    base.execute("insert into t values (42)")
print(*sqlite3.connect("base.db").execute("select a from t").fetchone())
"""
    place.file(place.inside / "work.py", code)
    assert shell(place, f"{python()} work.py") == "42\n"


def test_git_commits(place: Workspace) -> None:
    need("git")
    script = """
    git init -q -b main .
    git config user.name a
    git config user.email a@example.org
    echo one > file
    git add file
    git commit -q -m first
    git checkout -q -b other
    echo two > file
    git commit -q -a -m second
    git stash list
    git gc --quiet
    git log --format=%s
    """
    assert shell(place, script) == "second\nfirst\n"


def test_make_and_the_compiler_build(place: Workspace) -> None:
    need("make", "gcc")
    place.file(place.inside / "main.c", '#include <stdio.h>\nint main(void) { puts("built"); }\n')
    place.file(place.inside / "Makefile", "main: main.o\n\t$(CC) -o $@ $^\n")
    # The compiler's own temporary files want $TMPDIR or /tmp.
    shell(place, "make -s -j2 main CC=gcc", DEFAULT)
    assert shell(place, "./main") == "built\n"


def test_a_virtual_environment_is_made(place: Workspace) -> None:
    shell(place, f"{python()} -m venv --without-pip environment")
    code = "import sys; print(sys.prefix)"
    assert shell(place, f"environment/bin/python -c '{code}'").strip() == str(
        place.inside / "environment"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="root's interpreter may be its own alone")
def test_a_virtual_environment_with_pip_is_made() -> None:
    place = workspace(None)
    ran = place.run(DEFAULT, sys.executable, "-m", "venv", "environment")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "pip" in shell(place, "environment/bin/pip --version")


def test_archives_keep_modes_and_times(place: Workspace) -> None:
    need("tar")
    script = """
    mkdir tree && echo a > tree/run && chmod 750 tree/run && touch -d @1 tree/run
    tar cf tree.tar tree && rm -r tree && tar xf tree.tar
    stat -c '%a %Y' tree/run
    """
    assert shell(place, script) == "750 1\n"


def test_background_jobs_and_signals_among_them(place: Workspace) -> None:
    script = "sleep 60 & kill -TERM $!; wait $! 2>/dev/null || echo $?"
    assert shell(place, script) == "143\n"
    need("bash")
    ran = place.run(WORKSPACE, "bash", "-c", "cat <(echo substituted) | (read -r a; echo $a)")
    assert (ran.stdout, ran.stderr) == ("substituted\n", "")


@pytest.mark.parametrize("program", ["ls -l /bin/", "grep -r root /etc/passwd", "git --version"])
def test_read_only_reads(place: Workspace, program: str) -> None:
    need(program.partition(" ")[0])
    assert shell(place, program, READ_ONLY)


def test_a_path_that_is_no_text(place: Workspace) -> None:
    name = os.fsdecode(b"caf\xe9")
    place.folder(Path(place.inside, name))
    ran = place.run(WORKSPACE, "/bin/sh", "-c", 'cd "$0" && echo a > b && cat b', name)
    assert (ran.stdout, ran.stderr) == ("a\n", "")
