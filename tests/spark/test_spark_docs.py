"""docs/spark.md has every option there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.spark.kafka_options import _REFUSED, PREFIX
from kwire.spark.options import _KNOWN, OWN_OPTIONS

DOCS = (Path(__file__).parents[2] / "docs/spark.md").read_text()


@pytest.mark.parametrize("name", [*_KNOWN.values(), *OWN_OPTIONS.values(), *(PREFIX + name for name in _REFUSED)])
def test_every_option_is_in_the_table(name: str) -> None:
    assert f"`{name}`" in DOCS
