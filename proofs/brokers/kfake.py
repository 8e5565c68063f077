"""Decisions about answers of kfake, franz-go's broker.

It is made to test clients of Kafka with, so where the protocol's definition leaves something open, Kafka is right. What
it leaves out on purpose stands in its own list, `skipped_features`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from proofs.brokers.decisions import Decision, Decisions, Verdict

_PRODUCER = "a consumer never writes"
_ADMIN = "a consumer never asks for it"


def _each(whats: Sequence[str], same: Decision) -> Iterator[Decision]:
    """The same decision about several differences."""
    return (replace(same, what=what) for what in whats)


def _not_asked(what: str, kafka: str, why: str, right: str = "Kafka") -> Decision:
    return Decision(what=what, kafka=kafka, right=right, verdict=Verdict.NOT_ASKED, why=why)


_CHECKS = (
    _not_asked(
        "Produce: refuses zstd from old clients",
        "UNSUPPORTED_COMPRESSION_TYPE below version 7",
        f"{_PRODUCER}; it reads batches in zstd in any version",
        "Kafka, by KIP-110",
    ),
    _not_asked(
        "Produce: refuses a record without key in a compacted topic",
        "INVALID_RECORD, with the record's index",
        _PRODUCER,
        "Kafka: `LogValidator`; kfake looks at batches only",
    ),
    Decision(
        what="Produce: stamps the append time where the topic says so",
        kafka="the topic's `message.timestamp.type` decides",
        right="Kafka, by KIP-32; kfake goes by a bit that the producer has set",
        verdict=Verdict.COPES,
        why="records have the time and the kind of time that their batch says",
    ),
    Decision(
        what="Fetch: shows where the logs diverge",
        kafka="NONE, with the diverging epoch and its end",
        right="Kafka, by KIP-595; kfake leaves it out on purpose",
        verdict=Verdict.COPES,
        why="OffsetForLeaderEpoch finds a truncation; a position out of range goes to `auto_offset_reset`",
    ),
    _not_asked(
        "ApiVersions: closes on an unknown api",
        "closes that connection, and serves others",
        "kwire never sends such a request; kfake ends (a nil pointer), and any client can cause that",
    ),
    _not_asked(
        "ApiVersions: closes on garbage",
        "closes that connection, and serves others",
        "kwire never sends garbage; kfake ends (a nil pointer)",
    ),
    _not_asked(
        "ApiVersions: closes on a frame that is too large",
        "closes the connection: `socket.request.max.bytes`",
        "no request is near that size",
    ),
    _not_asked("ApiVersions: closes on a negative length", "closes the connection", "no frame has such a length"),
    _not_asked("ApiVersions: closes on another protocol", "closes the connection", "kwire speaks no other protocol"),
    _not_asked(
        "Metadata: lists all topics",
        "an empty list asks for all topics in version 0",
        "kwire asks in version 1 or newer, where no list asks for all topics",
        "Kafka, by the protocol's definition (MetadataRequest.json)",
    ),
    Decision(
        what="Metadata: refuses an invalid name",
        kafka="INVALID_TOPIC_EXCEPTION",
        right="Kafka: `Topic.validate`",
        verdict=Verdict.SHOULD_NOT,
        why="kwire waits for a topic that does not exist; the broker decides which names are valid",
    ),
    _not_asked(
        "DescribeCluster: knows that it is no controller",
        "MISMATCHED_ENDPOINT_TYPE",
        _ADMIN,
        "Kafka, by KIP-919",
    ),
    *_each(
        ("JoinGroup: refuses a protocol the others lack", "JoinGroup: rebalances when a second member joins"),
        _not_asked(
            "",
            "in version 0 the session timeout is that of rebalances, too",
            "kwire joins in the newest version that the broker offers, and kfake offers all",
            "Kafka, by the protocol's definition; kfake takes the default of -1, and drops members at once",
        ),
    ),
    Decision(
        what="Heartbeat: knows no members of a group there is not",
        kafka="UNKNOWN_MEMBER_ID",
        right="Kafka: `classicGroupHeartbeat`",
        verdict=Verdict.MENDED,
        why="the member joins again; before, each poll raised an error, and the member never joined",
    ),
    Decision(
        what="LeaveGroup: does not let a stranger go",
        kafka="UNKNOWN_MEMBER_ID",
        right="Kafka: `classicGroupLeave`",
        verdict=Verdict.COPES,
        why="the member leaves, whatever the answer",
    ),
    _not_asked(
        "ConsumerGroupHeartbeat: refuses a malformed heartbeat",
        "INVALID_REQUEST to an empty group id",
        "kwire refuses an empty `group_id` before it sends a request",
        "either: KIP-848 names both codes",
    ),
    Decision(
        what="ConsumerGroupHeartbeat: matches topics by regular expression",
        kafka="INVALID_REGULAR_EXPRESSION",
        right="Kafka, by KIP-848",
        verdict=Verdict.COPES,
        why="every poll raises, with the broker's words; the exception is `BrokerError`, not "
        "`InvalidRegularExpressionError`",
    ),
    Decision(
        what="OffsetCommit: refuses too much metadata",
        kafka="OFFSET_METADATA_TOO_LARGE above `offset.metadata.max.bytes`",
        right="Kafka; kfake has no bound",
        verdict=Verdict.COPES,
        why="the metadata that kwire itself writes keeps to Kafka's default of 4,096 bytes",
    ),
    Decision(
        what="OffsetCommit: refuses a stranger to a group with offsets",
        kafka="UNKNOWN_MEMBER_ID",
        right="Kafka: `ClassicGroup.validateOffsetCommit` looks for the member first",
        verdict=Verdict.COPES,
        why="both raise `CommitFailedError`, and the member joins again",
    ),
    *_each(
        (
            "OffsetFetch: has no offset where none was committed",
            "OffsetFetch: refuses an unknown topic id",
            "DeleteGroups: deletes a group with its offsets",
            "TxnOffsetCommit: commits offsets with the transaction",
        ),
        Decision(
            what="",
            kafka="NONE, with an offset of -1 for each partition",
            right="Kafka: `OffsetMetadataManager.fetchOffsets`; an unknown group has no offsets",
            verdict=Verdict.COPES,
            why="a consumer that is no member reads this answer as no offsets (`managers/offset_fetch.py`)",
        ),
    ),
    Decision(
        what="SaslHandshake: refuses a handshake in plain text",
        kafka="ILLEGAL_SASL_STATE where the listener has no SASL",
        right="Kafka: `KafkaApis.handleSaslHandshakeRequest`",
        verdict=Verdict.SHOULD_NOT,
        why="Kafka tells a client that the listener has no logins; kfake accepts any login",
    ),
    _not_asked("CreateTopics: creates a topic", "the answer shows the settings", _ADMIN, "Kafka, by KIP-525"),
    _not_asked("CreateTopics: refuses what cannot be", "INVALID_TOPIC_EXCEPTION", _ADMIN, "Kafka: `Topic.validate`"),
    _not_asked(
        "DescribeProducers: describes a producer",
        "producers without a transaction, too",
        _ADMIN,
        "Kafka, by KIP-664; kfake lists open transactions alone",
    ),
    _not_asked(
        "InitProducerId: fences the one before",
        "PRODUCER_FENCED, or INVALID_PRODUCER_EPOCH",
        _PRODUCER,
        "Kafka, by KIP-588",
    ),
    _not_asked(
        "InitProducerId: fences who comes back too late",
        "PRODUCER_FENCED, or INVALID_PRODUCER_EPOCH",
        _PRODUCER,
        "Kafka, by KIP-360; kfake leaves it out on purpose",
    ),
    _not_asked(
        "AddPartitionsToTxn: looks partitions up for brokers",
        "an answer for each transaction",
        "these versions are for brokers",
        "Kafka, by KIP-890; kfake leaves it out on purpose",
    ),
    _not_asked("ListTransactions: lists transactions", "names the states that it does not know", _ADMIN),
    _not_asked(
        "DeleteShareGroupOffsets: forgets where a share group stood",
        "NONE",
        "kwire has no share groups",
        "Kafka, by KIP-932",
    ),
)
_TESTS = (
    Decision(
        what="test_a_topic_name_that_no_broker_takes",
        kafka="INVALID_TOPIC_EXCEPTION to Metadata",
        other="UNKNOWN_TOPIC_OR_PARTITION",
        right="Kafka: `Topic.validate`",
        verdict=Verdict.SHOULD_NOT,
        why="kwire waits for a topic that does not exist; the broker decides which names are valid",
    ),
    Decision(
        what="test_committed_waits_for_an_offset_in_an_open_transaction",
        kafka="UNSTABLE_OFFSET_COMMIT to OffsetFetch",
        other="GROUP_ID_NOT_FOUND: it makes a group only when the transaction is committed",
        right="Kafka, by KIP-447",
        verdict=Verdict.SHOULD_NOT,
        why="after the answer that there is no group, kwire cannot know of its transactions",
    ),
    Decision(
        what="test_an_older_epoch_is_good_enough_for_what_the_member_has_had_since",
        kafka="STALE_MEMBER_EPOCH to a commit of partitions that the member has given back",
        other="accepts the commit",
        right="Kafka, by KIP-1251",
        verdict=Verdict.NOT_ASKED,
        why="a member commits no partitions that it has given back; the test does so by hand",
    ),
    *_each(
        ("test_the_broker_matches_an_expression", "test_rebalances_in_a_row_while_records_flow"),
        Decision(
            what="",
            kafka="takes the fields of the subscription that a heartbeat has, and keeps the others",
            other="ignores the change, unless the heartbeat has all fields",
            right="Kafka, by the protocol's definition (null: it did not change)",
            verdict=Verdict.SHOULD_NOT,
            why="kwire sends a change as the protocol defines it, and as Java does, whose change kfake ignores as well",
        ),
    ),
    Decision(
        what="test_an_expression_the_broker_cannot_read_is_refused",
        kafka="INVALID_REGULAR_EXPRESSION",
        other="INVALID_REQUEST",
        right="Kafka, by KIP-848",
        verdict=Verdict.COPES,
        why="every poll raises; the exception is `BrokerError`, not `InvalidRegularExpressionError`",
    ),
    Decision(
        what="test_a_running_group_goes_over_to_the_consumer_protocol_and_back",
        kafka="members of both protocols are in one group for a while",
        other="GROUP_ID_NOT_FOUND: a group of the other kind is converted only when it is empty",
        right="Kafka, by KIP-848",
        verdict=Verdict.SHOULD_NOT,
        why="in answer to a join this error means that the group is of another kind",
    ),
    Decision(
        what="test_a_topic_with_log_append_time_is_the_same",
        kafka="the topic's `message.timestamp.type` decides",
        other="records keep the time that the producer gave them",
        right="Kafka, by KIP-32",
        verdict=Verdict.COPES,
        why="records have the time and the kind of time that their batch says, as with librdkafka",
    ),
    Decision(
        what="test_a_leader_that_comes_back_to_unchanged_topics_makes_no_rebalance",
        kafka="keeps the plan when a static leader has been restarted",
        other="makes a rebalance",
        right="Kafka, by KIP-814",
        verdict=Verdict.COPES,
        why="the leader makes the plan again; all members keep their partitions",
    ),
)

KFAKE = Decisions(
    _CHECKS,
    _TESTS,
    of_absent="Versions are negotiated: kwire takes the newest that both have, and needs none of these.",
)
