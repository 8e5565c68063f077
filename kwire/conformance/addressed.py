"""A check of every answer: it has to be about the partitions that the request names.

Most checks read the only partition of an answer without looking at its name, so this is checked for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from kwire.conformance.expectations import expect
from kwire.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.protocol.messages.delete_records import DeleteRecordsRequest
from kwire.protocol.messages.describe_producers import DescribeProducersRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.protocol.messages.produce import ProduceRequest
from kwire.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.protocol.schema import Structure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.protocol.schema import Message, Request

Place: TypeAlias = "tuple[str | UUID, int]"
"""A topic, by name or by id as the version has it, and a partition."""

ASK_FOR_PARTITIONS = (
    AddPartitionsToTxnRequest,
    DeleteRecordsRequest,
    DescribeProducersRequest,
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
_PARTITION_FIELDS = ("partition", "partition_index", "index")
_TOPIC_FIELDS = ("topic", "name", "topic_id")
_NO_ID = UUID(int=0)


def expect_about(request: Request[Message], answer: Message) -> None:
    """Raises: NonconformanceError, if the answer has a partition that the request does not name."""
    if not isinstance(request, ASK_FOR_PARTITIONS) or _asks_for_unnamed(request):
        return
    asked = set(places(request))
    others = [f"{topic}-{partition}" for topic, partition in places(answer) if (topic, partition) not in asked]
    expect(not asked or not others, f"the answer has {others[:3]}, and {sorted(map(str, asked))[:3]} were asked for")


def _asks_for_unnamed(request: Request[Message]) -> bool:
    """Whether the answer may have partitions that the request does not name."""
    if isinstance(request, FetchRequest):
        return request.session_epoch > 0  # a later request of a fetch session names only changes (KIP-227)
    # Without topics, a request about a group asks for all of its offsets.
    return isinstance(request, OffsetFetchRequest) and any(group.topics is None for group in request.groups)


def places(structure: Structure) -> Iterator[Place]:
    """The partitions that a message names; one that has the topic's name and its id, by both."""
    values = {name: getattr(structure, name) for name in structure._marks if name != "_unknown_tagged_fields"}
    topics = [values[name] for name in _TOPIC_FIELDS if values.get(name, _NO_ID) not in ("", _NO_ID)]
    for name, value in values.items():
        for item in value if isinstance(value, list) else ():
            partition = _partition_of(item)
            if partition is not None and "partition" in name:
                yield from ((topic, partition) for topic in topics)
            elif isinstance(item, Structure):
                yield from places(item)


def _partition_of(item: object) -> int | None:
    if isinstance(item, Structure):
        return next((getattr(item, name) for name in _PARTITION_FIELDS if name in item._marks), None)
    return item if isinstance(item, int) else None
