"""The rows of the table, their targets, and which of them are sampled together."""

from __future__ import annotations

from dataclasses import dataclass

from bench import samples
from bench.samples import Sample
from bench.subjects import (
    ASKED,
    DENIED,
    ESCALATED,
    FLOOR,
    FULL_ACCESS,
    JUDGED,
    LAUNCHED,
    ORIGINAL,
    OURS,
    READ_ONLY,
    SERVERS,
    WORKSPACE_WRITE,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. higher: whether more is better.

    target, wrapped_target: of our ratio to `base`. limit: of our value itself.
    """

    name: str
    unit: str
    what: str
    target: float | None = None
    wrapped_target: float | None = None
    limit: float | None = None
    higher: bool = False
    base: str = ORIGINAL


@dataclass(frozen=True, slots=True)
class Measure:
    """What is sampled together: its rows, the columns it has, and its share of the time.

    most: samples of each column, however much time there is. asked: only when it is asked for.
    """

    rows: tuple[Row, ...]
    sample: Sample
    columns: tuple[str, ...] = SERVERS
    share: float = 1.0
    most: int = 200
    asked: bool = False


def _at_once(name: str, what: str, target: float) -> Row:
    return Row(name, "calls/s", what, target=target, higher=True)


_WITH_FLOOR = (*SERVERS, FLOOR)
_PROGRAMS = (ORIGINAL, OURS, FLOOR)
_RUNS = 50
_TEN_EXECS = samples.loop(JUDGED, 10)

MEASURES: tuple[Measure, ...] = (
    Measure(
        (
            Row("start", "ms", "start to `initialize` answered", target=1.5, base=LAUNCHED),
            Row("start-tools", "ms", "start to `tools/list` answered", base=LAUNCHED),
        ),
        samples.start,
        (LAUNCHED, *_WITH_FLOOR),
        share=2,
    ),
    Measure(
        (Row("exec-cold", "ms", "`codex-multitool exec true`", limit=90),),
        samples.exec_cold,
        (OURS, FLOOR),
    ),
    Measure(
        (Row("sandbox-cold", "ms", "`codex-linux-sandbox -- /bin/true`", target=5),),
        samples.helper,
        _PROGRAMS,
    ),
    Measure(
        (Row("wrapper-cold", "ms", "`codex-execve-wrapper /bin/true`, told to run it"),),
        samples.wrapper,
        _PROGRAMS,
    ),
    Measure(
        (Row("call-read-only", "ms", "`shell` call of `:`, read-only", target=0.55),),
        samples.call("call-read-only", READ_ONLY),
        _WITH_FLOOR,
    ),
    Measure(
        (Row("call-workspace-write", "ms", "`shell` call of `:`, workspace-write", target=0.55),),
        samples.call("call-workspace-write", WORKSPACE_WRITE),
        _WITH_FLOOR,
    ),
    Measure(
        (Row("call-full-access", "ms", "`shell` call of `:`, danger-full-access", target=1.0),),
        samples.call("call-full-access", FULL_ACCESS),
        _WITH_FLOOR,
    ),
    Measure(
        (
            Row(
                "processor-read-only",
                "ms",
                "processor time of a call of `:`, read-only",
                target=0.55,
            ),
        ),
        samples.processor("processor-read-only", READ_ONLY),
        _WITH_FLOOR,
        share=2,
    ),
    Measure(
        (
            Row(
                "processor-full-access",
                "ms",
                "processor time of a call of `:`, full access",
                target=0.95,
            ),
        ),
        samples.processor("processor-full-access", FULL_ACCESS),
        _WITH_FLOOR,
        share=2,
    ),
    Measure(
        (
            Row("exec-added", "ms", "what judging adds to an exec, no rule matching", target=0.15),
            Row("exec-judged", "ms", "judged exec, whole", target=0.6, wrapped_target=1.0),
            Row("exec-processor", "ms", "processor time of a judged exec"),
        ),
        samples.judged,
        _WITH_FLOOR,
        share=4,
    ),
    Measure(
        (Row("exec-escalated", "ms", "exec an allow rule takes outside, whole", target=0.8),),
        samples.decided("exec-escalated", ESCALATED, _RUNS),
        share=1.5,
    ),
    Measure(
        (Row("exec-denied", "ms", "exec a rule forbids, whole", target=0.5),),
        samples.decided("exec-denied", DENIED, _RUNS, "Execution denied"),
        share=1.5,
    ),
    Measure(
        (Row("exec-asked", "ms", "exec asked about and accepted, whole", target=1.0),),
        samples.decided("exec-asked", ASKED, _RUNS),
        share=1.5,
    ),
    Measure(
        (_at_once("at-once", "16 calls of `:` at once, read-only", 2.0),),
        samples.at_once("at-once", ":", 16),
    ),
    Measure(
        (_at_once("at-once-full-access", "16 calls of `:` at once, full access", 1.1),),
        samples.at_once("at-once-full-access", ":", 16, FULL_ACCESS),
    ),
    Measure(
        (_at_once("at-once-64", "64 calls of `:` at once, read-only", 2.0),),
        samples.at_once("at-once-64", ":", 64),
    ),
    Measure(
        (_at_once("at-once-execs", "16 calls at once, each 10 times `/bin/true`", 1.6),),
        samples.at_once("at-once-execs", _TEN_EXECS, 16),
        share=2,
    ),
    Measure(
        (Row("output", "MB/s", "64 MiB of output", target=1.5, higher=True),),
        samples.output,
        share=1.5,
    ),
    Measure(
        (Row("opens", "times", "slowdown of 20,000 opens by the shell", limit=1.22),),
        samples.opens,
        share=2,
    ),
    Measure(
        (
            Row("memory-idle", "MiB", "proportional memory, idle, all processes", limit=30),
            Row("memory-idle-resident", "MiB", "resident memory, idle"),
            Row("memory-used", "MiB", "proportional memory after 1000 calls"),
            Row("memory-used-resident", "MiB", "resident memory after 1000 calls"),
        ),
        samples.memory,
        (LAUNCHED, *SERVERS),
        share=2,
        most=1,
    ),
    Measure(
        (Row("spawn", "ms", "`posix_spawn` of `/bin/true`"),), samples.spawn, (FLOOR,), share=0.5
    ),
    Measure(
        (Row("git", "s", "40 of git's own tests, processor time", target=1.2, base=FLOOR),),
        samples.git,
        _PROGRAMS,
        most=5,
        asked=True,
    ),
)
