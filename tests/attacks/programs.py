"""The attacks' own programs, built from C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SOURCES = Path(__file__).with_name("sources")
_BARE = ("-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector")
_SHARED = ("-shared", "-fPIC")


class Unavailable(Exception):  # noqa: N818 - the reason for a skip, not a fault
    """They cannot be built here; the text says why."""


def build(folder: Path) -> None:
    """Build all of them into `folder`."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise Unavailable("no C compiler")

    def compile_(source: str, name: str, *options: str) -> None:
        files = ["-o", str(folder / name), str(_SOURCES / source)]
        subprocess.run([gcc, "-O1", "-w", *files, *options], check=True)

    compile_("victim.c", "victim")
    compile_("load.c", "load")
    compile_("ring.c", "ring")
    compile_("race.c", "race", "-pthread")
    compile_("lone.c", "lone", "-pthread")
    compile_("foreign.c", "foreign")
    compile_("flood.c", "flood")
    compile_("strict.c", "strict", *_BARE)
    for name, leads in (("led", "./interp"), ("led-absolute", "/proc/self/cwd/interp")):
        compile_("led.c", name, "-pie", "-nostdlib", f"-Wl,--dynamic-linker={leads}")
    compile_("evil.c", "evil.so", *_SHARED)
    compile_("helper.c", "libhelper.so", *_SHARED)
    compile_("sign.c", "sign", f"-L{folder}", "-lhelper", f"-Wl,-rpath,{folder}")
