"""A machine's files: the system's, a user's and a project's, in one temporary folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from codex_multitool.config.configuration import Config
from codex_multitool.config.layers import load


@dataclass(frozen=True, slots=True)
class Machine:
    """Where configuration lies. The project is a git repository."""

    root: Path

    @property
    def system(self) -> Path:
        return self.root / "etc" / "config.toml"

    @property
    def home(self) -> Path:
        """CODEX_HOME."""
        return self.root / "home" / ".codex"

    @property
    def project(self) -> Path:
        return self.root / "project"

    def environ(self) -> Mapping[str, str]:
        return {"CODEX_HOME": str(self.home), "HOME": str(self.home.parent)}

    def write_system(self, text: str) -> None:
        self.system.write_text(text)

    def write_user(self, text: str) -> None:
        (self.home / "config.toml").write_text(text)

    def write_project(self, text: str, folder: str = ".") -> Path:
        """Write the file of the project, or of a folder in it."""
        path = self.project / folder / ".codex" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def trust(self, folder: Path | str = "", level: str = "trusted") -> str:
        """What a user's file says of a folder, the project's unless told."""
        return f'[projects."{folder or self.project}"]\ntrust_level = "{level}"\n'

    def load(self, cwd: Path | None = None, overrides: Sequence[str] = ()) -> Config:
        """Load it for a working directory, for no project if there is none."""
        return load(
            self.environ(),
            None if cwd is None else str(cwd),
            overrides,
            system=str(self.system),
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path.resolve())
    for folder in (machine.system.parent, machine.home, machine.project / ".git"):
        folder.mkdir(parents=True)
    return machine
