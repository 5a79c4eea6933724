"""The settings of one document: each accepted value, each located mistake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from codex_multitool.config.documents import file_document, override_document
from codex_multitool.config.errors import ConfigError
from codex_multitool.config.settings import SETTINGS, Key, Table, dotted, merged, statements


def stated(text: str, home: str | None = "/home/me") -> dict[str, object]:
    found = statements(file_document("c.toml", "/folder", text), home)
    return {".".join(key): each.value for key, each in found.items()}


def refusal(text: str, home: str | None = "/home/me") -> tuple[str, str]:
    """Where, and what."""
    with pytest.raises(ConfigError) as caught:
        statements(file_document("c.toml", "/folder", text), home)
    assert caught.value.where is not None
    assert caught.value.mend
    return caught.value.where, caught.value.what


@pytest.mark.parametrize(
    ("table", "key", "written", "value"),
    [
        ("", "sandbox_mode", '"workspace-write"', "workspace-write"),
        ("", "project_root_markers", '[".git", ".hg"]', (".git", ".hg")),
        ("", "project_root_markers", "[]", ()),
        ("sandbox_workspace_write", "network_access", "true", True),
        ("shell_environment_policy", "inherit", '"none"', "none"),
        ("shell_environment_policy", "exclude", '["A?_*"]', ("A?_*",)),
        ("shell_environment_policy.set", '"A B"', '""', ""),
        ("shell_environment_policy.filters", '"aws_*"', '"include"', "include"),
        ('projects."/a b"', "trust_level", '"trusted"', "trusted"),
        ("codex_multitool", "approval_timeout", "2.5", 2.5),
        ("codex_multitool", "approval_timeout", "600", 600.0),
        ("codex_multitool", "keep_environment", '["A", "B_*"]', ("A", "B_*")),
        ("codex_multitool", "drop_environment", "[]", ()),
        ("codex_multitool.keep_environment_of", "make", '["CC"]', ("CC",)),
        ("codex_multitool.keep_environment_of", '"/opt/a b"', "[]", ()),
        ("codex_multitool", "max_processes", "1", 1),
        ("codex_multitool", "max_memory", "4096", 4096),
        ("codex_multitool", "max_memory", '"512M"', 512 << 20),
        ("codex_multitool", "max_memory", '"2 GiB"', 2 << 30),
        ("codex_multitool", "max_file_size", '"10 KB"', 10 << 10),
        ("codex_multitool", "max_file_size", '"7"', 7),
        ("codex_multitool", "max_open_files", "64", 64),
        ("codex_multitool", "max_output", '"24K"', 24 << 10),
        ("codex_multitool", "max_output", "1048576", 1 << 20),
        ("codex_multitool", "result", '"json"', "json"),
        ("codex_multitool", "max_processes", '"unlimited"', None),
    ],
)
def test_a_value_is_what_it_means(table: str, key: str, written: str, value: object) -> None:
    ((name, found),) = stated((f"[{table}]\n" if table else "") + f"{key} = {written}").items()
    assert name == (f"{table}.{key}" if table else key).replace('"', "")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("/x/../y", "/x/../y"),  # what lies behind a link, only the kernel knows
        ("x", "/folder/x"),
        ("../x/./y/", "/x/y"),
        (".", "/folder"),
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("~x", "/folder/~x"),
        ("é", "/folder/é"),
    ],
)
def test_a_path_is_absolute_or_below_its_file_or_home(written: str, path: str) -> None:
    assert stated(f'codex_multitool.shell = "{written}"') == {"codex_multitool.shell": path}


CODEX_OWN = [
    "model",
    "model_provider",
    "model_providers",
    "model_context_window",
    "model_auto_compact_token_limit",
    "model_reasoning_effort",
    "model_verbosity",
    "review_model",
    "approval_policy",
    "approvals_reviewer",
    "notify",
    "instructions",
    "developer_instructions",
    "compact_prompt",
    "forced_login_method",
    "mcp_servers",
    "mcp_oauth_credentials_store",
    "project_doc_max_bytes",
    "project_doc_fallback_filenames",
    "tool_output_token_limit",
    "profile",
    "profiles",
    "history",
    "file_opener",
    "tui",
    "hide_agent_reasoning",
    "personality",
    "features",
    "tools",
    "default_permissions",
    "permissions",
    "windows",
    "otel",
    "notice",
    "agents",
    "skills",
    "apps",
    "plugins",
    "hooks",
    "web_search",
    "background_terminal_max_timeout",
    "log_dir",
    "sqlite_home",
    "allow_login_shell",
    "analytics",
    "feedback",
    "zsh_path",
    "oss_provider",
    "commit_attribution",
    "sandbox_permissions",
    "sandbox",
    "memories",
    "service_tier",
    "audio",
    "check_for_update_on_startup",
    "disable_paste_burst",
    "chatgpt_base_url",
    "workspace",
    "environment",
    "shell",
    "codex",
]


def test_names_of_codex_are_not_taken_for_slips() -> None:
    for name in CODEX_OWN:
        told: list[str] = []
        document = file_document("c.toml", "/folder", f"[{name}]\nsandbox_mod = 1\n")
        assert statements(document, None, told.append) == {}
        assert told == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("codex_multitol", "codex_multitool"),
        ("codex-multitool", "codex_multitool"),
        ("multitool", "codex_multitool"),
        ("sandbox_workspace_writ", "sandbox_workspace_write"),
        ("sandbox_workspace", "sandbox_workspace_write"),
        ("workspace_write", "sandbox_workspace_write"),
        ("shell_enviroment_policy", "shell_environment_policy"),
        ("sandbox_mod", "sandbox_mode"),
        ("sandboxMode", "sandbox_mode"),
    ],
)
def test_a_slip_that_would_protect_less_is_a_mistake(name: str, meant: str) -> None:
    what = f"`{name}`: unknown key; did you mean `{meant}`?"
    assert refusal(f"[{name}]") == ("c.toml:1:2", what)
    assert refusal(f"{name} = 1") == ("c.toml:1:1", what)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[projcts."/a"]', "c.toml:1:2: `projcts` has no effect; did you mean `projects`?"),
        (
            "[projects.'/a']\ntrust_levl = 'trusted'",
            'c.toml:2:1: `projects."/a".trust_levl` has no effect; did you mean `trust_level`?',
        ),
        (
            "project_root_marker = []",
            "c.toml:1:1: `project_root_marker` has no effect; did you mean `project_root_markers`?",
        ),
    ],
)
def test_a_slip_that_would_protect_more_is_told(text: str, told: str) -> None:
    found: list[str] = []
    assert statements(file_document("c.toml", "/folder", text), None, found.append) == {}
    assert found == [told]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("max_memory", "codex_multitool"),
        ("dangerous_commands", "codex_multitool"),
        ("exclude_slash_tmp", "sandbox_workspace_write"),
        ("network_access", "sandbox_workspace_write"),
    ],
)
def test_a_key_outside_its_table_is_a_mistake(name: str, table: str) -> None:
    with pytest.raises(ConfigError) as caught:
        statements(file_document("c.toml", "/folder", f"{name} = true"), None)
    assert str(caught.value) == (
        f"c.toml:1:1: `{name}`: unknown key\n  it is one of [{table}]: write it below that line"
    )


def test_what_is_codex_own_passes() -> None:
    text = """\
model = "x"
approval_policy = "never"
[projects."/a"]
something = 1
[mcp_servers.shell]
command = "x"
[features]
"""
    assert stated(text) == {}


MISTAKES = r"""
sandbox_mode = "readonly"
  1:16 `sandbox_mode`: unknown value 'readonly'
sandbox_mode = "external-sandbox"
  1:16 `sandbox_mode`: unknown value 'external-sandbox'
sandbox_mode = 1
  1:16 `sandbox_mode`: must be a string, not an integer
[sandbox_mode]
  1:2 `sandbox_mode`: must be a string, not a table
sandbox_workspace_write = true
  1:27 `sandbox_workspace_write`: must be a table, not a boolean
[[sandbox_workspace_write]]
  1:3 `sandbox_workspace_write`: must be a table, not an array
[sandbox_workspace_write]\n network = true
  2:2 `sandbox_workspace_write.network`: unknown key; did you mean `network_access`?
[sandbox_workspace_write]\nread_only = true
  2:1 `sandbox_workspace_write.read_only`: unknown key
[sandbox_workspace_write]\nnetwork_access = 'yes'
  2:18 `sandbox_workspace_write.network_access`: must be a boolean, not a string
[sandbox_workspace_write]\nwritable_roots = '/x'
  2:18 `sandbox_workspace_write.writable_roots`: must be an array of strings, not a string
[sandbox_workspace_write]\nwritable_roots = ['/x',\n  1.5]
  3:3 `sandbox_workspace_write.writable_roots`: must be a string, not a float
[sandbox_workspace_write]\nwritable_roots = ['']
  2:19 `sandbox_workspace_write.writable_roots`: not a path: ''
[sandbox_workspace_write]\nwritable_roots = ["\u0000"]
  2:19 `sandbox_workspace_write.writable_roots`: not a path: '\x00'
[shell_environment_policy]\nexlude = []
  2:1 `shell_environment_policy.exlude`: unknown key; did you mean `exclude`?
[shell_environment_policy]\ninherit = 'some'
  2:11 `shell_environment_policy.inherit`: unknown value 'some'
[shell_environment_policy]\nexclude = ['A=']
  2:12 `shell_environment_policy.exclude`: no variable can have the name 'A='
[shell_environment_policy]\nset = {A = 1}
  2:12 `shell_environment_policy.set.A`: must be a string, not an integer
[shell_environment_policy]\nset = {'' = 'a'}
  2:8 `shell_environment_policy.set.""`: no variable can have the name ''
[shell_environment_policy]\nset = {A = "\u0000"}
  2:12 `shell_environment_policy.set.A`: no variable can hold a NUL
[shell_environment_policy.filters]\nA = 'drop'
  2:5 `shell_environment_policy.filters.A`: unknown value 'drop'
[shell_environment_policy.filters]\nA = 1979-05-27
  2:5 `shell_environment_policy.filters.A`: must be a string, not a date or time
[projects]\na = 'trusted'
  2:5 `projects.a`: must be a table, not a string
[projects.'/a']\ntrust_level = 'yes'
  2:15 `projects."/a".trust_level`: unknown value 'yes'
project_root_markers = '.git'
  1:24 `project_root_markers`: must be an array of strings, not a string
project_root_markers = ['a/b']
  1:25 `project_root_markers`: not the name of a file: 'a/b'
project_root_markers = ['..']
  1:25 `project_root_markers`: not the name of a file: '..'
[codex_multitool]\nshel = 'x'
  2:1 `codex_multitool.shel`: unknown key; did you mean `shell`?
codex_multitool.intercept = 'ptrace'
  1:29 `codex_multitool.intercept`: unknown value 'ptrace'
codex_multitool.dangerous_commands = 'no'
  1:38 `codex_multitool.dangerous_commands`: unknown value 'no'
codex_multitool.max_output = 1023
  1:30 `codex_multitool.max_output`: out of range: 1023
codex_multitool.max_output = "2M"
  1:30 `codex_multitool.max_output`: out of range: 2097152
codex_multitool.result = "JSON"
  1:26 `codex_multitool.result`: unknown value 'JSON'
codex_multitool.approval_timeout = 0
  1:36 `codex_multitool.approval_timeout`: out of range: 0
codex_multitool.approval_timeout = -1.5
  1:36 `codex_multitool.approval_timeout`: out of range: -1.5
codex_multitool.approval_timeout = nan
  1:36 `codex_multitool.approval_timeout`: out of range: nan
codex_multitool.approval_timeout = inf
  1:36 `codex_multitool.approval_timeout`: out of range: a number of more than 20 digits
codex_multitool.approval_timeout = true
  1:36 `codex_multitool.approval_timeout`: must be a number, not a boolean
codex_multitool.approval_timeout = '1m'
  1:36 `codex_multitool.approval_timeout`: must be a number, not a string
codex_multitool.max_processes = 0
  1:33 `codex_multitool.max_processes`: out of range: 0
codex_multitool.max_processes = true
  1:33 `codex_multitool.max_processes`: must be an integer, not a boolean
codex_multitool.max_cpu_seconds = 1.5
  1:35 `codex_multitool.max_cpu_seconds`: must be an integer, not a float
codex_multitool.max_processes = 0xFFF
  1:33 `codex_multitool.max_processes`: out of range: a number of more than 20 digits
codex_multitool.approval_timeout = 0xFFF
  1:36 `codex_multitool.approval_timeout`: out of range: a number of more than 20 digits
codex_multitool.max_memory = '1 PiB'
  1:30 `codex_multitool.max_memory`: not a size: '1 PiB'
codex_multitool.max_memory = '-1'
  1:30 `codex_multitool.max_memory`: not a size: '-1'
codex_multitool.max_memory = '9999999999T'
  1:30 `codex_multitool.max_memory`: out of range: a number of more than 20 digits
codex_multitool.keep_environment = ['*_A']
  1:37 `codex_multitool.keep_environment`: `*` stands only at the end of a name: '*_A'
codex_multitool.keep_environment = ['*']
  1:37 `codex_multitool.keep_environment`: `*` stands only at the end of a name: '*'
codex_multitool.keep_environment_of = ['A']
  1:39 `codex_multitool.keep_environment_of`: must be a table, not an array
codex_multitool.keep_environment_of.'./x' = []
  1:37 `codex_multitool.keep_environment_of."./x"`: neither a program's name nor its path: './x'
codex_multitool.keep_environment_of.'' = []
  1:37 `codex_multitool.keep_environment_of.""`: neither a program's name nor its path: ''
codex_multitool.keep_environment_of.make = ['*']
  1:45 `codex_multitool.keep_environment_of.make`: `*` stands only at the end of a name: '*'
codex_multitool.drop_environment = 'A'
  1:36 `codex_multitool.drop_environment`: must be an array of strings, not a string
"""


def mistakes() -> Iterator[tuple[str, str, str]]:
    """The text, where it is wrong, and what is. `\\n` ends a line, FFF is a long number."""
    lines = MISTAKES.strip().splitlines()
    for text, told in zip(lines[::2], lines[1::2], strict=True):
        where, what = told.split(maxsplit=1)
        yield text.replace("\\n", "\n").replace("FFF", "f" * 5000), where, what


@pytest.mark.parametrize(("text", "where", "what"), list(mistakes()))
def test_a_mistake_is_located(text: str, where: str, what: str) -> None:
    assert refusal(text) == (f"c.toml:{where}", what)


def test_without_a_home_a_tilde_is_a_mistake() -> None:
    text = "codex_multitool.rules = ['~/x']"
    assert refusal(text, home=None) == (
        "c.toml:1:26",
        "`codex_multitool.rules`: no home directory is known",
    )


def test_the_error_says_what_would_be_right() -> None:
    document = file_document("c.toml", "/", "[sandbox_workspace_write]\nnetwork = 1")
    with pytest.raises(ConfigError) as caught:
        statements(document, None)
    assert str(caught.value) == (
        "c.toml:2:1: `sandbox_workspace_write.network`: unknown key; "
        "did you mean `network_access`?\n"
        "  [sandbox_workspace_write] has these: writable_roots, network_access, "
        "exclude_tmpdir_env_var, exclude_slash_tmp"
    )


@pytest.mark.parametrize("other", ["exclude", "include_only"])
def test_filters_and_lists_do_not_mix_in_one_layer(other: str) -> None:
    text = f'[shell_environment_policy]\n{other} = ["A"]\nfilters = {{"B*" = "exclude"}}'
    assert refusal(text) == (
        "c.toml:3:12",
        "cannot mix `filters` with legacy `exclude` or `include_only`",
    )


@pytest.mark.parametrize(("one", "other"), [("AWS_*", "aws_*"), ("ÄÖ_*", "äö_*")])
def test_a_filter_is_stated_once_whatever_its_case(one: str, other: str) -> None:
    text = f'[shell_environment_policy.filters]\n"{one}" = "exclude"\n"{other}" = "include"'
    assert refusal(text) == (
        "c.toml:3:1",
        f"duplicate shell environment filter `{other}` ignoring case",
    )


def test_an_override_is_named_in_its_mistakes() -> None:
    with pytest.raises(ConfigError) as caught:
        statements(override_document("sandbox_mode=no", "/"), None)
    assert str(caught.value).startswith("-c sandbox_mode=no: `sandbox_mode`: unknown value 'no'\n")


def overlaid(*texts: str) -> dict[str, tuple[object, str]]:
    """The settings of layers a, b, ... and where the last word on each was said."""
    layers = [
        statements(file_document(name, "/", text), None)
        for name, text in zip("abc", texts, strict=False)
    ]
    return {dotted(key): (each.value, each.where) for key, each in merged(layers).items()}


def test_the_highest_layer_has_the_last_word_on_each_setting() -> None:
    low = 'sandbox_mode = "read-only"\n[shell_environment_policy]\nset = {A = "1", B = "2"}'
    high = 'shell_environment_policy.set.B = "3"\nsandbox_mode = "workspace-write"'
    assert overlaid(low, high) == {
        "sandbox_mode": ("workspace-write", "b:2:1"),
        "shell_environment_policy.set.A": ("1", "a:3:8"),
        "shell_environment_policy.set.B": ("3", "b:1:30"),
    }


def test_lists_are_replaced_and_not_joined() -> None:
    low, high = (f"shell_environment_policy.exclude = ['{name}']" for name in "AB")
    assert overlaid(low, high) == {"shell_environment_policy.exclude": (("B",), "b:1:26")}


def test_a_higher_layer_may_filter_in_the_other_way() -> None:
    lists = "shell_environment_policy = {exclude = ['A'], include_only = ['B'], inherit = 'all'}"
    filters = "[shell_environment_policy.filters]\n'C' = 'exclude'"
    inherit = {"shell_environment_policy.inherit": ("all", "a:1:68")}
    both = overlaid(lists, filters)
    assert both == {**inherit, "shell_environment_policy.filters.c": ("exclude", "b:2:1")}
    again = overlaid(lists, filters, "shell_environment_policy.include_only = ['D']")
    assert again == {**inherit, "shell_environment_policy.include_only": (("D",), "c:1:26")}


def test_filters_of_two_layers_are_joined_ignoring_case() -> None:
    low = "[shell_environment_policy.filters]\n'A*' = 'exclude'\nB = 'include'"
    high = "[shell_environment_policy.filters]\n'a*' = 'include'"
    assert overlaid(low, high) == {
        'shell_environment_policy.filters."a*"': ("include", "b:2:1"),
        "shell_environment_policy.filters.b": ("include", "a:3:1"),
    }


def keys(table: Table, path: Key = ()) -> list[str]:
    """Every setting there is; * where the key is free."""
    found = []
    members = [*table.members.items(), *([("*", table.others)] if table.others else [])]
    for name, member in members:
        here = (*path, name)
        found += keys(member, here) if isinstance(member, Table) else [".".join(here)]
    return found


def test_these_are_the_settings() -> None:
    ours = """intercept shell rules approval_timeout dangerous_commands protect
        keep_environment keep_environment_of.* drop_environment max_memory max_processes
        max_cpu_seconds max_file_size max_open_files max_output result"""
    environment = """inherit ignore_default_excludes exclude set.* include_only filters.*
        experimental_use_profile"""
    assert keys(SETTINGS) == [
        "sandbox_mode",
        "sandbox_workspace_write.writable_roots",
        "sandbox_workspace_write.network_access",
        "sandbox_workspace_write.exclude_tmpdir_env_var",
        "sandbox_workspace_write.exclude_slash_tmp",
        *(f"shell_environment_policy.{name}" for name in environment.split()),
        "projects.*.trust_level",
        "project_root_markers",
        *(f"codex_multitool.{name}" for name in ours.split()),
    ]
