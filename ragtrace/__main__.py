"""`python -m ragtrace`: the same as the `ragtrace` command."""

from __future__ import annotations

import sys

from ragtrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
