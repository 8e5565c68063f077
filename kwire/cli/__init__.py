"""The `kwire` command. This file has only the entry point; `commands.py` has the commands.

Other programs read settings and write records with modules of this package, and start without the commands.
"""

from __future__ import annotations

import logging
import sys


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    from kwire.cli.checked_text import checked_text
    from kwire.cli.commands import app
    from kwire.cli.exits import FAILED, INTERRUPTED, LogLines
    from kwire.cli.output import OutputError

    logging.basicConfig(format="kwire: %(message)s", level=logging.WARNING, handlers=[LogLines()])
    try:
        with checked_text():
            app(prog_name="kwire")
    except OutputError as error:  # of the help, of the version, or of a command that only prints
        print(f"kwire: {error}", file=sys.stderr)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
