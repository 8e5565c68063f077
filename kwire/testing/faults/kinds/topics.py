"""What befalls topics and their logs: deletion, growth, retention; and records that are hard to read."""

from __future__ import annotations

from kwire.testing.faults.bounds import within
from kwire.testing.faults.kinds.kind import Amount, Choice, Claim, FaultKind, Lasting, Need, Since
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.targets import PartitionOf, Topic

# What the controller decides reaches every broker in this time, on a busy machine.
SPREADING_MS = 3_000
MIB = 1024 * 1024

SHARE = Amount(
    name="share_percent",
    quantity=Quantity.PERCENT,
    default=60,
    least=1,
    most=100,
    doc="how much of what is in each log goes, from its start",
)

_CHANGED = (
    FaultKind(
        name="topic-delete",
        description="A topic is deleted, for good.",
        targets=(Topic,),
        heals="nothing: who reads it goes on with the others",
        claims=(Claim.TOPIC, Claim.LEADERSHIP, Claim.TRAFFIC),
        needs=(Need.ONE_TOPIC_LEFT,),
        settles_ms=SPREADING_MS,
        rows=(39,),
        bound=within(SPREADING_MS, "metadata_max_age_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="topic-recreate",
        description="A topic is deleted and, some time later, made anew with another id and other records.",
        targets=(Topic,),
        parameters=(
            Amount(
                name="partitions",
                word="partitions",
                quantity=Quantity.COUNT,
                default=0,
                most=1_000,
                doc="how many the new one has; 0 for as many as before",
            ),
        ),
        lasting=Lasting(default_ms=5_000, least_ms=1_000),
        heals="the topic is there again",
        claims=(Claim.TOPIC, Claim.LEADERSHIP, Claim.TRAFFIC),
        settles_ms=SPREADING_MS,
        rows=(39,),
        bound=within(SPREADING_MS, "metadata_max_age_ms", "rebalance_slack_ms"),
    ),
    FaultKind(
        name="partition-growth",
        description="A topic gets more partitions, and they get records at once.",
        targets=(Topic,),
        parameters=(Amount(name="more", quantity=Quantity.COUNT, default=1, least=1, most=100, doc="how many more"),),
        heals="nothing: they stay",
        claims=(Claim.TOPIC,),
        settles_ms=SPREADING_MS,
        rows=(40,),
        bound=within(SPREADING_MS, "metadata_max_age_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
        simulated_as="topic-grows",
    ),
)

_CUT = (
    FaultKind(
        name="retention-cut",
        description="Retention is lowered until old segments are deleted while they are read.",
        targets=(Topic,),
        lasting=Lasting(default_ms=10_000, least_ms=1_000),
        heals="retention is what it was; what is gone is gone",
        claims=(Claim.TOPIC,),
        rows=(22,),
        bound=within(2_000),
    ),
    FaultKind(
        name="delete-records",
        description="Records are deleted from the start of the log (DeleteRecords).",
        targets=(PartitionOf, Topic),
        parameters=(SHARE,),
        heals="nothing: they are gone",
        claims=(Claim.TOPIC,),
        rows=(22, 23),
        bound=within(2_000),
        since=Since.STRIKE,
        simulated_as="records-deleted",
    ),
    FaultKind(
        name="compaction",
        description="A topic is compacted: of records with the same key only the last stays, and offsets get holes.",
        targets=(Topic,),
        lasting=Lasting(default_ms=20_000, least_ms=5_000),
        heals="the topic is not compacted any more; what is gone is gone",
        claims=(Claim.TOPIC,),
        rows=(23,),
        bound=within(2_000),
    ),
)

_SENT = (
    FaultKind(
        name="large-record",
        description="A record is sent that is larger than a fetch may be.",
        targets=(PartitionOf,),
        parameters=(
            Amount(
                name="size_bytes",
                quantity=Quantity.BYTES,
                default=2 * MIB,
                least=1,
                most=64 * MIB,
                doc="the size of its value",
            ),
        ),
        heals="nothing: it is read like any other",
        claims=(Claim.TRAFFIC,),
        rows=(19,),
        bound=within(2_000),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="open-transaction",
        description="A transaction writes and goes quiet: who reads what is committed waits for its end.",
        targets=(PartitionOf,),
        parameters=(Choice(name="ending", default="aborted", words=("aborted", "committed"), doc="how it ends"),),
        lasting=Lasting(default_ms=10_000),
        heals="the transaction ends",
        claims=(Claim.TRAFFIC,),
        rows=(27,),
        bound=within(2_000, "fetch_max_wait_ms"),
    ),
)

KINDS = (*_CHANGED, *_CUT, *_SENT)
