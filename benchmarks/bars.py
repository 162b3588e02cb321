"""The numbers an issue promises: ``python -m benchmarks.bars core`` (``make bars-core``).

Each name is a module ``benchmarks.bars_NAME`` with a function ``bars()`` that yields rows.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.table import show


def main() -> int:
    """Print the table of the named issue; exit code 1 on a miss, 2 on an unknown name."""
    known = sorted(p.stem.removeprefix("bars_") for p in Path(__file__).parent.glob("bars_*.py"))
    if len(sys.argv) != 2 or sys.argv[1] not in known:
        print(
            f"usage: python -m benchmarks.bars NAME, NAME one of: {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    return show(importlib.import_module(f"benchmarks.bars_{sys.argv[1]}").bars())


if __name__ == "__main__":
    sys.exit(main())
