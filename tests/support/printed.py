"""Lines that commands print, read again."""

import shlex


def command_lines(text):
    """The two lines that load a model: of the command line and of Python."""
    lines = [line.strip() for line in text.splitlines()]
    shell = next(line for line in lines if line.startswith("fairspan predict"))
    python = next(line for line in lines if line.startswith("fairspan.load_model"))
    return shlex.split(shell)[1:], python
