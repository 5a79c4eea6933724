#!/bin/bash
# Run a make target on a machine that has nothing but Debian, git and make: a folder with a release in it.
#
#   empty_machine.sh [--user] [--plain] [--no-sys] SUITE TARGET [VARIABLE=VALUE]...
#
#   --user    as an ordinary user, for whom root installs exactly what the target names, once
#   --plain   on the file system of the cache folder; otherwise on an overlay of it
#   --no-sys  without /sys
#
# Needs root, debootstrap and Debian's keys. The releases are kept in $CODEX_MULTITOOL_CACHE/machines, by default
# in ~/.cache/codex-multitool/machines; MIRROR names another mirror than apt's first. What is run sees the tracked and the new files of
# the checkout, this machine's settings of apt and pip, and processes of its own only, which all end with it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${CODEX_MULTITOOL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/codex-multitool}/machines
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed -n 1p)}
who=root plain='' sys=yes

die() { echo "empty_machine.sh: $*" >&2; exit 2; }

given=("$@")
while [[ ${1:-} == --* ]]; do
    case $1 in
        --user) who=somebody ;;
        --plain) plain=yes ;;
        --no-sys) sys='' ;;
        *) die "no such option: $1" ;;
    esac
    shift
done
(($# >= 2)) || die "usage: [--user] [--plain] [--no-sys] SUITE TARGET [VARIABLE=VALUE]..."
suite=$1
shift

if [[ -z ${INSIDE:-} ]]; then
    ((EUID == 0)) || die "a machine is made by root only"
    base=$cache/$suite
    if [[ ! -d $base ]]; then
        command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
        echo "Making $base"
        mkdir -p "$cache"
        rm -rf "$base.new"
        debootstrap --variant=minbase --include=ca-certificates "$suite" "$base.new" "$mirror" >"$base.log" 2>&1 ||
            die "debootstrap failed; its output: $base.log"
        mv "$base.new" "$base"
    fi
    work=$(mktemp -d "$cache/.$suite-XXXXXX")
    trap 'rm -rf --one-file-system "$work"' EXIT
    INSIDE=$work unshare --mount --pid --fork --kill-child "$0" "${given[@]}"
    exit
fi

machine=$INSIDE/root
mkdir "$machine"
if [[ -n $plain ]]; then
    cp -a "$cache/$suite/." "$machine"
else
    mkdir "$INSIDE/upper" "$INSIDE/work"
    mount -t overlay -o "lowerdir=$cache/$suite,upperdir=$INSIDE/upper,workdir=$INSIDE/work" none "$machine"
fi
mount -t proc proc "$machine/proc"
[[ -z $sys ]] || mount --rbind /sys "$machine/sys"
mount --rbind /dev "$machine/dev"

# This machine's way to the packages.
cp -L /etc/resolv.conf /etc/hosts "$machine/etc"
apt-config dump Acquire | grep -E '^Acquire::(https?|Check|Retries)' >"$machine/etc/apt/apt.conf.d/99machine" || true
mkdir -p "$machine/etc/ssl/certs" "$machine/etc/xdg"
cp -L /etc/ssl/certs/ca-certificates.crt "$machine/etc/ssl/certs"
for settings in /etc/pip.conf /etc/xdg/pip; do
    [[ ! -e $settings ]] || cp -rL "$settings" "$machine$settings"
done
if command -v pip >/dev/null; then  # indexes in folders of this machine
    pip config list | grep -oE 'file:/*/[^ '"'"']+' | sed 's,^file:/*,/,' | while read -r index; do
        mkdir -p "$machine$index"
        mount --bind -o ro "$index" "$machine$index"
    done
fi

inside() { # USER COMMAND...
    local user=$1 home=/root
    shift
    [[ $user == root ]] || home=/home/$user
    env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin HOME="$home" USER="$user" LANG=C.UTF-8 \
        TERM=dumb $(env | grep -oE '^(PIP_[A-Z_]+|https?_proxy|no_proxy)=[^ ]*$' || true) \
        chroot --userspec="$user" "$machine" "$@"
}

quietly() {
    inside root "$@" >"$INSIDE/log" 2>&1 || { tail -n 20 "$INSIDE/log"; die "failed: $*"; }
}

quietly apt-get -q update
quietly apt-get -q install -y --no-install-recommends git make
home=/root
if [[ $who != root ]]; then
    home=/home/$who
    quietly useradd --create-home --shell /bin/bash "$who"
fi
tree=$home/codex-multitool
mkdir "$machine$tree"
git -C "$here" ls-files -z --cached --others --exclude-standard |
    tar -C "$here" --null --ignore-failed-read -T - -c 2>/dev/null | tar -C "$machine$tree" -x --no-same-owner
quietly chown -R "$who:" "$tree"

attempt() {
    local status=0 from=$SECONDS
    inside "$who" make -C "$tree" "$@" </dev/null 2>&1 | tee "$INSIDE/told" || status=$?
    echo "== $suite, $who: make $* ended with status $status after $((SECONDS - from)) s"
    return $status
}

if ! attempt "$@"; then
    named=$(sed -n 's/^    \(apt-get install .*\)$/\1/p' "$INSIDE/told")
    [[ $who != root && -n $named ]] || exit 1
    echo "== as root: $named"
    # shellcheck disable=SC2086  # a command line
    quietly env DEBIAN_FRONTEND=noninteractive $named -y
    attempt "$@"
fi
