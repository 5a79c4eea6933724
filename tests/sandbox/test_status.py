"""What is reported, per policy and kernel."""

import errno

import pytest

from codex_multitool.sandbox.policy import (
    DANGER_FULL_ACCESS,
    EXTERNAL_SANDBOX,
    READ_ONLY,
    WORKSPACE_WRITE,
    SandboxPolicy,
)
from codex_multitool.sandbox.status import (
    ABSENT,
    ENFORCED,
    PARTIAL,
    UNRESTRICTED,
    landlock_absent,
    status,
)

OFF = SandboxPolicy(WORKSPACE_WRITE)
ON = SandboxPolicy(WORKSPACE_WRITE, network_access=True)
MENDED = 0b111


def states(policy: SandboxPolicy, abi: int, *, filtered: bool = True) -> dict[str, str]:
    report = status(policy, abi=abi, errata=MENDED, filtered=filtered)
    named = {protection.name: protection.state for protection in report}
    assert len(named) == len(report)
    return named


LEVELS = [
    # ABI, file-writes, device-ioctls, signals, abstract-sockets with the network on
    (0, ABSENT, ABSENT, ABSENT, ABSENT),
    (1, ENFORCED, ABSENT, ABSENT, ABSENT),  # truncation is the filter's
    (2, ENFORCED, ABSENT, ABSENT, ABSENT),
    (3, ENFORCED, ABSENT, ABSENT, ABSENT),
    (4, ENFORCED, ABSENT, ABSENT, ABSENT),
    (5, ENFORCED, ENFORCED, ABSENT, ABSENT),
    *((abi, ENFORCED, ENFORCED, ENFORCED, ENFORCED) for abi in range(6, 12)),
]


@pytest.mark.parametrize(("abi", "writes", "ioctls", "signals", "abstract"), LEVELS)
def test_by_abi(abi: int, writes: str, ioctls: str, signals: str, abstract: str) -> None:
    for policy in (OFF, ON, SandboxPolicy(READ_ONLY)):
        found = states(policy, abi)
        assert found["file-writes"] == writes
        assert found["device-ioctls"] == ioctls
        assert found["signals"] == signals
        assert found["system-calls"] == ENFORCED
    assert states(ON, abi)["abstract-sockets"] == abstract
    assert states(OFF, abi)["abstract-sockets"] == ENFORCED  # connect(2) is refused
    assert states(OFF, abi)["network"] == states(OFF, abi)["unix-sockets"] == ENFORCED
    assert states(ON, abi)["network"] == states(ON, abi)["unix-sockets"] == UNRESTRICTED


def test_metadata_is_kept_under_read_only_alone() -> None:
    assert states(SandboxPolicy(READ_ONLY), 7)["file-metadata"] == ENFORCED
    assert states(SandboxPolicy(READ_ONLY), 7, filtered=False)["file-metadata"] == ABSENT
    assert states(OFF, 7)["file-metadata"] == ABSENT


@pytest.mark.parametrize(
    ("abi", "network", "unix"),
    [(0, ABSENT, ABSENT), (3, ABSENT, ABSENT), (4, PARTIAL, ABSENT), (10, PARTIAL, ENFORCED)],
)
def test_without_a_filter(abi: int, network: str, unix: str) -> None:
    found = states(OFF, abi, filtered=False)
    assert found["file-writes"] == (ENFORCED if abi else ABSENT)
    assert (found["network"], found["unix-sockets"]) == (network, unix)
    assert found["system-calls"] == ABSENT


@pytest.mark.parametrize("abi", [1, 2])
def test_without_a_filter_truncation_is_not_limited_before_abi_3(abi: int) -> None:
    assert states(OFF, abi, filtered=False)["file-writes"] == PARTIAL


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (errno.EOPNOTSUPP, "lsm="),
        (errno.ENOSYS, "5.13"),
        (errno.EPERM, "EPERM"),
        (9999, "9999"),
    ],
)
def test_why_there_is_no_landlock(error: int, why: str) -> None:
    assert why in ": ".join(landlock_absent(error))


def test_what_is_not_asked_for_is_unrestricted() -> None:
    assert set(states(SandboxPolicy(DANGER_FULL_ACCESS), 0, filtered=False).values()) == {
        UNRESTRICTED
    }
    external = states(SandboxPolicy(EXTERNAL_SANDBOX), 0)
    assert external["file-writes"] == external["signals"] == UNRESTRICTED
    assert external["network"] == external["unix-sockets"] == ENFORCED


def test_what_is_lacking_says_what_would_bring_it() -> None:
    for abi in range(10):
        for protection in status(ON, abi=abi, errata=MENDED, filtered=False):
            if protection.state in (ABSENT, PARTIAL) and protection.name != "system-calls":
                assert protection.detail, protection


@pytest.mark.parametrize(
    ("abi", "errata", "detail"),
    [
        (7, 0b111, None),
        (7, 0b101, "not mended: signals between threads"),
        (7, 0, "not mended: TCP sockets, signals between threads, moved directories"),
        (5, 0b101, None),
        (3, 0b100, None),
        (3, 0, "not mended: moved directories"),
        (7, None, None),
    ],
)
def test_errata(abi: int, errata: int | None, detail: str | None) -> None:
    report = status(OFF, abi=abi, errata=errata, filtered=True)
    found = [protection.detail for protection in report if protection.name == "errata"]
    assert found == ([] if detail is None else [detail])
