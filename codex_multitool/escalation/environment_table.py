"""THE TABLE: environment variables by which whoever sets them decides what a program runs.

One row is one reason. A name that ends with `*` stands for every name that begins so; an exact
name goes before a prefix, a longer prefix before a shorter one. Pure.
"""

import enum
from typing import NamedTuple


class Kind(enum.Enum):
    """What is done about the user's own value, the one the server itself runs with.

    CODE: kept, unless it names a place the sandbox can write. PATHS: a list parted by colons;
    entries that are relative or that the sandbox can write are taken out. PLACE: kept as it is;
    what lies there is the user's affair, only a change by the caller is refused.
    """

    CODE = enum.auto()
    PATHS = enum.auto()
    PLACE = enum.auto()


class Risk(NamedTuple):
    """names: parted by blanks. harmless: values that anyone may set."""

    reason: str
    names: str
    kind: Kind = Kind.CODE
    harmless: frozenset[str] = frozenset()


_PAGERS = frozenset(("", "cat", "/bin/cat", "/usr/bin/cat"))
_EDITORS = frozenset(("", ":", "true", "/bin/true", "/usr/bin/true", "false"))
_SWITCHES = frozenset(("", "0", "1", "2", "true", "false"))
_LESS_FLAGS = frozenset(("", "F", "R", "X", "FX", "FR", "RX", "FRX", "FRSX", "-R", "-FR", "-FRX"))

TABLE = (
    # The loader and the C library
    Risk("the dynamic linker loads code from it: ld.so(8)", "LD_* DYLD_* QEMU_*"),
    Risk("the dynamic linker loads code from it: ld.so(8)",
         "LD_LIBRARY_PATH DYLD_LIBRARY_PATH DYLD_FRAMEWORK_PATH", Kind.PATHS),
    Risk("it tunes the C library, which ignores it in privileged programs: ld.so(8)",
         "GLIBC_TUNABLES MALLOC_* LOCALDOMAIN RES_OPTIONS HOSTALIASES RESOLV_HOST_CONF"),
    Risk("the C library loads converters or format strings from it: iconv(1), locale(7)",
         "GCONV_PATH LOCPATH NLSPATH GETCONF_DIR NIS_PATH TZDIR TEXTDOMAINDIR"),
    Risk("it makes a library load modules", "OPENSSL_* GIO_* GTK_* GST_* QT_* GDK_PIXBUF_* VK_*"
         " LIBGL_* OCL_ICD_* SASL_PATH KRB5_* PKCS11_* ODBC* GDAL_DRIVER_PATH LIBVA_* VDPAU_*"
         " ALSA_* LADSPA_PATH LV2_PATH FREI0R_PATH"),
    Risk("a sanitizer's or debugger's options write files and run programs",
         "ASAN_* LSAN_* MSAN_* TSAN_* UBSAN_* VALGRIND_* DEBUGINFOD_*"),
    # Shells
    Risk("programs are looked up in it", "PATH", Kind.PATHS),
    Risk("a shell runs it at its start: bash(1), sh(1)",
         "ENV BASH_* SHELLOPTS BASHOPTS PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4"),
    Risk("a shell takes it for a function", "BASH_FUNC_*"),
    Risk("zsh loads start-up files, functions or modules from it: zsh(1)",
         "ZDOTDIR FPATH MODULE_PATH NULLCMD READNULLCMD"),
    Risk("it changes how a shell splits words, expands names or changes directory",
         "IFS CDPATH GLOBIGNORE EXECIGNORE"),
    Risk("it names a program, or a file a shell or line editor reads or writes",
         "FCEDIT HISTFILE INPUTRC KSH_* SHELL"),
    # Interpreters
    Risk("Python loads code from it or is told what to run: python(1)", "PYTHON* PDB*"),
    Risk("Python loads code from it: python(1)", "PYTHONPATH", Kind.PATHS),
    Risk("a Python program loads modules or settings with code in them by it",
         "PYTEST_* COVERAGE_* IPYTHONDIR JUPYTER_* MPLBACKEND MPLCONFIGDIR"),
    Risk("Perl loads code from it: perlrun(1)", "PERL*"),
    Risk("Perl loads code from it: perlrun(1)", "PERL5LIB PERLLIB", Kind.PATHS),
    Risk("Ruby loads code from it: ruby(1)", "RUBY* GEM_* BUNDLE_* IRBRC RBENV_*"),
    Risk("Ruby loads code from it: ruby(1)", "RUBYLIB", Kind.PATHS),
    Risk("Node.js loads code from it: node(1)",
         "NODE_* TS_NODE_* ELECTRON_* DENO_* BUN_* COREPACK_*"),
    Risk("Node.js loads code from it: node(1)", "NODE_PATH", Kind.PATHS),
    Risk("a package manager takes its scripts, registry or shell from it",
         "npm_config_* NPM_CONFIG_* YARN_* PNPM_* COMPOSER_* HOMEBREW_* NIX_* GUIX_*"),
    Risk("a Python installer takes its sources or settings from it",
         "PIP_* PIPX_* UV_* POETRY_* CONDA_* VIRTUALENV_*"),
    Risk("a Java machine or build loads code from it", "JAVA_TOOL_OPTIONS _JAVA_OPTIONS"
         " JDK_JAVA_OPTIONS JAVA_OPTS JAVA_HOME MAVEN_* M2_HOME GRADLE_* ANT_* SBT_* KOTLIN_*"),
    Risk("a Java machine loads code from it", "CLASSPATH", Kind.PATHS),
    Risk("an interpreter loads code from it", "LUA_* PHP* R_* RPROFILE TCLLIBPATH TCL_LIBRARY"
         " TK_LIBRARY GUILE_* EMACS* GHC* OCAML* CAML* ERL_* ELIXIR_* MIX_* JULIA_* MONO_*"),
    Risk("awk loads code from it: gawk(1)", "AWKPATH AWKLIBPATH"),
    Risk("TeX or Ghostscript take code, or what they may run, from it: kpsewhich(1), gs(1)",
         "TEXMF* TEXINPUTS GS_LIB GS_OPTIONS MAGICK_*"),
    Risk("the program that a version manager's shim runs is found by it",
         "PYENV_* NODENV_* NVM_* FNM_* VOLTA_* JENV_* GOENV_* PLENV_* PHPENV_* TFENV_* SDKMAN_*"
         " ASDF_* MISE_* RTX_* PROTO_* RVM_* rvm_*"),
    Risk(".NET loads code from it", "DOTNET_* CORECLR_* COMPlus_* COR_* MSBUILD*"),
    # Compilers and builds
    Risk("the Go command runs or fetches code by it: go(1)",
         "GOFLAGS GOENV GOROOT GOPATH GOBIN GOTOOLCHAIN GOTOOLDIR GOPROXY GONOPROXY GOSUMDB"
         " GONOSUMDB GOPRIVATE GOINSECURE GOVCS GOWORK GOCACHEPROG CGO_* GO_EXTLINK_ENABLED"),
    Risk("cargo or rustc run or link code by it", "CARGO* RUSTC* RUSTDOC* RUSTFLAGS RUSTUP_*"),
    Risk("a build runs code by it",
         "MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES MAKEOVERRIDES MAKE CMAKE_* CONFIG_SITE"
         " CONFIG_SHELL PKG_CONFIG* ACLOCAL_PATH M4PATH M4 SCONSFLAGS QMAKE* CCACHE_* DISTCC_*"),
    Risk("a build takes it for the program of a step",
         "CC CXX CPP LD AR AS NM RANLIB STRIP FC YACC LEX LIBTOOL"),
    Risk("a compiler runs programs or takes code from it: gcc(1)",
         "COMPILER_PATH GCC_EXEC_PREFIX LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH"
         " CFLAGS CXXFLAGS CPPFLAGS LDFLAGS"),
    # Version control and remote shells
    Risk("it makes git run programs, or work on a repository, index or file of the caller's"
         " choice: git(1)", "GIT_*"),
    Risk("git starts it: git(1)", "GIT_PAGER", harmless=_PAGERS),
    Risk("git starts it: git(1)", "GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS", harmless=_EDITORS),
    Risk("git appends to the file it names: git(1)", "GIT_TRACE*", harmless=_SWITCHES),
    Risk("another version control system runs programs by it", "HG* SVN_* CVS_RSH CVSEDITOR P4*"
         " BZR_* BRZ_* JJ_*"),
    Risk("ssh starts it or loads it: ssh(1)", "SSH_ASKPASS SSH_SK_* SSH_PKCS11_HELPER"),
    Risk("another agent would sign for the program or see what it asks: ssh(1)",
         "SSH_AUTH_SOCK SSH_ASKPASS_REQUIRE", Kind.PLACE),
    Risk("rsync or sudo starts it", "RSYNC_* SUDO_ASKPASS SUDO_EDITOR SUDO_PROMPT"),
    Risk("a backup program starts it, or takes its settings from it",
         "RSH RMT TAR_RSH CPIO_RSH BORG_* RESTIC_* RCLONE_*"),
    # Pagers, editors, terminals
    Risk("programs start it as their pager", "PAGER MANPAGER SYSTEMD_PAGER GH_PAGER BAT_PAGER"
         " DELTA_PAGER AWS_PAGER PSQL_PAGER MANOPT MAN_* GROFF_*", harmless=_PAGERS),
    Risk("programs start it as their editor", "EDITOR VISUAL SYSTEMD_EDITOR GH_EDITOR KUBE_EDITOR"
         " PSQL_EDITOR HGEDITOR SVN_EDITOR SOPS_EDITOR SLANG_EDITOR", harmless=_EDITORS),
    Risk("programs start it as their browser", "BROWSER GH_BROWSER", harmless=_EDITORS),
    Risk("less runs it, or writes the files it names: less(1)", "LESS*"),
    Risk("it holds options of less, some of which run or write: less(1)", "LESS",
         harmless=_LESS_FLAGS),
    Risk("an editor runs it at its start: vim(1), ex(1)",
         "VIMINIT EXINIT VIM VIMRUNTIME MYVIMRC NVIM_* GVIMINIT"),
    Risk("a terminal description's bytes drive the user's terminal: terminfo(5)",
         "TERMINFO TERMINFO_DIRS TERMCAP TERMPATH"),
    Risk("it holds options that run programs: tar(1), zip(1), fzf(1), rg(1)",
         "TAR_OPTIONS TAPE ZIPOPT UNZIP UNZIPOPT FZF_* RIPGREP_CONFIG_PATH BAT_* GREP_OPTIONS"
         " PSQLRC MAILCAPS MAILRC SCREENRC SYSSCREENRC PARALLEL_* KUBECTL_*"),
    # Settings, credentials, the network
    Risk("settings read from there name programs to run", "HOME XDG_*", Kind.PLACE),
    Risk("rules and settings of this program are read from there", "CODEX_HOME", Kind.PLACE),
    Risk("settings read from there name programs to run or keys to use",
         "CURL_HOME WGETRC SYSTEM_WGETRC NETRC GNUPGHOME KUBECONFIG DOCKER_* BUILDX_* HELM_*"
         " AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE CLOUDSDK_* BOTO_CONFIG GH_CONFIG_DIR TF_*"
         " ANSIBLE_* VAGRANT_* APT_CONFIG DPKG_* RPM_* SYSTEMD_* PGSERVICEFILE PGSYSCONFDIR"
         " PGPASSFILE MYSQL_HOME LDAPCONF LDAPRC HELMFILE_* PRE_COMMIT_* TIGRC_* LG_CONFIG_FILE"
         " STARSHIP_* DIRENV_* PASSWORD_STORE_* QUILT* WINE* PERF_* PERFCONFIG LIBVIRT_*"
         " GOOGLE_EXTERNAL_ACCOUNT_* VIRSH_* CONTAINER_* CONTAINERS_* PODMAN_* BUILDAH_*",
         Kind.PLACE),
    Risk("a bus address can start a program: D-Bus specification, unixexec",
         "DBUS_* TMUX TMUX_TMPDIR", Kind.PLACE),
    Risk("the program's traffic, credentials in it, would go where the caller says",
         "http_proxy https_proxy ftp_proxy all_proxy no_proxy"
         " HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY AWS_ENDPOINT_URL* AWS_CA_BUNDLE"
         " VAULT_ADDR GH_HOST", Kind.PLACE),
    Risk("it decides whom TLS trusts, or writes its keys",
         "SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE SSLKEYLOGFILE",
         Kind.PLACE),
)  # fmt: skip

# They begin like names of the table, but only carry text, numbers or switches.
HARMLESS = frozenset((
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS",
    "GIT_MERGE_AUTOEDIT", "GIT_REFLOG_ACTION", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_CEILING_DIRECTORIES", "GIT_ADVICE",
    "NODE_ENV", "NODE_NO_WARNINGS", "NODE_DEBUG", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONFAULTHANDLER", "CARGO_TERM_COLOR", "LESSCHARSET",
    "PYTEST_CURRENT_TEST", "PYTEST_VERSION",
    "XDG_SESSION_ID", "XDG_SESSION_TYPE", "XDG_CURRENT_DESKTOP", "SYSTEMD_COLORS",
))  # fmt: skip

# Rows by value, for names that are harmless otherwise.
_FUNCTION = Risk("a shell takes it for a function", "")
_LOCALE = Risk("a path in it makes gettext(3) load messages, format strings, from there", "")
_LOCALES = ("LANG", "LC_")

_EXACT = {name: risk for risk in TABLE for name in risk.names.split() if not name.endswith("*")}
_PREFIXES = sorted(
    (
        (name.removesuffix("*"), risk)
        for risk in TABLE
        for name in risk.names.split()
        if name.endswith("*")
    ),
    key=lambda row: -len(row[0]),
)
_ANY_PREFIX = tuple(prefix for prefix, _ in _PREFIXES)


def risk_of(name: str, value: str) -> Risk | None:
    """The row that `name` belongs to, or None if anyone may set it to `value`."""
    risk = _row(name)
    if risk is not None:
        return risk
    if value.startswith("() {"):
        return _FUNCTION  # old shells import one under any name
    return _LOCALE if "/" in value and name.startswith(_LOCALES) else None


def _row(name: str) -> Risk | None:
    exact = _EXACT.get(name)
    if exact is not None or name in HARMLESS or not name.startswith(_ANY_PREFIX):
        return exact
    return next(risk for prefix, risk in _PREFIXES if name.startswith(prefix))
