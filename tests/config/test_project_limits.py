"""A sandboxed command may write a project's file: it must not gain by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_multitool.config.configuration import Config, configuration
from codex_multitool.config.documents import file_document
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.project_limits import hold
from codex_multitool.config.settings import merged, statements
from codex_multitool.config.shell_environment import shell_environment
from tests.config.conftest import Machine


def full(text: str) -> str:
    """A text of this page as the file has it."""
    text = text.replace("WORK", "sandbox_workspace_write").replace("&", "\n")
    return text.replace("ENV", "shell_environment_policy")


def held(user: str, *projects: str) -> Config:
    """The configuration of a user with projects' files; raises ConfigError."""
    names = ["user", *(f"p{number}" for number in range(1, len(projects) + 1))]
    layers = [
        statements(file_document(name, "/", full(text)), None)
        for name, text in zip(names, [user, *projects], strict=True)
    ]
    config = configuration(merged(layers))
    hold(configuration(layers[0]), config, layers[1:])
    return config


TOO_MUCH = """
||sandbox_mode = "danger-full-access"
  1:1 sandbox_mode
sandbox_mode = "workspace-write"||sandbox_mode = "danger-full-access"
  1:1 sandbox_mode
||WORK.network_access = true
  1:25 WORK.network_access
||WORK.writable_roots = ["/x"]
  1:25 WORK.writable_roots
WORK.writable_roots = ["/x"]||WORK.writable_roots = ["/"]
  1:25 WORK.writable_roots
WORK.exclude_slash_tmp = true||WORK.exclude_slash_tmp = false
  1:25 WORK.exclude_slash_tmp
WORK.exclude_tmpdir_env_var = true||[WORK]&exclude_tmpdir_env_var = false
  2:1 WORK.exclude_tmpdir_env_var
||ENV.inherit = "all"
  1:26 ENV.inherit
ENV.inherit = "none"||ENV.inherit = "core"
  1:26 ENV.inherit
||ENV.ignore_default_excludes = true
  1:26 ENV.ignore_default_excludes
ENV.exclude = ["A", "B"]||ENV.exclude = ["a"]
  1:26 ENV.exclude
ENV.exclude = ["A"]||[ENV.filters]&B = "include"
  2:1 ENV.filters.B
ENV.filters.A = "exclude"||ENV.include_only = ["B"]
  1:26 ENV.include_only
ENV.filters.A = "exclude"||ENV.filters.a = "include"
  1:34 ENV.filters.a
ENV.include_only = ["A"]||ENV.include_only = []
  1:26 ENV.include_only
ENV.include_only = ["A"]||ENV.include_only = ["A", "B"]
  1:26 ENV.include_only
||ENV.set.TMPDIR = "/home/me"
  1:30 ENV.set.TMPDIR
"""


def too_much() -> list[tuple[str, str, str, str]]:
    """The user's file, the project's, where it asks for too much, and in what."""
    lines = TOO_MUCH.strip().splitlines()
    cases = []
    for texts, told in zip(lines[::2], lines[1::2], strict=True):
        (user, project), (where, key) = texts.split("||"), told.split()
        cases.append((user, project, where, full(key)))
    return cases


@pytest.mark.parametrize(("user", "project", "where", "key"), too_much())
def test_a_project_may_not_widen(user: str, project: str, where: str, key: str) -> None:
    held(user)
    with pytest.raises(ConfigError) as caught:
        held(user, project)
    assert str(caught.value) == (
        f"p1:{where}: `{key}` gives commands more than the user's own files do\n"
        "  set it in $CODEX_HOME/config.toml or with -c, which no sandboxed command can write"
    )
    # ... unless the user says the same.
    if "exclude" not in user and "include" not in user:
        assert held(project, project) == held(project)


@pytest.mark.parametrize(
    ("user", "project"),
    [
        ("", 'sandbox_mode = "workspace-write"'),  # what trust in a project means
        ('sandbox_mode = "read-only"', 'sandbox_mode = "workspace-write"'),
        ('sandbox_mode = "danger-full-access"', 'sandbox_mode = "danger-full-access"'),
        ('sandbox_mode = "danger-full-access"', 'sandbox_mode = "read-only"'),
        ('WORK.writable_roots = ["/x"]', "WORK.writable_roots = []"),
        ("", "WORK = {exclude_slash_tmp = true, network_access = false}"),
        ("", 'ENV.set = {PATH = "/x", LD_PRELOAD = "/y", A = "b"}'),
        ("", 'ENV = {inherit = "none", exclude = ["A"]}'),
        ('ENV.exclude = ["A"]', 'ENV.exclude = ["b", "a"]'),
        ('ENV.exclude = ["A"]', 'ENV.filters.a = "exclude"'),
        ('ENV.include_only = ["A", "B"]', 'ENV.include_only = ["a"]'),
        ("", 'ENV.include_only = ["A"]'),
        ('ENV.set.TMPDIR = "/x"', 'ENV.set.TMPDIR = "/x"'),
    ],
)  # fmt: skip
def test_a_project_may_narrow(user: str, project: str) -> None:
    held(user, project)


@pytest.mark.parametrize("setting", ['rules = ["x"]', 'drop_environment = ["A"]', "max_memory = 1"])
@pytest.mark.parametrize("user", ["", "same"])
def test_our_own_table_is_the_users(user: str, setting: str) -> None:
    text = f"codex_multitool.{setting}"
    with pytest.raises(ConfigError) as caught:
        held(text if user else "", text)
    assert caught.value.where == "p1:1:17"
    assert "is not for a project to say: [codex_multitool] is the user's" in caught.value.what


def test_the_file_that_says_it_is_named() -> None:
    wide, narrow = (f'sandbox_mode = "{mode}"' for mode in ("danger-full-access", "read-only"))
    held("", wide, narrow)  # the nearer file has the last word
    with pytest.raises(ConfigError, match="p2:1:1: `sandbox_mode`"):
        held("", narrow, wide)


def test_the_command_line_may_permit_it_for_once(machine: Machine) -> None:
    machine.write_user(machine.trust())
    machine.write_project("sandbox_workspace_write.network_access = true")
    with pytest.raises(ConfigError, match=r"\.codex/config\.toml:1:25: "):
        machine.load(machine.project)
    override = "sandbox_workspace_write.network_access=true"
    assert machine.load(machine.project, [override]).workspace_write.network_access


NAMES = ["PATH", "HOME", "TMPDIR", "AWS_ID", "API_KEY", "EDITOR"]
PATTERNS = st.lists(st.sampled_from(["*", "A*", "a*", "PATH", "p*", "*D*"]), max_size=2)
TABLES = st.fixed_dictionaries(
    {},
    optional={
        "inherit": st.sampled_from(["all", "core", "none"]),
        "ignore_default_excludes": st.booleans(),
        "exclude": PATTERNS,
        "include_only": PATTERNS,
        "set": st.fixed_dictionaries({}, optional={name: st.just("set") for name in NAMES}),
    },
)


def text(table: dict[str, object]) -> str:
    def written(value: object) -> str:
        match value:
            case bool():
                return str(value).lower()
            case dict():
                return "{" + ", ".join(f"{key} = {written(it)}" for key, it in value.items()) + "}"
            case _:
                return repr(value)

    return f"shell_environment_policy = {written(table)}"


@given(TABLES, TABLES)
def test_no_project_brings_a_variable_of_the_servers_into_the_sandbox(
    user: dict[str, object], project: dict[str, object]
) -> None:
    try:
        config = held(text(user), text(project))
    except ConfigError:
        return
    server = dict.fromkeys(NAMES, "server")
    before = shell_environment(held(text(user)).environment, server)
    after = shell_environment(config.environment, server)
    brought = {name for name, value in after.items() if value == "server"}
    assert brought <= set(before)
    assert after.get("TMPDIR") in (None, before.get("TMPDIR"))
