"""The rules' engine, begun early: it is loaded while what else is needed is loaded, too."""

import os

from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home
from codex_multitool.execpolicy.engine_process import Engine


def begin() -> Engine | None:
    """An engine for `choice.load_rules`, if there seem to be rules. To be asked or closed."""
    try:
        names = os.listdir(os.path.join(codex_home(os.environ), "rules"))
    except (ConfigError, OSError):
        return None  # whoever reads them says so, unless there are none
    return Engine() if any(name.endswith(".rules") for name in names) else None
