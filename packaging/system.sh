#!/bin/sh
# What the machine itself must offer, and what .venv was made of.
#
#   system.sh python          print the interpreter to use: $PYTHON, the distribution's, or the first fit one found
#   system.sh install [WHAT]  install what is missing when apt-get and root are at hand; otherwise name all
#                             of it and fail. Silent when nothing is missing. WHAT: `shells`, with what
#                             building the patched shells takes; `tests`, with that and what the tests
#                             use: they are skipped without, so its lack is no failure.
#   system.sh identity PYTHON print what an environment depends on that is made of it
#   system.sh stale           print `again` where .venv is of another tree or interpreter
#   system.sh quietly LOG COMMAND...
#                             run the command, its output in LOG, which is shown if it fails
set -eu

candidates='python3 python3.14 python3.13 python3.12 python3.11'
# The distribution's, where nothing has to be installed for it, goes before another in PATH: every user
# can read it, it is kept up to date, and it is built for speed, which those that users build mostly are not.
distribution=${DISTRIBUTION_PYTHON:-/usr/bin/python3}

# Prints the version and what is missing; 0 if it fits, or will with packages of apt's.
survey='
import importlib.util, os, sys, sysconfig
lacks = ""
if not importlib.util.find_spec("venv") or not importlib.util.find_spec("ensurepip"):
    lacks += " without venv"
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    lacks += " without headers"
print("%d.%d.%d%s" % (sys.version_info[:3] + (lacks,)))
ours = not os.path.realpath(sys.executable).startswith("/usr/bin/")
sys.exit(sys.version_info < (3, 11) or bool(lacks and ours))
'

has() { command -v "$1" >/dev/null; }

find_python() {
    if [ -z "${PYTHON:-}" ] && found=$("$distribution" -IS -c "$survey" 2>/dev/null) && [ "$found" = "${found% without*}" ]; then
        echo "$distribution"
        return
    fi
    for candidate in ${PYTHON:-$candidates}; do
        if has "$candidate" && "$candidate" -IS -c "$survey" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# What was looked at.
tell_pythons() {
    found=
    for candidate in ${PYTHON:-$candidates}; do
        version=$("$candidate" -IS -c "$survey" 2>/dev/null) || [ -n "$version" ] || continue
        found="$found${found:+, }$candidate is $version"
    done
    echo "Python 3.11 or newer is wanted. Found: ${found:-none of ${PYTHON:-$candidates}}."
}

# The packages of the first fit Python that apt knows of; nothing if it knows of none that fits.
offered_python() {
    known=
    has apt-cache && for package in $candidates; do
        version=$(LC_ALL=C apt-cache policy "$package" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p')
        [ -n "$version" ] || continue
        known=yes
        minor=${version#3.}
        if [ "${version%%.*}" = 3 ] && [ "${minor%%[!0-9]*}" -ge 11 ]; then
            echo "$package" "$package-venv" "$package-dev"
            return
        fi
    done
    # Debian's names where there is no apt, or it has no lists yet
    [ -n "$known" ] || echo python3 python3-venv python3-dev
}

# The header exists, for the compiler that will look for it.
header() {
    echo "#include <$1>" | gcc -E - >/dev/null 2>&1
}

missing_python() {
    if ! python=$(find_python); then
        offered_python
        return
    fi
    found=$("$python" -IS -c "$survey")
    version=${found%% *}
    case $found in *venv*) echo "python${version%.*}-venv" ;; esac
    case $found in *headers*) echo "python${version%.*}-dev" ;; esac
}

missing_for_build() {
    has gcc || echo gcc
    header stdlib.h || echo libc6-dev
    header sys/capability.h || echo libcap-dev
    ldconfig=$(PATH=$PATH:/sbin:/usr/sbin command -v ldconfig) || ldconfig=true
    "$ldconfig" -p | grep -q 'libseccomp\.so\.2' || echo libseccomp2
    has git || echo git
}

missing_for_shells() {
    has patch || echo patch
    has dpkg-source || echo dpkg-dev
    header term.h || echo libncurses-dev
}

missing_for_tests() {
    for program in bash dash busybox zsh fish tmux; do
        has "$program" || echo "$program"
    done
}

# What is needed, and what is wanted besides; lists of names in one line each.
look() {
    # shellcheck disable=SC2046
    needed=$(echo $(missing_python; missing_for_build; [ "$1" != shells ] || missing_for_shells))
    # shellcheck disable=SC2046
    wanted=$(echo $([ "$1" != tests ] || { missing_for_shells; missing_for_tests; }))
}

no_python() {
    tell_pythons
    if [ -n "${PYTHON:-}" ]; then
        echo "Nothing was installed: PYTHON=... has to name one that fits."
    else
        echo "Nothing was installed: apt-get has none that fits. PYTHON=... names one that came another way."
    fi
}

name_missing() {
    echo "Missing on this machine. On Debian or Ubuntu, as root:"
    echo "    apt-get install $*"
    echo "then run the same command again."
    tell_pythons
}

quietly() {
    log=$1
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 && return
    status=$?
    echo "$1 failed with status $status. Its output is in $log and ends:" >&2
    tail -n 15 "$log" >&2
    return $status
}

apt_install() {
    echo "Installing $*"
    quietly build/apt.log apt-get -q -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@"
}

can_install() { [ "$(id -u)" = 0 ] && has apt-get; }

install() {
    look "$1"
    if [ -n "$needed$wanted" ] && can_install; then
        quietly build/apt.log apt-get -q update || true  # what cannot be had is told below
        look "$1"
    fi
    if ! find_python >/dev/null && { [ -n "${PYTHON:-}" ] || [ -z "$(offered_python)" ]; }; then
        no_python >&2
        return 1
    fi
    if [ -n "$needed$wanted" ] && can_install; then
        export DEBIAN_FRONTEND=noninteractive
        # shellcheck disable=SC2086  # lists of names; without those that are only wanted if they fail
        apt_install $needed $wanted || [ -z "$needed" ] || [ -z "$wanted" ] || apt_install $needed || true
        look "$1"
    fi
    if [ -n "$needed" ]; then
        # shellcheck disable=SC2086
        name_missing $needed $wanted >&2
        return 1
    fi
    [ -z "$wanted" ] || echo "Not installed: $wanted; the tests that need them are skipped."
}

identity() {
    pwd -P
    "$1" -IS -c 'import os, sys; print(os.path.realpath(sys.executable)); print(sys.version)'
}

stale() {
    [ -e .venv/.ready ] || return 0
    made=$(cat .venv/.ready)
    for python in .venv/bin/python ${PYTHON:-}; do
        [ "$(identity "$python" 2>/dev/null)" = "$made" ] || { echo again; return; }
    done
}

case ${1:-} in
    python) find_python || { tell_pythons >&2; exit 1; } ;;
    install) install "${2:-}" ;;
    identity) identity "$2" ;;
    stale) stale ;;
    quietly) shift; quietly "$@" ;;
    *)
        echo "usage: system.sh python | install [shells|tests] | identity PYTHON | stale | quietly LOG COMMAND..." >&2
        exit 2
        ;;
esac
