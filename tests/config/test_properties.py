"""Whatever is in the files: a configuration or a ConfigError, nothing else."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from codex_multitool.config.configuration import Config
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.shell_environment import shell_environment
from tests.config.conftest import Machine
from tests.config.toml_texts import TOML, VALUES

NAMES = [
    "sandbox_mode", "sandbox_workspace_write.network_access", "sandbox_workspace_write.x",
    "sandbox_workspace_write.writable_roots", "sandbox_workspace_write", "project_root_markers",
    "shell_environment_policy", "shell_environment_policy.inherit",
    "shell_environment_policy.exclude", "shell_environment_policy.set",
    "shell_environment_policy.filters", "projects", 'projects."/x".trust_level',
    "codex_multitool", "codex_multitool.shell", "codex_multitool.rules",
    "codex_multitool.approval_timeout", "codex_multitool.max_memory", "model",
]  # fmt: skip
LIKELY = st.sampled_from(
    ['"read-only"', '"all"', "true", '["a*"]', "[]", '{A = "b"}', '{"a*" = "include"}', "1", '"1K"']
)
SETTINGS = st.lists(
    st.builds("{} = {}".format, st.sampled_from(NAMES), st.one_of(LIKELY, VALUES)), max_size=4
).map("\n".join)
TEXTS = st.one_of(SETTINGS, TOML, st.text(max_size=40))
OVERRIDES = st.lists(
    st.one_of(
        st.builds("{}={}".format, st.sampled_from(NAMES), st.one_of(LIKELY, st.text(max_size=9))),
        st.text(max_size=20),
    ),
    max_size=2,
)


def loaded(machine: Machine, overrides: list[str]) -> Config | ConfigError:
    """The configuration, or why there is none."""
    try:
        return machine.load(machine.project, overrides)
    except ConfigError as error:
        return error


@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(TEXTS.map(str.encode) | st.binary(max_size=40), TEXTS, OVERRIDES)
@example(b"", "", ["a.b=1", "a=1"])
@example(b"\xef\xbb\xbf", "", ["=\0"])
@example(b"a = 0x" + b"f" * 9999, "", [])
def test_a_configuration_or_a_located_error(
    machine: Machine, user: bytes, project: str, overrides: list[str]
) -> None:
    (machine.home / "config.toml").write_bytes(user)
    Path(machine.write_project("")).write_bytes(project.encode())
    trust = f'projects."{machine.project}".trust_level=trusted'
    found = loaded(machine, [trust, *overrides])
    if isinstance(found, Config):
        assert all(stated.where for stated in found.stated.values())
        found.policy()
        shell_environment(found.environment, {"PATH": "/bin"})
    else:
        named = (str(machine.home), str(machine.project), *(f"-c {text}" for text in overrides))
        assert str(found).startswith(named)
