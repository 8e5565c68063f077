"""Pages agree with what kwire is: messages are its own, settings are all there, cells of tables lead somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kwire
from kwire.config import SETTINGS
from tools.site.settings_guide import GUIDE
from tools.site.settings_page import PAGE, page

if TYPE_CHECKING:
    from tests.docs.snippets import PAGES, TOP
else:
    from snippets import PAGES, TOP

DOCS = TOP / "docs"
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)(?P<target>[^)#\s]*)(?:#[^)\s]*)?\)")
MIN_FRAGMENT = 6
COLUMNS_OF_CODE = 96  # tools/site/static/site.css makes room for them


def test_the_page_of_settings_is_up_to_date() -> None:
    """`python -m tools.site.settings_page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_of_each_setting_is_said_when_to_change_it() -> None:
    """In tools/site/settings_guide.py."""
    said = [name for settings in GUIDE.values() for name in settings]
    assert sorted(said) == sorted(SETTINGS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(TOP)))
def test_links_lead_to_files_that_are_there(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = {found["target"] for found in LINK.finditer(text) if found["target"]}
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", [path for path in PAGES if DOCS in path.parents], ids=lambda path: path.stem)
def test_lines_of_python_are_as_wide_as_the_site_shows(path: Path) -> None:
    pieces = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert [line for piece in pieces for line in piece.splitlines() if len(line) > COLUMNS_OF_CODE] == []


def test_each_page_is_in_the_table_of_contents() -> None:
    """That of docs/index.md, or of a folder's own index.md."""
    for folder in (DOCS, DOCS / "howto", DOCS / "api"):
        tables = re.findall(r"```{toctree}\n(.*?)```", (folder / "index.md").read_text(encoding="utf-8"), re.DOTALL)
        listed = set("\n".join(tables).splitlines())
        pages = {path.stem for path in folder.glob("*.md")} - {"index"}
        assert pages - listed == set(), f"{folder.relative_to(TOP)}/index.md does not list them"


def rows(path: Path) -> Iterator[list[str]]:
    """Cells of the tables of a page, without headings."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and not below.startswith("|---"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]


def test_each_cell_of_kwire_in_the_feature_table_leads_to_a_test_or_a_page() -> None:
    cells = [row[1] for row in rows(DOCS / "features.md")]
    assert len(cells) > 30
    assert [cell for cell in cells if not LINK.fullmatch(cell)] == []
    assert {len(row) for row in rows(DOCS / "features.md")} == {7}


def test_each_kip_of_a_consumer_leads_to_what_shows_it() -> None:
    found = [row for row in rows(DOCS / "compatibility.md") if len(row) == 4]
    assert len(found) > 25
    assert [kips for kips, _what, state, shown in found if not shown and not state.startswith("no")] == []


# --- messages ---------------------------------------------------------------------------------------------------------


def texts_of_kwire() -> str:
    """All texts in the source; what is filled in is a gap."""
    return "\n".join(
        text
        for path in (TOP / "kwire").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (text := text_of(node))
    )


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%[-.0-9]*[a-z]", "\0", node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) or "\0" for value in node.values)
    return ""


def test_messages_that_are_explained_are_messages_of_kwire() -> None:
    texts = texts_of_kwire()
    messages = [message[1] for row in rows(DOCS / "troubleshooting.md") if (message := re.match(r"`(.+?)`", row[0]))]
    assert len(messages) > 50
    fragments = {
        fragment.strip(" :;,")
        for message in messages
        for fragment in message.split("…")
        if len(fragment.strip(" :;,")) >= MIN_FRAGMENT
    }
    assert sorted(fragment for fragment in fragments if fragment not in texts) == []


# --- the API ----------------------------------------------------------------------------------------------------------


def test_each_public_name_is_in_the_reference() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"kwire\.(\w+)$", pages, re.MULTILINE)) | set(vars(kwire.errors))
    assert set(kwire.__all__) - {"__version__"} - shown == set()


# --- the first page ---------------------------------------------------------------------------------------------------


def test_the_readme_is_short_and_begins_with_what_pip_installs() -> None:
    text = (TOP / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    (\S.*)$", text, re.MULTILINE)
    assert commands[:2] == ["pip install kwire", "kwire demo"]
    assert len(text.splitlines()) <= 90


def test_the_readme_names_the_commands_of_a_clone() -> None:
    text = (TOP / "README.md").read_text(encoding="utf-8")
    assert {"scripts/demo", "scripts/test", "scripts/test --fast"} <= {
        command.partition("#")[0].strip() for command in re.findall(r"^    (scripts/.*)$", text, re.MULTILINE)
    }
