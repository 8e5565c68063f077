"""What Spark looks for by itself: packages named `pyspark_*` with a `DefaultSource`. The source is `kwire.spark`.

It is loaded when it is asked for: `pyspark_kwire.python`, beside it, has to start in no time.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the module `typing` takes longer than all the rest
if TYPE_CHECKING:
    from kwire.spark.source import KwireDataSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> type[DefaultSource]:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kwire.spark.source import KwireDataSource

    return KwireDataSource
