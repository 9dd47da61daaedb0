"""The command `ragtrace` and `python -m ragtrace`; one line says what to install where the command line is missing."""

from __future__ import annotations

import sys

from ragtrace.installation import missing_extra

__all__ = ["main"]


def main() -> int:
    """Run the command line on `sys.argv` and return the exit code."""
    try:
        from ragtrace import cli
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        print(f"ragtrace: {missing}", file=sys.stderr)
        return 2
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
