"""The settings a document states, checked — pure.

The file is Codex's: what is not named here is for others and passes, unless its name is nearly one
of ours. In a table that is named, a key that is not is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from codex_multitool.config.documents import Document
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.toml_places import Path
from codex_multitool.config.values import (
    Base,
    Check,
    WrongValueError,
    array,
    beginning,
    boolean,
    choice,
    count,
    descriptors,
    limit,
    marker,
    named,
    output_size,
    path,
    pattern,
    program,
    seconds,
    size,
    variable,
    variable_value,
)
from codex_multitool.spelling import did_you_mean, nearest

OURS = "codex_multitool"
ENVIRONMENT = "shell_environment_policy"
WORKSPACE = "sandbox_workspace_write"
PROJECTS = "projects"
MARKERS = "project_root_markers"
FILTERS = (ENVIRONMENT, "filters")
VARIABLES = (ENVIRONMENT, "set")
KEPT_BY_PROGRAM = (OURS, "keep_environment_of")


class Table(NamedTuple):
    """members: the keys that mean something. others: what any other key means, if anything.

    key: checks such another key and gives its one form. open: other keys are not ours to judge.
    """

    members: Mapping[str, Check | Table] = MappingProxyType({})
    others: Check | Table | None = None
    key: Callable[[str], str] = str
    open: bool = False


def _filter(text: str) -> str:
    return variable(text).lower()


SETTINGS = Table(
    {
        "sandbox_mode": choice("read-only", "workspace-write", "danger-full-access"),
        WORKSPACE: Table(
            {
                "writable_roots": array(path),
                "network_access": boolean,
                "exclude_tmpdir_env_var": boolean,
                "exclude_slash_tmp": boolean,
            }
        ),
        ENVIRONMENT: Table(
            {
                "inherit": choice("all", "core", "none"),
                "ignore_default_excludes": boolean,
                "exclude": array(pattern),
                "set": Table(others=variable_value, key=variable),
                "include_only": array(pattern),
                "filters": Table(others=choice("include", "exclude"), key=_filter),
                "experimental_use_profile": boolean,
            }
        ),
        PROJECTS: Table(others=Table({"trust_level": choice("trusted", "untrusted")}, open=True)),
        MARKERS: array(marker),
        OURS: Table(
            {
                "intercept": choice("auto", "kernel", "wrapper"),
                "shell": path,
                "rules": array(path),
                "approval_timeout": seconds,
                "dangerous_commands": choice("ask", "run"),
                "protect": choice("check", "namespace"),
                "keep_environment": array(beginning),
                "keep_environment_of": Table(others=array(beginning), key=program),
                "drop_environment": array(beginning),
                "max_memory": limit(size),
                "max_processes": limit(count),
                "max_cpu_seconds": limit(count),
                "max_file_size": limit(size),
                "max_open_files": limit(descriptors),
                "max_output": output_size,
                "result": choice("auto", "text", "json"),
            }
        ),
    },
    open=True,
)

# Without these less is held to than the user wanted; without the others more.
_PROTECTION = ("sandbox_mode", WORKSPACE, ENVIRONMENT, OURS)
_PART = 8  # letters of a name of ours that nobody else's begins or ends with

# Those with a name that nothing else has, for who forgot the table's.
_LIVES_IN = {
    name: table
    for table in (OURS, WORKSPACE)
    if isinstance(found := SETTINGS.members[table], Table)
    for name in found.members
    if "_" in name
}

Key = tuple[str, ...]


class Stated(NamedTuple):
    """A setting's value, and the document that states it."""

    value: object
    document: Document
    path: Path

    @property
    def where(self) -> str:
        """`path:line:column`, or the override."""
        return self.document.where(self.path)


Statements = Mapping[Key, Stated]


def statements(
    document: Document, home: str | None, tell: Callable[[str], object] = str
) -> dict[Key, Stated]:
    """What a document states of SETTINGS; raises ConfigError.

    home: what `~` stands for. tell: takes what the user should know of it.
    """
    found: dict[Key, Stated] = {}
    reader = _Reader(document, Base(document.folder, home), tell)
    for key, stated in reader.table(SETTINGS, document.values, (), ()):
        if key in found:
            raise ConfigError(
                f"duplicate shell environment filter `{stated.path[-1]}` ignoring case",
                f"{found[key].where} has the same: remove one of them",
                where=stated.where,
            )
        found[key] = stated
    _one_way_of_filtering(found)
    return found


class _Reader:
    def __init__(self, document: Document, base: Base, tell: Callable[[str], object]) -> None:
        self._document = document
        self._base = base
        self._tell = tell

    def table(
        self, table: Table, values: Mapping[str, object], key: Key, path: Path
    ) -> Iterator[tuple[Key, Stated]]:
        """The settings of a table. path: where it stands; key: the same in its one form."""
        for name, value in values.items():
            here = (*path, name)
            member, part = self._member(table, name, here)
            if isinstance(member, Table):
                if not isinstance(value, dict):
                    what = f"must be a table, not {named(value)}"
                    mend = f"write [{dotted(here)}], and its keys below"
                    raise self._error(here, WrongValueError(what, mend))
                yield from self.table(member, value, (*key, part), here)
            elif member is not None:
                try:
                    checked = member(value, self._base)
                except WrongValueError as error:
                    raise self._error(here, error) from None
                yield (*key, part), Stated(checked, self._document, here)

    def _member(self, table: Table, name: str, here: Path) -> tuple[Check | Table | None, str]:
        """What a key of a table means, and the key in its one form."""
        if name in table.members:
            return table.members[name], name
        try:
            if table.others is not None:
                return table.others, table.key(name)
            if not table.open:
                what = f"[{dotted(here[:-1])}] has these: {', '.join(table.members)}"
                raise WrongValueError(f"unknown key{did_you_mean(name, table.members)}", what)
            self._look_at_stranger(table, name, here)
        except WrongValueError as error:
            raise self._error(here, error, value=False) from None
        return None, name

    def _look_at_stranger(self, table: Table, name: str, here: Path) -> None:
        """A key that may be somebody else's, or a slip. Raises WrongValueError."""
        meant = nearest(name, table.members, part=_PART)
        if len(here) == 1 and name in _LIVES_IN:
            raise WrongValueError(
                "unknown key", f"it is one of [{_LIVES_IN[name]}]: write it below that line"
            )
        if meant in _PROTECTION:
            raise WrongValueError(
                f"unknown key; did you mean `{meant}`?", "as it stands, it protects nothing"
            )
        if meant is not None:
            where = self._document.where(here)
            self._tell(f"{where}: `{dotted(here)}` has no effect; did you mean `{meant}`?")

    def _error(self, here: Path, error: WrongValueError, *, value: bool = True) -> ConfigError:
        where = self._document.where((*here, *error.at), value=value)
        return ConfigError(f"`{dotted(here)}`: {error.what}", error.mend, where=where)


def dotted(path: Path) -> str:
    """A path as TOML writes it."""
    return ".".join(_part(str(key)) for key in path)


def _part(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _one_way_of_filtering(found: Statements) -> None:
    legacy = [(ENVIRONMENT, name) for name in ("exclude", "include_only")]
    for key, stated in found.items():
        if key[:-1] == FILTERS and any(other in found for other in legacy):
            raise ConfigError(
                "cannot mix `filters` with legacy `exclude` or `include_only`",
                'turn each pattern of the lists into PATTERN = "exclude" or "include" in [filters]',
                where=stated.where,
            )


def merged(layers: Iterable[Statements]) -> dict[Key, Stated]:
    """The settings of all layers, low to high: the highest layer that states one has it.

    A layer that filters the environment in one way puts away what a lower one said in the other.
    """
    found: dict[Key, Stated] = {}
    for layer in layers:
        if any(key[:-1] == FILTERS for key in layer):
            put_away = {(ENVIRONMENT, "exclude"), (ENVIRONMENT, "include_only")}
            found = {key: stated for key, stated in found.items() if key not in put_away}
        elif (ENVIRONMENT, "exclude") in layer or (ENVIRONMENT, "include_only") in layer:
            found = {key: stated for key, stated in found.items() if key[:-1] != FILTERS}
        found |= layer
    return found
