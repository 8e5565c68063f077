"""Loads what decoding needs while the application waits for its first records. That takes about as long as they do."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kwire import speedups
from kwire.imports_apart import ImportApart

if TYPE_CHECKING:
    from kwire.fetching.open_fetch import OpenFetch

# Without the module in C all is decoded with numpy.
DECODING = ImportApart("fastcrc", *(() if speedups.module is not None else ("numpy",)), "kwire.fetching.open_fetch")


@cache
def loaded_open_fetch() -> type[OpenFetch]:
    """The class that decodes a fetch, and all it needs. Kept: for a fetch of one record an import statement is much."""
    DECODING.begin()
    DECODING.finish()
    from kwire.fetching.open_fetch import OpenFetch

    return OpenFetch
