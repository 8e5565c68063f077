"""What tests do with DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, Row

Read = Callable[[Mapping[str, str]], DataFrame]


def rows(frame: DataFrame) -> list[Row]:
    """All rows, in the order of the log."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))
