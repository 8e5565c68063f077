"""The `kwire` command. This file has only the entry point; `commands.py` has the commands.

Other programs read settings and write records with modules of this package, and start without the commands.
"""

from __future__ import annotations

import logging
import sys


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    from kwire.cli.commands import app
    from kwire.cli.exits import INTERRUPTED, LogLines

    logging.basicConfig(format="kwire: %(message)s", level=logging.WARNING, handlers=[LogLines()])
    try:
        app(prog_name="kwire")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
