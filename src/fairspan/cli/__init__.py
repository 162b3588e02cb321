"""The command line."""

from fairspan.cli.main import main

__all__ = ["main"]
