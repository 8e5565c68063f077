"""What Spark looks for by itself: packages named `pyspark_*` with a `DefaultSource`. The source is `kwire.spark`."""

from __future__ import annotations

from kwire.spark.source import KwireDataSource as DefaultSource

__all__ = ["DefaultSource"]
