"""Where a new owner of a partition goes on, from what the two commit logs say.

Nothing is believed that could skip a record. Without a token of the same topic everything behind the group's offset is
undone: it may have been committed by a client that knows nothing of ranges. The head's log counts only in the
incarnation of the token: what a former owner wrote into it later says nothing about what the newer one has done.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from kwire.commit_metadata import users_metadata
from kwire.model import ZERO_UUID, OffsetAndMetadata
from kwire.offset_set import NO_OFFSETS, OffsetSet
from kwire.parallel_rebalance.token import Token, decode, decode_mark


class Recovered(NamedTuple):
    """What is known of a partition.

    Attributes:
        low: The group's own offset, with the user's metadata: everything in front of it is done.
        undone: The ranges that a former owner left.
        head: Nothing from here on is done.
    """

    low: OffsetAndMetadata
    undone: OffsetSet
    head: OffsetAndMetadata


def recover(committed: OffsetAndMetadata, head: OffsetAndMetadata | None, topic_id: UUID) -> Recovered:
    """Args:
    committed: What the group's own log has, metadata as it is there.
    head: What the head's log has, if anything.
    topic_id: Of the topic that has this name now; all zeros when it is not known.
    """
    low = OffsetAndMetadata(committed.offset, users_metadata(committed.metadata), committed.leader_epoch)
    token = decode(committed.metadata)
    if token is None or not _same(token.topic_id, topic_id):
        return Recovered(low, NO_OFFSETS, OffsetAndMetadata(low.offset, leader_epoch=low.leader_epoch))
    position = OffsetAndMetadata(max(token.head, low.offset), leader_epoch=token.head_epoch)
    if head is not None and head.offset > position.offset and _is_of(token, head, topic_id):
        position = OffsetAndMetadata(head.offset, leader_epoch=head.leader_epoch)
    undone = token.undone.within(range(low.offset, position.offset))
    return Recovered(low, undone, position)


def _is_of(token: Token, head: OffsetAndMetadata, topic_id: UUID) -> bool:
    mark = decode_mark(head.metadata)
    return mark is not None and mark.incarnation == token.incarnation and _same(mark.topic_id, topic_id)


def _same(one: UUID, other: UUID) -> bool:
    """Brokers before 2.8 have no topic ids (KIP-516)."""
    return one == other or ZERO_UUID in (one, other)
