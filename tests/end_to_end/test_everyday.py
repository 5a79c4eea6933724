"""Everyday programs do their work in a workspace-write sandbox without network."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap

import pytest

from tests.end_to_end.rig import KERNEL, WORKSPACE, Box, Pairing, over, which
from tests.end_to_end.shared import Share

BOTH_WAYS = [Pairing(), KERNEL]
PYTHON = {
    "process pool": """
        import multiprocessing
        with multiprocessing.Pool(2) as pool:
            print(pool.map(abs, [-1, 2, -3]))
        """,
    "shared memory": """
        from multiprocessing.shared_memory import SharedMemory
        memory = SharedMemory(create=True, size=8)
        memory.buf[0] = 7
        print(memory.buf[0])
        memory.close()
        memory.unlink()
        """,
    "pseudo-terminal": """
        import os, pty
        pid, fd = pty.fork()
        if pid == 0:
            os.execvp("sh", ["sh", "-c", "test -t 0 && echo terminal > /dev/tty"])
        print(os.read(fd, 100).decode().strip())
        os.waitpid(pid, 0)
        """,
    "socket pair": """
        import socket
        a, b = socket.socketpair()
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        assert a.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
        assert a.getsockname() == b.getpeername() == ""
        a.sendall(b"through")
        a.shutdown(socket.SHUT_WR)
        print(b.recv(100).decode(), b.recv(100))
        """,
    "event loop": """
        import asyncio
        async def main():
            child = await asyncio.create_subprocess_exec("echo", "child", stdout=-1)
            return (await child.communicate())[0].decode().strip()
        print(asyncio.run(main()))
        """,
    "sqlite": """
        import sqlite3
        with sqlite3.connect("db") as db:
            print(db.execute("pragma journal_mode=wal").fetchone()[0])
            db.execute("create table t (n)")
            db.execute("insert into t values (42)")
        print(db.execute("select n from t").fetchone()[0])
        """,
}
PRINTED = {
    "process pool": "[1, 2, 3]\n",
    "shared memory": "7\n",
    "pseudo-terminal": "terminal\n",
    "socket pair": "through b''\n",
    "event loop": "child\n",
    "sqlite": "wal\n42\n",
}


@over(BOTH_WAYS)
@pytest.mark.parametrize("name", PYTHON)
def test_python(pairing: Pairing, name: str, share: Share) -> None:
    client = share(pairing, policy=WORKSPACE)
    code = shlex.quote(textwrap.dedent(PYTHON[name]))
    result = client.shell(f"{shlex.quote(sys.executable)} -c {code}")
    assert (result.output, result.exit_code) == (PRINTED[name], 0)


@over(BOTH_WAYS)
def test_node_starts_a_program_and_waits_for_it(pairing: Pairing, share: Share) -> None:
    which("node")
    client = share(pairing, policy=WORKSPACE)
    code = 'process.stdout.write(require("child_process").execSync("echo hi").toString())'
    assert client.shell(f"node -e {shlex.quote(code)}").output == "hi\n"


@over(BOTH_WAYS)
def test_npm_runs_a_script(pairing: Pairing, share: Share, box: Box) -> None:
    which("npm")
    (box.ws / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"greet": "echo greeting | tr a-z A-Z"}}'
    )
    client = share(pairing, policy=WORKSPACE)
    result = client.shell("npm run --silent greet", timeout_ms=60_000)
    assert (result.exit_code, result.lines[-1:]) == (0, ["GREETING"])


@over(BOTH_WAYS)
def test_git_commits(pairing: Pairing, share: Share, box: Box) -> None:
    which("git")
    (box.ws / "file").write_text("text\n")
    client = share(pairing, policy=WORKSPACE)
    result = client.shell(
        "git init -q && git add file && git commit -q -m first && git switch -q -c side "
        "&& echo more >> file && git commit -q -a -m second && git log --format=%s"
    )
    assert (result.output, result.exit_code) == ("second\nfirst\n", 0)


@over(BOTH_WAYS)
def test_make_compiles_and_links_in_parallel(pairing: Pairing, share: Share, box: Box) -> None:
    which("make")
    which("gcc")
    (box.ws / "main.c").write_text(
        '#include <stdio.h>\nint twice(int);\nint main(void) { printf("%d\\n", twice(21)); }\n'
    )
    (box.ws / "twice.c").write_text("int twice(int n) { return 2 * n; }\n")
    (box.ws / "Makefile").write_text(
        "run: prog\n\t@./prog\nprog: main.o twice.o\n\tgcc -o $@ $^\n"
        "%.o: %.c\n\tgcc -pipe -c -o $@ $<\n"
    )
    client = share(pairing, policy=WORKSPACE)
    result = client.shell("make -s -j2", timeout_ms=60_000)
    assert (result.output, result.exit_code) == ("42\n", 0)


@over(BOTH_WAYS)
@pytest.mark.parametrize("options", ["--without-pip", ""], ids=["bare", "with-pip"])
def test_python_makes_a_virtual_environment(
    pairing: Pairing, options: str, share: Share, box: Box
) -> None:
    client = share(pairing, policy=WORKSPACE)
    what = "import sys; print(sys.prefix)"
    result = client.shell(
        f"{shlex.quote(sys.executable)} -m venv {options} env && env/bin/python -c '{what}'",
        timeout_ms=120_000,
    )
    assert (result.output, result.exit_code) == (f"{box.ws}/env\n", 0)
    assert (box.ws / "env" / "bin" / "pip").exists() == (not options)


@over(BOTH_WAYS)
def test_archives_and_searches(pairing: Pairing, share: Share, box: Box) -> None:
    if shutil.which("tar") is None:
        pytest.skip("tar is not installed")
    (box.ws / "src").mkdir()
    (box.ws / "src" / "a.txt").write_text("needle\n")
    client = share(pairing, policy=WORKSPACE)
    result = client.shell(
        "tar czf src.tgz src && mkdir copy && tar xzf src.tgz -C copy && chmod 700 copy "
        "&& find copy -name '*.txt' -print0 | xargs -0 grep -H needle && ln -s copy link "
        "&& cp -rp copy other && mv other moved && sed -i s/needle/pin/ moved/src/a.txt "
        "&& cat moved/src/a.txt"
    )
    assert (result.output, result.exit_code) == ("copy/src/a.txt:needle\npin\n", 0)
