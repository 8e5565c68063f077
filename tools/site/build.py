"""Builds the site with Sphinx, and lists where it leads to elsewhere.

A link within the site that leads nowhere is a warning, and a warning fails. Links to other hosts are only listed, in
docs/_build/external-links.txt: whether they answer depends on the day.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "docs/_build"
HTML = BUILD / "html"
EXTERNAL_LINKS = BUILD / "external-links.txt"
_EXTERNAL = re.compile(r'<a class="[^"]*reference external[^"]*" href="(https?://[^"]+)"')


def main() -> int:
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-c", str(TOP / "docs")]
    done = subprocess.run([*command, "-d", str(BUILD / "doctrees"), str(TOP), str(HTML)], cwd=TOP, check=False)
    if done.returncode:
        return done.returncode
    pages = sorted(path for path in HTML.rglob("*.html") if "_modules" not in path.parts)
    links = sorted({link for page in pages for link in _EXTERNAL.findall(page.read_text(encoding="utf-8"))})
    EXTERNAL_LINKS.write_text("".join(f"{link}\n" for link in links), encoding="utf-8")
    print(f"{len(pages)} pages in {HTML.relative_to(TOP)}: no dead links, {len(links)} to other hosts")
    return 0
