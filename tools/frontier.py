"""Error against parity for every method: ``python -m tools.frontier``.

The same as ``fairspan bench frontier``, with the same options.
"""

from __future__ import annotations

import sys

from fairspan.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["bench", "frontier"]
    main()
