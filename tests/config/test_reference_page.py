"""docs/reference/config.md: every setting and no other, each with its default and an example."""

from __future__ import annotations

import re
import tomllib

import pytest

from codex_multitool.config.configuration import Config, configuration
from codex_multitool.config.documents import Document, file_document, override_document
from codex_multitool.config.dotenv import parse
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.settings import SETTINGS, statements
from codex_multitool.config.shell_environment import EnvironmentPolicy, shell_environment
from tests.config.test_settings import keys
from tests.source_tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "config.md").read_text()
_SECTION = re.compile(r"^### `([^.].*?)`\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
SECTIONS = dict(_SECTION.findall(PAGE))
# Where the server, not the configuration, has the default.
CHOSEN_LATER = {
    "sandbox_mode",
    "project_root_markers",
    "codex_multitool.intercept",
    "codex_multitool.approval_timeout",
    "codex_multitool.dangerous_commands",
    "codex_multitool.protect",
    "codex_multitool.result",
}


def configured(text: str) -> Config:
    """The configuration of this text alone, without its places."""
    found = statements(file_document("config.toml", "/folder", text), "/home/me")
    return configuration(found)._replace(stated={})


def blocks(kind: str, text: str = PAGE) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_page_has_every_setting_and_no_other() -> None:
    assert sorted(SECTIONS) == sorted(keys(SETTINGS))


@pytest.mark.parametrize("key", SECTIONS)
def test_the_example_states_the_setting(key: str) -> None:
    (example,) = blocks("toml", SECTIONS[key])
    found = statements(file_document("config.toml", "/folder", example), "/home/me")
    pattern = re.compile(re.escape(key).replace(r"\*", ".+"))
    assert any(pattern.fullmatch(".".join(stated)) for stated in found)
    configuration(found)


@pytest.mark.parametrize("key", SECTIONS)
def test_the_default_is_what_it_is_without_the_setting(key: str) -> None:
    (default,) = re.findall(r"Default:\s(`[^`]+`|none)", SECTIONS[key])
    if default == "none":
        return
    written = default.strip("`")
    found = configured(f"{key} = {written}")
    if key in CHOSEN_LATER:
        tomllib.loads(f"value = {written}")
    else:
        assert found == Config()


def test_no_toml_on_the_page_stands_outside_a_section() -> None:
    assert len(blocks("toml")) == len(SECTIONS)


def test_the_mistake_on_the_page_is_told_like_that() -> None:
    shown = blocks("")[0]
    text = "# three\n# lines\n# before\nsandbox_mode = 'readonly'"
    with pytest.raises(ConfigError) as caught:
        statements(file_document("/home/me/.codex/config.toml", "/", text), None)
    assert str(caught.value) == shown.strip()


def test_the_overrides_on_the_page_are_settings() -> None:
    lines = blocks("")[1].splitlines()
    assert len(lines) == 3
    for line in lines:
        override: Document = override_document(line.removeprefix("-c ").strip("'"), "/")
        assert statements(override, None)


def test_the_env_file_on_the_page_says_what_it_seems_to() -> None:
    (text,) = [block for block in blocks("") if "export" in block]
    assert parse(text, {"HOME": "/home/me"}) == {
        "PLAIN": "value",
        "QUOTED": "nothing $special in here",
        "MIXED": "value and /home/me\n",
    }


def test_the_core_variables_are_those_on_the_page() -> None:
    told = PAGE.partition("Core are ")[2].partition(".\n")[0]
    names = [name.replace("*", "ALL") for name in re.findall(r"`([A-Z_*]+)`", told)]
    environ = dict.fromkeys([*names, "OTHER", "LC", "XDG_RUNTIME_DIR"], "")
    assert list(shell_environment(EnvironmentPolicy(), environ)) == names


def test_the_readmes_settings_are_settings() -> None:
    readme = (ROOT / "README.md").read_text()
    (example,) = [block for block in blocks("toml", readme) if "sandbox_mode" in block]
    found = statements(file_document("config.toml", "/", example), None)
    assert len(found) == example.count(" = ") - 1  # an inline table's own sign
