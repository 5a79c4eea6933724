"""Start the role named by argv[0]."""

import sys

from codex_multitool.roles import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
