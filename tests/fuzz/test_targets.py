"""What `make fuzz` does for hours, done for some inputs: parsed or a typed error, nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import tracees, trees
from fuzz.seeds import SEEDS, large, loaders
from fuzz.targets import TARGETS
from fuzz.words import WORDS

_EXAMPLES = 150
_SLOW_EXAMPLES = 15


@pytest.fixture(scope="module", autouse=True)
def _clean() -> Iterator[None]:
    yield
    tracees.close()
    trees.close()


def test_every_target_has_seeds() -> None:
    assert SEEDS.keys() == TARGETS.keys()
    assert WORDS.keys() <= TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_seeds(name: str) -> None:
    for data in (b"", *SEEDS[name], *large(name), *loaders()):
        TARGETS[name].run(data)


def _edited(name: str) -> st.SearchStrategy[bytes]:
    """A seed of the target in which some bytes were exchanged for words or for other bytes."""
    put = st.binary(max_size=4) | st.sampled_from(WORDS.get(name, (b"\0",)))
    edits = st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 8), put), max_size=6)

    def edit(seed: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
        for place, cut, new in changes:
            at = place % (len(seed) + 1)
            seed = seed[:at] + new + seed[at + cut :]
        return seed

    return st.builds(edit, st.sampled_from(SEEDS[name]), edits)


@pytest.mark.parametrize("name", TARGETS)
def test_edited_seeds_and_any_bytes(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=_SLOW_EXAMPLES if target.slow else _EXAMPLES,
        derandomize=True,
        database=None,
    )
    @given(_edited(name) | st.binary(max_size=200))
    def holds(data: bytes) -> None:
        target.run(data)

    holds()


def test_a_link_does_not_lead_the_fuzzer_out_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.close()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    link_and_file_through_it = b"\0\2../..\0\0\1\1written"
    trees.protected_names(link_and_file_through_it)
    (ground,) = tmp_path.iterdir()
    assert (ground / "tree/.git").is_symlink()
    assert ground.name.startswith("fuzz-")
    trees.close()
    assert list(tmp_path.iterdir()) == []
