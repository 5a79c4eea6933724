"""The shells there are to run commands with, and standard descriptors fit for them."""

import os

_STOCK = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")


def stock_shell() -> str:
    """The system's bash; without one, its sh."""
    return next(filter(os.path.exists, _STOCK), _STOCK[-1])


def patched_shell() -> str | None:
    """The patched bash that `make shells` built, if it did."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.environ.get("CODEX_MULTITOOL_CACHE") or os.path.join(cache, "codex-multitool")
    shell = os.path.join(folder, "shells", "bash")
    return shell if os.path.exists(shell) else None


def unusable(path: str) -> str | None:
    """Why `path` cannot be executed; None if it can."""
    if not os.path.isfile(path):
        return "no such file"
    return None if os.access(path, os.X_OK) else "not executable"


def open_standard_descriptors() -> None:
    """Open /dev/null where 0, 1 or 2 is closed: the first thing opened would take its place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
