"""The lines a stand-in runs, and what it and the server say to each other — pure.

A stand-in relays signals up one pipe and takes the program's end from another, as lines. It is
the sandbox's process and not trusted: it can only name signals, and all it learns is a status.
"""

import os
import shlex
import signal

SHELL = "/bin/sh"
DESCRIPTORS = "/dev/fd"  # where the kernel sends the interpreter of a script without a path
NOT_STARTED = 126  # what a shell says of a program that cannot be executed

# A signal that comes just before sh blocks in `read` waits for the next line: send one of these
# now and then.
NUDGE = b"\n"

# PIPE would come of the relaying itself; the faults are sh's own; CHLD, STOP and KILL cannot be
# relayed (for KILL, watch the process).
_RELAYED = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM, signal.SIGCONT, signal.SIGURG),
    *(signal.SIGXCPU, signal.SIGVTALRM, signal.SIGPROF, signal.SIGWINCH, signal.SIGIO),
    signal.SIGPWR,
)
_STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # passed on, then obeyed
_KNOWN = frozenset(int(number) for number in (*_RELAYED, *_STOPPING))

# `read` fails when a signal comes (dash, busybox: 1; bash: 128 and more), as it does when the
# server has gone; only a trap sets n. It may then have lost the beginning of a line: each is sent
# thrice, and what is no whole line is passed over.
_RELAY = """\
#!{shell}
{opening}
exec {closing}
r() {{ n=1; echo $1 >&{signals}; }}
trap '' 13
{traps}
while :; do
n=
if read -r w v t <&{status}; then
case $w in
exit) exit $v;;
kill) ulimit -c 0; trap - $v; kill -$v $$; exit $t;;
esac
elif [ -z "$n" ]; then exit {lost}
fi
done
"""

# The same in Python, which can also hand over its descriptors: all but those named.
_HANDING = """\
#!{python} -IS
import array, os, signal, socket
own = {{{script}, {status}, {signals}, {channel}}}
names = [int(n) for n in os.listdir("/proc/self/fd")]
fds = [n for n in names if n not in own and os.path.exists("/proc/self/fd/%d" % n)]
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, {channel}) as channel:
    for n in fds:
        channel.sendmsg([b"%d\\n" % n], [(1, 1, array.array("i", [n]))])
for n in fds:
    os.close(n)
def relay(number, frame):
    os.write({signals}, b"%d\\n" % number)
    if number in {stopping}:
        os.kill(os.getpid(), signal.SIGSTOP)
for number in {relayed}:
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, relay)
said = b""
while said.count(b"\\n") < 3:
    more = os.read({status}, 512)
    if not more:
        os._exit({lost})
    said = (said + more).lstrip(b"\\n")
word, value, *rest = said.split(b"\\n")[0].split()
if word == b"kill":
    number = int(value)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    value = rest[0]
os._exit(int(value))
"""

_DENIAL = """\
#!{shell}
printf '%s\\n' {text} >&2
exit {status}
"""


def relay_script(status: int, signals: int) -> bytes:
    """A stand-in in sh. status, signals: numbers of its ends of the two pipes."""
    digits = [str(digit) for digit in range(10)]  # sh redirects only these
    opening: list[str] = []
    used: list[str] = []
    for number, mode in ((status, "<"), (signals, ">")):
        name = str(number)
        if name not in digits:
            taken = {str(status), str(signals), *used}
            name = next(digit for digit in reversed(digits) if digit not in taken)
            opening.append(f"exec {name}{mode}{DESCRIPTORS}/{number}")
        used.append(name)
    traps = [f"trap 'r {number:d}' {number:d}" for number in _RELAYED]
    traps += [f"trap 'r {number:d}; kill -19 $$' {number:d}" for number in _STOPPING]
    return _RELAY.format(
        shell=SHELL,
        opening="\n".join(opening),
        closing=" ".join(f"{digit}<&-" for digit in digits if digit not in used),
        status=used[0],
        signals=used[1],
        traps="\n".join(traps),
        lost=NOT_STARTED,
    ).encode()


def handing_script(python: str, script: int, status: int, signals: int, channel: int) -> bytes:
    """A stand-in in Python that first sends all its other descriptors over a stream socket."""
    text = _HANDING.format(
        python=python,
        script=script,
        status=status,
        signals=signals,
        channel=channel,
        stopping=sorted(map(int, _STOPPING)),
        relayed=sorted(_KNOWN),
        lost=NOT_STARTED,
    )
    return os.fsencode(text)


def denial_script(text: str, status: int) -> bytes:
    """Say `text` on stderr and exit with `status`."""
    return os.fsencode(_DENIAL.format(shell=SHELL, text=shlex.quote(text), status=status))


def ended(code: int, number: int | None) -> bytes:
    """What tells the stand-in how its program ended: exit code, or the signal it died of."""
    line = f"exit {code}\n" if number is None else f"kill {number} {128 + number}\n"
    return line.encode() * 3


def relayed(text: bytes) -> list[int]:
    """The signals named in what a stand-in wrote; anything else is passed over."""
    found = (int(line) for line in text.split(b"\n") if line.isdigit() and len(line) <= 2)
    return [number for number in found if number in _KNOWN]
