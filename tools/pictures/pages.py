"""The pictures of pages: the site, as scripts/docs has built it, in a browser without a window."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1280, 860  # pixels: the site's three columns side by side
PATIENCE_S = 60


class NoBrowserError(Exception):
    """There is none to draw with; the message says where to get one."""


@dataclass(frozen=True, slots=True)
class PagePicture:
    """The top of a page."""

    name: str
    page: str
    """Below the folder of the site."""

    @property
    def file(self) -> str:
        return f"{self.name}.png"

    def draw(self, site: Path, browser: str) -> bytes:
        """The page as a browser shows it. Raises: CalledProcessError."""
        with tempfile.TemporaryDirectory() as folder:
            picture = Path(folder, "page.png")
            command = [browser, "--headless", "--hide-scrollbars", f"--user-data-dir={folder}/profile"]
            # The pages are the clone's own, so there is nothing to be kept in a sandbox, which root cannot have.
            command += ["--no-sandbox", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}"]
            subprocess.run([*command, (site / self.page).as_uri()], check=True, capture_output=True, timeout=PATIENCE_S)
            return picture.read_bytes()


PAGES = (
    PagePicture("page-index", "docs/index.html"),
    PagePicture("page-tutorial", "docs/tutorial.html"),
    PagePicture("page-settings", "docs/settings.html"),
)


def find_browser() -> str:
    """The path of one. Raises: NoBrowserError."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    raise NoBrowserError(f"no browser: none of {', '.join(BROWSERS)}; on Debian: apt-get install {BROWSERS[0]}")
