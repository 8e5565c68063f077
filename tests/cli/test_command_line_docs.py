"""docs/command-line.md shows what commands print, and names what there is to choose."""

from __future__ import annotations

import pytest

from kwire.cli.formats import Format
from kwire.cli.value_formats import FORMATS
from tools.command_docs import PAGE, page

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_outputs_are_those_of_the_commands() -> None:
    """`python -m tools.command_docs` writes them."""
    assert page() == TEXT


@pytest.mark.parametrize("name", [*FORMATS, *(each.value for each in Format)])
def test_each_format_is_there(name: str) -> None:
    assert f"`{name}`" in TEXT
