"""The agents that are driven: how each is set up without a login, and started.

Everything they would say home is switched off, and any way out but loopback leads to a closed port.
What `mcp-config` writes comes on top of what stands here.
"""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests import peer

PROMPT = "go on"
KEY = "sk-on-loopback-there-is-nobody-to-pay"
_NOWHERE = "http://127.0.0.1:9"  # discard: nothing listens


@dataclass(frozen=True, slots=True)
class Home:
    """A home directory for an agent, its project, and the model it is to ask."""

    folder: Path
    project: Path
    model: str

    def write(self, name: str, text: str) -> None:
        """A file below the home directory."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def environ(self, **more: str) -> dict[str, str]:
        """What an agent is started with."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            **more,
        }


class Way(enum.Enum):
    """How an agent is used."""

    TERMINAL = "in a terminal"
    HEADLESS = "headless"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Dialog:
    """How a terminal asks a question: what is on the screen then, and how it is answered.

    deny: a key, and what is on the screen when it has chosen Deny, for Enter to confirm. deaf: for
    how many seconds an answer is overlooked; one that comes too early all the same is given again.
    """

    shown: str
    deny: tuple[str, str]
    deaf: float = 0.0


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent in one version."""

    name: str
    version: str
    config: str  # what `mcp-config` calls it
    install: Callable[[], list[str]]  # gives the command line
    set_up: Callable[[Home], dict[str, str]]  # writes its own files, gives its variables
    headless: tuple[str, ...]  # before the prompt
    dialog: Dialog | None = None  # how its terminal asks; None: it has none, or is not driven there

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def _codex(home: Home) -> dict[str, str]:
    home.write(
        ".codex/config.toml",
        'model = "m"\nmodel_provider = "here"\nsandbox_mode = "workspace-write"\n'
        'approval_policy = "on-request"\ncheck_for_update_on_startup = false\n\n'
        "[analytics]\nenabled = false\n\n"
        "[features]\ndaemon_auto_start = false\nshell_snapshot = false\n\n"
        f'[projects."{home.project}"]\ntrust_level = "trusted"\n\n'
        f'[model_providers.here]\nname = "here"\nbase_url = "{home.model}/v1"\n'
        'wire_api = "responses"\n',
    )
    return {}


def _claude(home: Home) -> dict[str, str]:
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(home.project): {"hasTrustDialogAccepted": True}},
    }
    home.write(".claude.json", json.dumps(known))
    home.write(".codex/config.toml", 'sandbox_mode = "workspace-write"\n')
    return {
        "ANTHROPIC_BASE_URL": home.model,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _gemini(home: Home) -> dict[str, str]:
    settings = {
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    home.write(".gemini/settings.json", json.dumps(settings))
    home.write(".codex/config.toml", 'sandbox_mode = "workspace-write"\n')
    return {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": home.model,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_FORCE_FILE_STORAGE": "true",
    }


def _opencode(home: Home) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{home.model}/v1", "apiKey": KEY},
        "models": {"m": {"tool_call": True, "limit": {"context": 200_000, "output": 8_000}}},
    }
    settings = {"model": "here/m", "small_model": "here/m", "provider": {"here": provider}}
    home.write(".config/opencode/opencode.json", json.dumps(settings))
    home.write(".codex/config.toml", 'sandbox_mode = "workspace-write"\n')
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE")
    return {f"OPENCODE_DISABLE_{it}": "1" for it in off}


def _codex_agent(version: str, dialog: Dialog) -> Agent:
    return Agent(
        "Codex",
        version,
        "codex",
        lambda: [str(peer.codex(version))],
        _codex,
        headless=("exec", "--skip-git-repo-check"),
        dialog=dialog,
    )


CODEX = _codex_agent(peer.CODEX_VERSION, Dialog("1. Allow", deny=("Down", "> 2. Deny")))
CODEX_FIRST = _codex_agent(
    peer.ORIGINAL_VERSION, Dialog("Yes, provide the requested info", deny=("Down", "> 2. No"))
)
CLAUDE = Agent(
    "Claude Code",
    peer.CLAUDE_VERSION,
    "claude",
    lambda: [str(peer.claude())],
    _claude,
    headless=("-p",),
    dialog=Dialog("requests your input", deny=("Right", "> Decline"), deaf=0.5),
)
GEMINI = Agent(
    "Gemini CLI",
    peer.GEMINI_VERSION,
    "gemini",
    peer.gemini,
    _gemini,
    headless=("--model", "gemini-2.5-flash", "-p"),
)
OPENCODE = Agent(
    "opencode",
    peer.OPENCODE_VERSION,
    "opencode",
    lambda: [str(peer.opencode())],
    _opencode,
    headless=("run",),
)
AGENTS = (CODEX, CODEX_FIRST, CLAUDE, GEMINI, OPENCODE)
