"""Fetch a Debian source package with apt, leaving the system's apt configuration alone.

The deb-src entries are derived from the deb entries the machine is configured with, so the same
mirrors and keys are used; lists, caches and downloads live in a folder of the caller's. No
privilege is needed.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SYSTEM_APT = Path("/etc/apt")

# The pockets of a release (sources.list(5)); a third party's suites are called otherwise.
POCKETS = ("", "-updates", "-security", "/updates")

# What a release of Debian may be configured as instead of by its code name.
ALIASES = ("stable", "testing", "unstable", "sid")

# The hooks are the system's: they would update desktop caches, or run as the wrong user.
CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "{root}/sources.list.d";
Dir::State "{root}/state";
Dir::Cache "{root}/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
"""

# How apt-get tells that a file of the index is not there.
GONE = r"^E: Failed to fetch (\S+)\s+(404|File not found)\b"


class SourceError(Exception):
    """The source package could not be had."""


@dataclass(frozen=True)
class SourcePackage:
    """A source package, downloaded."""

    dsc: Path
    version: str  # Debian's, without the epoch

    @property
    def upstream(self) -> str:
        return self.version.rpartition("-")[0] or self.version


@dataclass(frozen=True)
class Entry:
    """One deb822 stanza (or one-line entry) as field name and value."""

    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        return next((value for key, value in self.fields if key.lower() == name.lower()), "")

    def replace(self, name: str, value: str) -> "Entry":
        others = tuple(field for field in self.fields if field[0].lower() != name.lower())
        return Entry(((name, value), *others))

    def __str__(self) -> str:
        return "".join(f"{name}: {value}\n" for name, value in self.fields)


def parse_deb822(text: str) -> Iterator[Entry]:
    """Parse a .sources file (deb822(5)); values keep their continuation lines."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: list[tuple[str, str]] = []
        for line in stanza.splitlines():
            if line[:1].isspace() and fields:
                name, value = fields[-1]
                fields[-1] = (name, f"{value}\n{line}")
            elif ":" in line:
                name, _, value = line.partition(":")
                fields.append((name.strip(), value.strip()))
        if fields:
            yield Entry(tuple(fields))


def parse_one_line(text: str) -> Iterator[Entry]:
    """Parse a .list file (sources.list(5)) into the deb822 form of its entries."""
    for line in text.splitlines():
        match = re.match(r"\s*(deb|deb-src)\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)([^#]*)", line)
        if not match:
            continue
        kind, options, uri, suite, components = match.groups()
        fields = [("Types", kind), ("URIs", uri), ("Suites", suite)]
        if components.strip():
            fields.append(("Components", components.strip()))
        for option in (options or "").split():
            name, _, value = option.partition("=")
            if name.lower() in ("signed-by", "trusted", "check-valid-until"):
                fields.append((name.title(), value.replace(",", " ")))
        yield Entry(tuple(fields))


def configured_entries(apt: Path = SYSTEM_APT) -> list[Entry]:
    """Every entry the machine's apt is configured with, enabled or not."""
    entries: list[Entry] = []
    parts = apt / "sources.list.d"
    for path in [apt / "sources.list", *sorted(parts.glob("*.list"))]:
        if path.is_file():
            entries += parse_one_line(path.read_text(encoding="utf-8", errors="replace"))
    for path in sorted(parts.glob("*.sources")):
        entries += parse_deb822(path.read_text(encoding="utf-8", errors="replace"))
    return entries


def source_entries(entries: Iterable[Entry], codename: str, suite: str | None) -> list[Entry]:
    """Derive deb-src entries for the release `codename`, or from its archive for `suite`."""
    wanted = {codename} if suite else {codename + pocket for pocket in POCKETS}
    result: list[Entry] = []
    for entry in entries:
        suites = [name for name in entry.get("Suites").split() if name in wanted]
        enabled = entry.get("Enabled").lower() not in ("no", "false", "off", "0")
        if not suites or not enabled or "main" not in entry.get("Components").split():
            continue
        source = entry.replace("Types", "deb-src")
        source = source.replace("Suites", suite or " ".join(suites))
        if source not in result:
            result.append(source)
    return result


def release() -> dict[str, str]:
    """The fields of os-release(5); none where there is no such file."""
    path = Path("/etc/os-release")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, _, value in pairs}


def machine_sources(suite: str | None) -> str:
    """The deb-src entries for this machine, as the text of a .sources file."""
    os_release = release()
    codename = os_release.get("UBUNTU_CODENAME") or os_release.get("VERSION_CODENAME", "")
    configured = configured_entries()
    for name in (codename, *ALIASES):
        entries = source_entries(configured, name, suite)
        if name and entries:
            return "\n".join(str(entry) for entry in entries)
    raise SourceError(
        f"{SYSTEM_APT} has no enabled deb entry for {codename or 'this release'} main "
        "to derive a deb-src entry from"
    )


def fetch(name: str, sources: str, root: Path) -> SourcePackage:
    """Download the newest source package `name` that the deb-src entries `sources` offer.

    root: an absolute folder for apt's lists and caches and for the downloaded files.
    """
    for folder in ("state/lists/partial", "cache/archives/partial", "downloads"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    parts = root / "sources.list.d"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    (parts / "derived.sources").write_text(sources, encoding="utf-8")
    configuration = root / "apt.conf"
    configuration.write_text(CONFIGURATION.format(root=root), encoding="utf-8")

    # --only-source: by itself apt looks for the source of the binary package that is installed.
    source = ["source", "--only-source", name]
    update = _apt_get(configuration, ["update"], root)
    listed = _apt_get(configuration, [*source, "--print-uris"], root)
    found = re.search(r"^'[^']+' (\S+_(\S+)\.dsc) ", listed.stdout, re.MULTILINE)
    if listed.returncode or not found:
        raise SourceError(f"apt offers no source package {name}:\n{_complaints(update, listed)}")
    downloads = root / "downloads"
    fetched = _apt_get(configuration, [*source, "--download-only"], downloads)
    if fetched.returncode:
        gone = re.search(GONE, fetched.stderr, re.MULTILINE)
        if gone and not update.returncode:
            raise SourceError(
                f"the mirror lists {name} {found[2]}, but has no such file: {gone[1]} ({gone[2]}). "
                "Try again later, or another mirror; only what needs a patched "
                f"{name} goes without"
            )
        raise SourceError(f"apt could not download {found[1]}:\n{_complaints(update, fetched)}")
    return SourcePackage(downloads / found[1], found[2])


def _apt_get(
    configuration: Path, arguments: list[str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", "-q", "-c", str(configuration), *arguments],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _complaints(*runs: subprocess.CompletedProcess[str]) -> str:
    lines = [line for run in runs for line in (run.stdout + run.stderr).splitlines()]
    return "\n".join(line for line in lines if line.startswith(("E:", "W:", "Err:")))
