"""`python -m tools.site`: builds the site into docs/_build/html. `scripts/docs` runs it.

With --pictures the pictures of docs/pictures are made again: outputs of commands, and pages of the site.
"""

from __future__ import annotations

import argparse
import sys

from tools.site.build import main


def run() -> int:
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Builds the site into docs/_build/html.")
    parser.add_argument("--pictures", action="store_true", help="make the pictures of docs/pictures as well")
    wanted = parser.parse_args().pictures
    failed = main()
    if failed or not wanted:
        return failed
    from tools.pictures.__main__ import main as make_pictures

    return make_pictures()


if __name__ == "__main__":
    sys.exit(run())
