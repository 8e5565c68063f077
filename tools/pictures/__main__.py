"""`python -m tools.pictures [NAME...]`: makes the pictures, or some of them, in docs/pictures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.pictures.commands import COMMANDS, group_at_work
from tools.pictures.pages import PAGES, NoBrowserError, find_browser
from tools.site.build import HTML

FOLDER = Path(__file__).parents[2] / "docs/pictures"
MAX_BYTES = 300_000


def main(names: Sequence[str] = ()) -> int:
    """Those of commands, and those of pages if there is a browser."""
    FOLDER.mkdir(exist_ok=True)
    failed = False
    try:
        for file, data in made(names):
            (FOLDER / file).write_bytes(data)
            print(f"docs/pictures/{file}: {len(data):,} bytes")
            failed |= len(data) > MAX_BYTES
    except NoBrowserError as error:
        print(f"the pictures of pages stay as they are: {error}", file=sys.stderr)
        return 1
    return 1 if failed else 0


def made(names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Each picture's file, and what is in it. Raises: NoBrowserError, CommandError."""
    commands = [picture for picture in COMMANDS if picture.name in (names or [picture.name])]
    if commands:
        with group_at_work() as server:
            for command in commands:
                yield command.file, command.draw(server).encode()
    for page in PAGES:
        if page.name in (names or [page.name]):
            yield page.file, page.draw(HTML, find_browser())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
