"""Many records in work at once: what is finished, and what a commit may say of it."""

from __future__ import annotations

from kwire.processing.offset_map import OffsetMap, decode, encode, is_offset_map
from kwire.processing.tracker import Offer, Tracker

__all__ = ["Offer", "OffsetMap", "Tracker", "decode", "encode", "is_offset_map"]
