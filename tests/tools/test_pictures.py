"""Pictures in docs/pictures: those that the script makes, shown on pages, and true to what a terminal shows."""

from __future__ import annotations

import shlex
import sys
from xml.etree import ElementTree

import pytest

from tools.pictures.__main__ import FOLDER, MAX_BYTES
from tools.pictures.commands import COMMANDS
from tools.pictures.pages import PAGES, NoBrowserError, find_browser
from tools.pictures.terminal import CommandError, drawn, printed, typed

DOCS = FOLDER.parent
SVG = "{http://www.w3.org/2000/svg}"


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def text_of(svg: str) -> list[str]:
    """The pieces of text that it shows."""
    found = [(element.text or "").replace("\xa0", " ") for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    return [text for text in found if text.strip()]


def test_the_pictures_are_those_that_the_script_makes() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {picture.file for picture in (*COMMANDS, *PAGES)}


def test_they_are_small() -> None:
    assert [path.name for path in FOLDER.iterdir() if path.stat().st_size > MAX_BYTES] == []


def test_each_is_shown_on_a_page() -> None:
    pages = [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md"), DOCS.parent / "tools/README.md"]
    texts = "\n".join(page.read_text(encoding="utf-8") for page in pages if "_build" not in page.parts)
    assert [path.name for path in FOLDER.iterdir() if f"pictures/{path.name})" not in texts] == []


def test_a_command_sees_a_terminal_as_wide_as_the_picture() -> None:
    code = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns, os.environ['WORD'])"
    assert printed(python(code), columns=63, environment={"WORD": "yes"}) == "True 63 yes\n"


def test_what_a_command_wrote_before_it_emptied_the_screen_is_gone() -> None:
    assert printed(python(r"print('first\x1b[H\x1b[Jsecond')"), columns=40, environment={}) == "second\n"


def test_a_command_that_fails_makes_no_picture() -> None:
    with pytest.raises(CommandError, match=r"ended with 3, not 0:\s+oh no"):
        printed(python("print('oh no'); exit(3)"), columns=40, environment={})


def test_colours_are_in_the_picture_and_nothing_from_elsewhere() -> None:
    svg = drawn(typed("kwire x", "plain \x1b[31mred\x1b[0m\n"), name="x", columns=40)
    assert text_of(svg) == ["$", "kwire x", "plain ", "red"]
    assert "#ff7b72" in svg
    assert svg.replace("http://www.w3.org/2000/svg", "").count("://") == 0


def test_a_line_that_is_too_long_goes_on_in_the_next_one() -> None:
    assert text_of(drawn("abcdefghij", name="x", columns=4)) == ["abcd", "efgh", "ij"]


def test_without_a_browser_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoBrowserError, match="apt-get install chromium"):
        find_browser()
