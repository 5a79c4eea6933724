"""What the packages compute, computed once.

Empty in a checkout, where the packages are asked at every start (about 60 ms). The built
executable carries what `python -m codex_multitool.sandbox.precompute OUT` writes in its place.
"""

# Right to bit, as the `landlock` package names them.
LANDLOCK_FS: dict[str, int] = {}

# (machine, filter name) to an array of struct sock_filter, as pyseccomp exports it.
FILTERS: dict[tuple[str, str], bytes] = {}
