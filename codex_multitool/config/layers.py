"""The configuration of this machine, this user and this project, from its files.

Low to high: the system's file, the user's, those of a trusted project from its root down to the
working directory, the command line. Which project is trusted, and where its root is, all but the
project's own files say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from codex_multitool.config import files
from codex_multitool.config.configuration import Config, Layer, configuration
from codex_multitool.config.documents import file_document, override_document
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.home import codex_home, user_home
from codex_multitool.config.project import find_project
from codex_multitool.config.project_limits import hold
from codex_multitool.config.settings import (
    ENVIRONMENT,
    MARKERS,
    PROJECTS,
    Statements,
    dotted,
    merged,
    statements,
)
from codex_multitool.config.utf8 import NotUTF8Error, decode

SYSTEM_FILE = "/etc/codex/config.toml"
_FILE = "config.toml"
_FOLDER = ".codex"
# What an administrator imposes on Codex has no effect here, and that must not go unsaid.
_IMPOSED = ("requirements.toml", "managed_config.toml")


def load(
    environ: Mapping[str, str],
    cwd: str | None,
    overrides: Sequence[str] = (),
    *,
    system: str = SYSTEM_FILE,
) -> Config:
    """The configuration for commands in `cwd`; raises ConfigError.

    cwd: None for no project. overrides: `key=value` each, low to high.
    """
    home = codex_home(environ)
    stack = _Stack(_tilde(environ))
    lower = [stack.file(system), stack.file(os.path.join(home, _FILE))]
    session = [stack.override(text, os.path.abspath(cwd or ".")) for text in overrides]
    without = merged([*lower, *session])
    projects = [] if cwd is None else stack.projects(cwd, home, without)
    found = merged([*lower, *projects, *session])
    warnings = [*_imposed(os.path.dirname(system)), *stack.warnings, *_without_effect(found)]
    layers = [*stack.layers, *(Layer(f"-c {text}") for text in overrides)]
    config = configuration(found, layers, warnings)
    users = configuration(without)
    hold(users, config, projects)
    return config._replace(users_variables=users.environment.set)


class _Stack:
    """Reads layers, and keeps account of them. tilde: the user's home."""

    def __init__(self, tilde: str | None) -> None:
        self.layers: list[Layer] = []
        self.warnings: list[str] = []
        self._tilde = tilde

    def file(self, path: str) -> Statements:
        """What a file states; nothing if there is no such file."""
        content = files.read(path, "config file")
        if content is None:
            return {}
        self.layers.append(Layer(path))
        try:
            text = decode(content.removeprefix(b"\xef\xbb\xbf"))
        except NotUTF8Error as error:
            where = f"{path}:{error.line}:{error.column}"
            raise ConfigError(str(error), "save the file as UTF-8", where=where) from None
        folder = os.path.dirname(os.path.abspath(path))
        return statements(file_document(path, folder, text), self._tilde, self.warnings.append)

    def override(self, text: str, folder: str) -> Statements:
        """What one override states."""
        document = override_document(text, folder)
        told = len(self.warnings)
        found = statements(document, self._tilde, self.warnings.append)
        if not found and len(self.warnings) == told:
            self.warnings.append(f"{document.name}: this is no setting of ours: it has no effect")
        return found

    def projects(self, cwd: str, home: str, stated: Statements) -> list[Statements]:
        """What the files of a trusted project state, from its root downwards."""
        project = find_project(cwd, stated)
        own = os.path.realpath(home)
        found = []
        for folder in project.folders:
            place = os.path.join(folder, _FOLDER)
            path = os.path.join(place, _FILE)
            if os.path.realpath(place) == own or not os.path.lexists(path):
                continue
            distrust = project.distrust(folder, os.path.join(home, _FILE))
            if distrust is not None:
                self.layers.append(Layer(path, distrust))
                self.warnings.append(f"{path} is not read. {distrust}")
                continue
            layer = self.file(path)
            found.append(layer)
            self._not_for_projects(layer)
        return found

    def _not_for_projects(self, layer: Statements) -> None:
        for key, stated in layer.items():
            if key[0] in (MARKERS, PROJECTS):
                self.warnings.append(
                    f"{stated.where}: `{dotted(stated.path)}` has no effect in a project's file"
                )


def _tilde(environ: Mapping[str, str]) -> str | None:
    try:
        home = user_home(environ)
    except ConfigError:
        return None
    return home if os.path.isabs(home) else None


def _imposed(folder: str) -> Iterator[str]:
    for name in _IMPOSED:
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            yield f"{path} is not read: what it imposes on Codex is not imposed here"


def _without_effect(found: Statements) -> Iterator[str]:
    profile = found.get((ENVIRONMENT, "experimental_use_profile"))
    if profile is not None and profile.value:
        yield (
            f"{profile.where}: `{dotted(profile.path)}` has no effect: each call says by `login` "
            "whether the shell reads the user's profile"
        )
