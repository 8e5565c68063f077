"""numpy, imported at its first use. With the module in C a program that takes record by record does without it. The
import takes a tenth of a second, 25 MB, and at first a second processor.

Contract: `np` has what the module `numpy` has.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from kwire.imports_apart import ImportApart

if TYPE_CHECKING:
    import numpy as np

_NUMPY = ImportApart("numpy")


class _Numpy:
    """Whatever was asked for once is an attribute from then on."""

    def __getattr__(self, name: str) -> object:
        if "numpy" not in sys.modules:
            _NUMPY.begin()
            _NUMPY.finish()
        value: object = getattr(import_module("numpy"), name)
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    np = _Numpy()

__all__ = ["np"]
