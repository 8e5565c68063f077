"""Many records in work at once: what is finished, and what a commit may say of it."""

from __future__ import annotations

from kwire.processing.lanes import Lanes, Ordering, Work
from kwire.processing.offset_map import OffsetMap, decode, encode, is_offset_map
from kwire.processing.tracker import Offer, Tracker

__all__ = ["Lanes", "Offer", "OffsetMap", "Ordering", "Tracker", "Work", "decode", "encode", "is_offset_map"]
