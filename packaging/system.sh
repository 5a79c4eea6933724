#!/bin/sh
# What the machine itself must offer before the project can be set up.
#
#   system.sh python    print the interpreter to use: $PYTHON, or the first fit one found
#   system.sh install   install what is missing when apt-get and root are at hand; otherwise
#                       print what to install and fail. Silent when nothing is missing.
#   system.sh shells    install the shells the tests use, when apt-get and root are at hand;
#                       otherwise say which are missing: their tests are skipped.
set -eu

fit='import sys; sys.exit(sys.version_info < (3, 11))'

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if command -v "$candidate" >/dev/null && "$candidate" -c "$fit" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# The header exists, for the compiler that will look for it.
header() {
    echo "#include <$1>" | gcc -E ${2:+-I"$2"} - >/dev/null 2>&1
}

# The Debian packages that are missing, by what they are to provide.
missing() {
    if python=$(find_python); then
        minor=$("$python" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
        include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
        "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "python$minor-venv"
        [ -e "$include/Python.h" ] || echo "python$minor-dev"
    else
        echo python3 python3-venv python3-dev
    fi
    command -v gcc >/dev/null || echo gcc
    header stdlib.h || echo libc6-dev
    header sys/capability.h || echo libcap-dev
    ldconfig=$(PATH=$PATH:/sbin:/usr/sbin command -v ldconfig) || ldconfig=true
    "$ldconfig" -p | grep -q 'libseccomp\.so\.2' || echo libseccomp2
    command -v git >/dev/null || echo git
    command -v dpkg-source >/dev/null || echo dpkg-dev
}

missing_shells() {
    for shell in bash dash busybox zsh fish; do
        command -v "$shell" >/dev/null || echo "$shell"
    done
}

apt_install() {
    echo "Installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "$@"
}

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

shells() {
    packages=$(missing_shells | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086  # a list of names
    { can_install && apt_install $packages; } ||
        echo "Not installed: $packages- the tests that need them are skipped."
}

install() {
    packages=$(missing | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    if ! can_install; then
        echo "Missing on this machine. On Debian or Ubuntu, as root:" >&2
        echo "    apt-get install $packages" >&2
        echo "then run the same command again." >&2
        return 1
    fi
    # shellcheck disable=SC2086  # a list of names
    apt_install $packages
    packages=$(missing | tr '\n' ' ')
    if [ -n "$packages" ]; then
        echo "Still missing: $packages" >&2
        echo "Python must be 3.11 or newer, with its headers; PYTHON=... names one." >&2
        return 1
    fi
}

case ${1:-} in
    python) find_python || { echo "no Python >= 3.11 found; PYTHON=... names one" >&2; exit 1; } ;;
    install) install ;;
    shells) shells ;;
    *) echo "usage: system.sh python | install | shells" >&2; exit 2 ;;
esac
