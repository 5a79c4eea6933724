"""Every attack of the catalogue on our server in both modes; and without any protection, where it
has to succeed, or nothing would be shown by its failure."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attacks.attack import REFUSAL, Attack
from tests.attacks.catalogue.all import CLASSES
from tests.attacks.conftest import served
from tests.attacks.target import Bare, Served, Target, failures, needed, succeeded
from tests.sandbox.confined import landlock_abi

ATTACKS = [attack for found in CLASSES for attack in found.attacks]

Get = Callable[[str], Target]


@pytest.fixture(scope="module")
def get(built: Path) -> Iterator[Get]:
    """A target by its name, started when the first attack comes."""
    targets: dict[str, Target] = {}
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:

        def target(name: str) -> Target:
            if name not in targets:
                root = Path(folder).resolve() / name
                targets[name] = Bare(root, built) if name == "bare" else served(name, root, built)
            return targets[name]

        yield target
        for started in targets.values():
            started.close()


def _cases(mode: str) -> list[object]:
    """The attacks that matter in this mode; those that are known to succeed must do so."""
    return [
        pytest.param(
            attack,
            id=attack.name,
            marks=[pytest.mark.xfail(strict=True, reason=attack.open)] if attack.open else [],
        )
        for attack in ATTACKS
        if getattr(attack, mode) is not None
    ]


def test_attacks_have_names_of_their_own() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)
    assert len(names) >= 80


@pytest.mark.parametrize("mode", ["kernel", "wrapper"])
def test_every_attack_has_to_be_told_of(mode: str) -> None:
    """That nothing happened outside is not enough: a decision, a note or a refusal must say so."""
    silent = [
        attack.name
        for attack in ATTACKS
        if (it := getattr(attack, mode)) is not None and not (it.decision or it.note or it.output)
    ]
    assert silent == []


@pytest.mark.parametrize(
    "attack", [pytest.param(attack, id=attack.name) for attack in ATTACKS if attack.bare]
)
def test_without_protection(attack: Attack, get: Get) -> None:
    target = get("bare")
    _skip_without_needs(attack)
    ground = target.ground(attack)
    try:
        report = target.run(attack, ground)
        if not succeeded(ground) and re.search(REFUSAL, report.output):
            pytest.skip(f"this machine refuses it to everybody: {report.output}")
        assert succeeded(ground), report.output
    finally:
        ground.close()


@pytest.mark.parametrize("attack", _cases("kernel"))
def test_kernel_mode(attack: Attack, get: Get) -> None:
    _attack(attack, get, "kernel")


@pytest.mark.parametrize("attack", _cases("wrapper"))
def test_wrapper_mode(attack: Attack, get: Get) -> None:
    _attack(attack, get, "wrapper")


def _attack(attack: Attack, get: Get, mode: str) -> None:
    target = get(mode)
    assert isinstance(target, Served)
    _skip_without_needs(attack)
    if landlock_abi() < attack.abi:
        pytest.skip(f"nothing stops it before Landlock ABI {attack.abi}")
    ground = target.ground(attack)
    try:
        report = target.run(attack, ground)
        assert target.client.request("ping") == {}
        assert failures(getattr(attack, mode), report, ground) == [], report
    finally:
        ground.close()


def _skip_without_needs(attack: Attack) -> None:
    missing = needed(attack)
    if missing is not None:
        pytest.skip(missing)
