"""Where `codex-multitool exec` is tried: a user's home and workspace."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from codex_multitool import roles
from tests.cli.terminal import DEADLINE, Terminal
from tests.end_to_end.processes import MARK
from tests.executables import built

QUESTION = "/N] > "


@dataclass(frozen=True)
class Ground:
    """A user's home and workspace, outside /tmp."""

    folder: Path
    mark: str

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def rules(self, text: str) -> None:
        (self.home / "rules").mkdir(exist_ok=True)
        (self.home / "rules" / "mine.rules").write_text(text)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CODEX_BASH_PATH")}
        return {**kept, "CODEX_HOME": str(self.home), MARK: self.mark, "TERM": "xterm", **more}

    def run(
        self, *words: str, typed: str = "", pass_fds: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run it without a terminal."""
        return subprocess.run(
            [built() / roles.CLI, "exec", *words],
            cwd=self.workspace,
            env=self.environment(),
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
            start_new_session=True,
            pass_fds=pass_fds,
        )

    def terminal(self, *words: str, **more: str) -> Terminal:
        return Terminal(
            [built() / roles.CLI, "exec", *words], self.environment(**more), self.workspace
        )
