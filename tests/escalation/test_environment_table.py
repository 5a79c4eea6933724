"""The table knows what it should, and each row can be told from the next."""

import pytest

from codex_multitool.escalation.environment_table import HARMLESS, TABLE, Kind, risk_of

NAMES = [name for risk in TABLE for name in risk.names.split()]


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH",
        "NLSPATH", "MALLOC_CHECK_", "DYLD_INSERT_LIBRARIES",
        "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "BASH_FUNC_git%%",
        "ZDOTDIR", "FPATH", "IFS", "CDPATH", "FCEDIT", "BASH_LOADABLES_PATH", "SHELL",
        "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PERL5OPT", "PERL5LIB", "PERLLIB", "RUBYOPT",
        "GEM_HOME", "NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS", "CLASSPATH", "LUA_INIT", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE",
        "GOFLAGS", "RUSTC_WRAPPER", "CARGO_HOME", "npm_config_script_shell", "NPM_CONFIG_PREFIX",
        "MAKEFLAGS", "MAKEFILES", "CC", "CONFIG_SITE",
        "GIT_SSH", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_EXTERNAL_DIFF",
        "GIT_EXEC_PATH", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_TEMPLATE_DIR",
        "GIT_PROXY_COMMAND", "GIT_ASKPASS", "GIT_TRACE", "GIT_TRACE2_EVENT", "GIT_PAGER",
        "SSH_ASKPASS", "SSH_AUTH_SOCK", "SSH_SK_PROVIDER", "RSYNC_RSH", "TAR_OPTIONS",
        "PAGER", "EDITOR", "VISUAL", "BROWSER", "MANPAGER", "LESS", "LESSOPEN", "LESSCLOSE",
        "LESSKEYIN", "TERMINFO", "TERMCAP", "VIMINIT",
        "CURL_HOME", "WGETRC", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE", "HOME",
        "XDG_CONFIG_HOME", "CODEX_HOME", "PATH", "KUBECONFIG", "DBUS_SESSION_BUS_ADDRESS",
        "PYENV_ROOT", "ASDF_DIR", "NVM_DIR", "AWKPATH", "PYTEST_PLUGINS", "TEXMFCNF", "ZIPOPT",
        "MAGICK_CONFIGURE_PATH", "ODBCINI", "JJ_CONFIG", "BORG_RSH", "RESTIC_PASSWORD_COMMAND",
        "KUBECTL_EXTERNAL_DIFF", "LIBVIRT_DEFAULT_URI", "AWS_ENDPOINT_URL_S3", "TIGRC_USER",
        "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "QEMU_LD_PREFIX", "CONTAINER_HOST",
    ],
)  # fmt: skip
def test_a_variable_that_steers_programs_is_known(name: str) -> None:
    risk = risk_of(name, "x")
    assert risk is not None
    assert risk.reason


@pytest.mark.parametrize(
    "name",
    [
        "GIT_AUTHOR_NAME", "GIT_COMMITTER_DATE", "GIT_TERMINAL_PROMPT", "NODE_ENV", "LANG",
        "LC_ALL", "TERM", "TZ", "USER", "LOGNAME", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "CI",
        "DEBUG", "RUST_LOG", "GOOGLE_APPLICATION_CREDENTIALS", "AWS_PROFILE", "COLUMNS",
        "PYTHONUNBUFFERED", "MY_HOME", "ENVIRONMENT", "PATHEXT", "NO_COLOR",
    ],
)  # fmt: skip
def test_a_variable_that_carries_data_is_not(name: str) -> None:
    assert risk_of(name, "x") is None


def test_a_function_is_one_under_any_name() -> None:
    assert risk_of("LANG", "() { :; }; evil") is not None


@pytest.mark.parametrize("name", ["LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES"])
def test_a_locale_is_no_path(name: str) -> None:
    assert risk_of(name, "de_DE.UTF-8@euro:en") is None
    assert risk_of(name, "../../../ws") is not None


def test_the_closest_name_decides() -> None:
    pager, trace, library = (risk_of(n, "x") for n in ("GIT_PAGER", "GIT_TRACE", "LD_LIBRARY_PATH"))
    assert pager is not None
    assert "cat" in pager.harmless
    assert trace is not None
    assert "1" in trace.harmless
    assert library is not None
    assert library.kind is Kind.PATHS


def test_no_name_stands_in_two_rows() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_each_harmless_name_is_an_exception_to_a_row() -> None:
    prefixes = tuple(name[:-1] for name in NAMES if name.endswith("*"))
    assert [name for name in HARMLESS if not name.startswith(prefixes)] == []
