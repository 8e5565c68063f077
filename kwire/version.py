"""The version of the package, where packaging and the version handshake find it."""

from __future__ import annotations

__version__ = "0.9.0"
