"""One target under libFuzzer, in a process of its own: `python -m fuzz.one NAME [OPTION...]`.

The options are libFuzzer's. A file among them is run once: that is how a finding is seen again.
"""

from __future__ import annotations

import signal
import sys


def main(arguments: list[str]) -> None:
    """Fuzz until libFuzzer ends the process."""
    import atheris

    # The standard library's readers do half of the work, so they are watched, too.
    with atheris.instrument_imports(include=["codex_multitool", "tomllib", "json", "shlex"]):
        from fuzz.targets import TARGETS

    target = TARGETS[arguments[1]]
    # Its child ends by signals of its own, not by libFuzzer's handlers for ours.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    atheris.Setup([arguments[0], f"-max_len={target.most}", *arguments[2:]], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
