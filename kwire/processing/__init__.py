"""Many records in work at once, in order where order is wanted, committed when they are done.

`Processor` does all of it. Its parts can be had alone: `OrderedQueues` say which record may go next, a `Tracker` what
may be committed, `encode` and `decode` put what is finished behind a commit into its metadata.
"""

from __future__ import annotations

from kwire.processing.dead_letters import dead_letter_topic
from kwire.processing.offset_map import OffsetMap, decode, encode, is_offset_map
from kwire.processing.ordered_queues import OrderedQueues, Ordering, Work
from kwire.processing.policies import DeadLetter, OnDataLoss, OnFailure, Retry
from kwire.processing.processor import Processor
from kwire.processing.status import Status
from kwire.processing.tracker import Committable, Tracker

__all__ = [
    "DeadLetter",
    "OrderedQueues",
    "Committable",
    "OffsetMap",
    "OnDataLoss",
    "OnFailure",
    "Ordering",
    "Processor",
    "Retry",
    "Status",
    "Tracker",
    "Work",
    "dead_letter_topic",
    "decode",
    "encode",
    "is_offset_map",
]
