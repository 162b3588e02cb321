"""Measured numbers beside their limits: ``python -m tools.acceptance core`` (``make acceptance-core``).

Each name is a module ``tools.acceptance_NAME`` with a function ``measurements()`` that yields rows.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from tools.table import show


def main() -> int:
    """Print the table of that name; exit code 1 on a miss, 2 on an unknown name."""
    known = sorted(
        p.stem.removeprefix("acceptance_") for p in Path(__file__).parent.glob("acceptance_*.py")
    )
    if len(sys.argv) != 2 or sys.argv[1] not in known:
        print(
            f"usage: python -m tools.acceptance NAME, NAME one of: {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    return show(importlib.import_module(f"tools.acceptance_{sys.argv[1]}").measurements())


if __name__ == "__main__":
    sys.exit(main())
