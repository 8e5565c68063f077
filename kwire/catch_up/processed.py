"""What a `Processor` commits of a partition: what its handlers have finished is not what was returned.

Records are returned by two cursors and finish in any order, so one offset does not say it. Of what the children have
returned everything is done but what is named here; what is done behind that stands in the metadata.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.model import OffsetAndMetadata
from kwire.offset_set import OffsetSet


class Unfinished(NamedTuple):
    """A part of what a child has returned, from the first record on that is not finished.

    Attributes:
        leader_epoch: Of the record in front of it, if it is known.
    """

    part: range
    leader_epoch: int | None = None


class Processed(NamedTuple):
    """Of one partition.

    Attributes:
        head: What the main cursor has returned is finished up to here; None: it has returned nothing.
        unfinished: Of what the children have returned.
        metadata: What goes along.
        told_to: The metadata says nothing of offsets from here on; None: it is the user's, and always goes along.
    """

    head: OffsetAndMetadata | None
    unfinished: tuple[Unfinished, ...] = ()
    metadata: str = ""
    told_to: int | None = None

    def metadata_at(self, offset: int) -> str:
        """What goes along with a commit of this offset, which says itself that all in front of it is done."""
        return "" if self.told_to is not None and self.told_to <= offset else self.metadata

    @property
    def kept(self) -> OffsetSet:
        """The offsets that no commit may cover."""
        return OffsetSet(each.part for each in self.unfinished)
