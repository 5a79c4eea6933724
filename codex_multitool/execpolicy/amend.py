"""Adds an allow rule to the end of a rules file, for good.

The file's own advisory lock (flock(2)) orders writers; the rule goes out in one write, and
what a failing write left is cut off again. A rule that would not be read back as meant is
never written.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Sequence

from codex_multitool.execpolicy.engine_process import evaluate_all
from codex_multitool.execpolicy.parser import EVALUATION_SECONDS, Source, parse
from codex_multitool.execpolicy.rules import Decision, RulesError

_LOCK_SECONDS = 10.0
_LOCK_RETRY_SECONDS = 0.02


class AmendError(Exception):
    """The rule was not written; the text says why."""


def append_allow_rule(path: str, prefix: Sequence[str]) -> bool:
    """Append `prefix_rule(pattern=[...], decision="allow")` to the file at `path`.

    Creates the file, and its folder one level deep. Returns False if the same line is there
    already. Raises AmendError; the file is then as it was.
    """
    rule = _rule(prefix)
    folder = os.path.dirname(path)
    if not os.path.basename(path):
        raise AmendError(f"policy path has no parent: {path}")
    try:
        os.mkdir(folder or ".", 0o755)
    except FileExistsError:
        pass
    except OSError as error:
        raise AmendError(f"failed to create policy directory {folder}: {error.strerror}") from error
    while True:
        try:
            policy_file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise AmendError(f"failed to open policy file {path}: {error.strerror}") from error
        try:
            if not stat.S_ISREG(os.fstat(policy_file).st_mode):
                raise AmendError(f"failed to open policy file {path}: not a regular file")
            lock(policy_file, path)
            if is_at(policy_file, path):
                return _append(policy_file, path, rule, prefix)
        finally:
            os.close(policy_file)


def _rule(prefix: Sequence[str]) -> str:
    """The line for `prefix`, proven to mean just that."""
    if not prefix:
        raise AmendError("prefix rule requires at least one token")
    tokens = ", ".join(json.dumps(token, ensure_ascii=False) for token in prefix)
    line = f'prefix_rule(pattern=[{tokens}], decision="allow")'
    try:
        policy = parse([Source("the new rule", line)])
    except RulesError as error:
        raise AmendError(f"failed to format prefix tokens: {error.what}") from error
    meant = tuple((token,) for token in prefix)
    read_back = [(rule.pattern, rule.decision) for rule in policy.rules.get(prefix[0], ())]
    if read_back != [(meant, Decision.ALLOW)]:
        raise AmendError(f"failed to format prefix tokens: {line} reads back differently")
    return line


def is_at(policy_file: int, path: str) -> bool:
    """Whether the file is still there: who held the lock may have put another in its place."""
    try:
        return os.path.samestat(os.fstat(policy_file), os.stat(path))
    except FileNotFoundError:
        return False


def lock(policy_file: int, path: str) -> None:
    """Wait for the exclusive lock, but not for ever: its holder may hang. Raises AmendError.

    Closing the file gives it up.
    """
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(policy_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise AmendError(
                    f"failed to lock policy file {path}: held for over {_LOCK_SECONDS:g} s"
                ) from None
            time.sleep(_LOCK_RETRY_SECONDS)
        except OSError as error:
            raise AmendError(f"failed to lock policy file {path}: {error.strerror}") from error
        else:
            return


def _append(policy_file: int, path: str, rule: str, prefix: Sequence[str]) -> bool:
    try:
        size = os.fstat(policy_file).st_size
        content = _read(policy_file)
    except OSError as error:
        raise AmendError(f"failed to read policy file {path}: {error.strerror}") from error
    line = rule.encode()
    if line in content.split(b"\n"):
        return False
    addition = (b"" if not content or content.endswith(b"\n") else b"\n") + line + b"\n"
    _require_readable(content, addition, path, prefix)
    try:
        if os.write(policy_file, addition) < len(addition):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(policy_file)
    except OSError as error:
        os.ftruncate(policy_file, size)
        raise AmendError(f"failed to write to policy file {path}: {error.strerror}") from error
    return True


def _read(policy_file: int) -> bytes:
    parts: list[bytes] = []
    while part := os.pread(policy_file, 1 << 16, sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)


def _require_readable(content: bytes, addition: bytes, path: str, prefix: Sequence[str]) -> None:
    """Refuse a file that is broken, or whose end would make something else of the new line.

    Examples are not tested here: they may need host executables of other files.
    """
    try:
        text = (content + addition).decode()
    except UnicodeDecodeError as error:
        raise AmendError(f"policy file {path} is not UTF-8; mend it first") from error
    (evaluation,) = evaluate_all([text], seconds=EVALUATION_SECONDS)
    if evaluation.failure is not None:
        line = evaluation.failure.line
        where = path if line is None else f"{path}:{line}"
        raise AmendError(f"mend the policy file first: {where}: {evaluation.failure.message}")
    last = evaluation.calls[-1].arguments if evaluation.calls else {}
    if last.get("pattern") != list(prefix) or last.get("decision") != "allow":
        raise AmendError(f"the end of policy file {path} hides a rule put after it")
