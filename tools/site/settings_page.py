"""`python -m tools.site.settings_page`: writes docs/settings.md, from the settings that kwire has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ForwardRef

from kwire.config.docs import SettingDoc, docs
from kwire.config.settings import AllSettings
from tools.site.settings_guide import GUIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
MARK = "<!-- written by python -m tools.site.settings_page, do not edit -->\n"
MAX_VALUES = 90  # characters; a longer list is in the error that a wrong value gets


def page() -> str:
    """The page with the tables as they have to be."""
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return head + MARK + "".join(_sections())


def _sections() -> Iterator[str]:
    known = {found.name: found for found in docs()}
    types = AllSettings.__annotations__
    for title, settings in GUIDE.items():
        yield f"\n## {title}\n"
        for name, when in settings.items():
            yield _setting(known[name], _type(types[name]), when)


def _setting(found: SettingDoc, type_text: str, when: str) -> str:
    valid = f" Valid: {found.valid}." if len(found.valid) <= MAX_VALUES else ""
    return (
        f"\n### `{found.name}`\n\n"
        f"{found.doc}{valid}\n\n"
        f"| type | default | when to change it |\n|---|---|---|\n"
        f"| `{_cell(type_text)}` | {_cell(found.default)} | {_cell(when)} |\n"
    )


def _type(annotation: object) -> str:
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else str(annotation)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
