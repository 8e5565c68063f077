"""The options of fresh-first reading. Pure but for a look into the checkpoint for the state of a query.

A query with state may not be read fresh-first by accident: what is backfilled comes late, and behind a watermark Spark
drops it without a word. A source in Python is not told what its query does. But Spark writes down the state's schema in
the checkpoint before it asks for the first batch's ranges, so kwire sees it there in time, if it is told where that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kwire.spark.errors import OptionError
from kwire.spark.fresh_first.advance import BatchLimits
from kwire.spark.initial_offsets import file_system
from kwire.spark.option_values import GivenOptions

OPTIONS = ("kwire.freshFirst", "kwire.freshOffsetsPerTrigger", "kwire.backfillOffsetsPerTrigger")
# About a second each for records of 100 bytes on a core: what a batch may take on top without being felt.
DEFAULT_FRESH = 1_000_000
DEFAULT_BACKFILL = 1_000_000
# Options that bound a batch in another way.
_OTHER_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


class State(Enum):
    """What the option says about the state of the query."""

    REFUSED = "true"
    """Looked for in the checkpoint, and refused."""

    KNOWN_ABSENT = "stateless"
    """The user says that there is none."""

    ALLOWED = "stateful"
    """The user knows that rows of the backfill may come behind a watermark."""


@dataclass(frozen=True, slots=True)
class FreshFirst:
    """How a query is read fresh-first."""

    limits: BatchLimits
    state: State


def fresh_first_options(given: GivenOptions) -> FreshFirst | None:
    """How a query is read fresh-first; None if it reads in order.

    Raises:
        OptionError: They make no sense, or none together with others.
    """
    word = given.get("kwire.freshFirst", "false").lower()
    if word == "false":
        if said := [name for name in OPTIONS[1:] if name in given]:
            raise OptionError(f"Option '{said[0]}' is for kwire.freshFirst, which is not set")
        return None
    if word not in [state.value for state in State]:
        raise OptionError(
            f"Option 'kwire.freshFirst': {word!r} is none of false, true, stateless (the query keeps no state, and "
            "kwire does not have to look) and stateful (it may, and rows behind its watermark may be dropped)"
        )
    if clash := [name for name in _OTHER_LIMITS if name in given]:
        raise OptionError(
            f"Option '{clash[0]}' does not go with kwire.freshFirst, which has kwire.freshOffsetsPerTrigger and "
            "kwire.backfillOffsetsPerTrigger"
        )
    if word == State.REFUSED.value and "kwire.checkpointLocation" not in given:
        raise OptionError(
            "Option 'kwire.freshFirst': queries that keep state are refused, for which kwire looks into the "
            "checkpoint: set kwire.checkpointLocation to it as well. Or say stateless instead of true, if the query "
            "keeps none"
        )
    limits = BatchLimits(
        fresh=_limit(given, "kwire.freshOffsetsPerTrigger", DEFAULT_FRESH),
        backfill=_limit(given, "kwire.backfillOffsetsPerTrigger", DEFAULT_BACKFILL),
    )
    return FreshFirst(limits, State(word))


def refuse_state(fresh: FreshFirst, checkpoint_location: str | None) -> None:
    """Raises: OptionError, if the checkpoint has the state of a query that must not have any."""
    if fresh.state is not State.ALLOWED and checkpoint_location is not None and has_state(checkpoint_location):
        raise OptionError(
            "Option 'kwire.freshFirst': this query keeps state, and what is read late would come behind its watermark, "
            "where Spark drops it. Read in order, or do both in two queries; or say stateful, if that is no loss"
        )


def has_state(checkpoint_location: str) -> bool:
    """Whether the checkpoint is that of a query with state: one of its operators has written its metadata. That is the
    file `_metadata/metadata`, or of `transformWithState` one for each change of its schema, in `_metadata/v2`."""
    from pyarrow.fs import FileSelector, FileType

    files, top = file_system(checkpoint_location)
    for operator in files.get_file_info(FileSelector(f"{top.rstrip('/')}/state", allow_not_found=True)):
        metadata = FileSelector(f"{operator.path}/_metadata", allow_not_found=True, recursive=True)
        if any(found.type is FileType.File for found in files.get_file_info(metadata)):
            return True
    return False


def _limit(given: GivenOptions, name: str, default: int) -> int:
    number = given.long(name)
    if number is None:
        return default
    if number < 1:
        raise OptionError(f"Option '{name}' must be positive, not {number}")
    return number
