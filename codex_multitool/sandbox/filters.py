"""Which system call filter a policy needs, and its bytes.

Three answers to what sockets may be made:

  network  the network is on: IP, AF_UNIX and AF_NETLINK sockets
  unix     it is off, and Landlock tells sockets of outside apart: AF_UNIX sockets
  pairs    it is off, and Landlock cannot: connected AF_UNIX pairs

and what else is refused:

  +read-only    changes of file metadata
  +no-truncate  ways to empty a file that Landlock does not see yet
"""

from codex_multitool.sandbox import prepared
from codex_multitool.sandbox.landlock import guards_unix_sockets, sees_truncation
from codex_multitool.sandbox.policy import READ_ONLY, SandboxPolicy

if not prepared.FILTERS:
    from codex_multitool.sandbox.seccomp import build

SOCKETS = ("network", "unix", "pairs")
METADATA_KEPT = "+read-only"
TRUNCATION_KEPT = "+no-truncate"
NAMES = tuple(
    sockets + metadata + truncation
    for sockets in SOCKETS
    for metadata in ("", METADATA_KEPT)
    for truncation in ("", TRUNCATION_KEPT)
    if not (truncation and sockets == "unix")
)

_built: dict[tuple[str, str], bytes] = {}


def filter_name(policy: SandboxPolicy, abi: int) -> str | None:
    """The filter for a policy on a kernel with this Landlock ABI; None if it needs none."""
    if policy.full_write and policy.full_network:
        return None
    if policy.full_network:
        sockets = "network"
    elif guards_unix_sockets(policy, abi):
        sockets = "unix"
    else:
        sockets = "pairs"
    # Under read-only no file may change, so chmod(2) and its like, which Landlock does not
    # govern, can be refused whole. Elsewhere a path would have to be judged.
    metadata = METADATA_KEPT if policy.kind == READ_ONLY else ""
    return sockets + metadata + ("" if sees_truncation(policy, abi) else TRUNCATION_KEPT)


def filter_bytes(machine: str, name: str) -> bytes | None:
    """The program, an array of struct sock_filter; None for a machine it was not made for."""
    if prepared.FILTERS:
        return prepared.FILTERS.get((machine, name))
    if (machine, name) not in _built:
        program = build(machine, name)
        if program is None:
            return None
        _built[machine, name] = program
    return _built[machine, name]
