"""The command line."""

from fairspan.cli.entry import app, main

__all__ = ["app", "main"]
