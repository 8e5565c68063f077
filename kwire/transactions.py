"""Exactly once from topic to topic: what was read is committed in the transaction of a producer that the user has
(KIP-98, KIP-447).

    producer.begin_transaction()
    for record in records:
        producer.produce("bills", bill(record))
    send_offsets_to_transaction(producer, records.next_offsets(), consumer)
    producer.commit_transaction()

kwire has no producer. It takes those of confluent-kafka and kafka-python, and makes the values of their libraries that
they want.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from kwire.consumer.arguments import checked_offsets
from kwire.consumer.listener import CallsAtOnce
from kwire.errors import CommitFailedError, IllegalStateError, InvalidArgumentError
from kwire.model import ConsumerGroupMetadata, Offsets, leader_epoch_number

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from kafka import KafkaProducer
    from kafka.structs import ConsumerGroupMetadata as TheirGroupMetadata


_LIBRDKAFKA_FORMAT = b"CGMDv2:"


def send_offsets_to_transaction(producer: object, offsets: Offsets, consumer: CallsAtOnce) -> None:
    """Commit offsets of a consumer in the transaction that a producer has open.

    As Java's `Producer.sendOffsetsToTransaction`, but for the consumer in the place of its group metadata: what another
    member may have by now is refused, even if this one has come back to the group since.

    Args:
        producer: confluent-kafka's or kafka-python's, with a `transactional.id`, and a transaction begun.
        offsets: Behind what the transaction is about, such as `records.next_offsets()`.
        consumer: Which has read it, with `enable_auto_commit=False`. An `AsyncConsumer` will do, as will what callbacks
            are given.

    Raises:
        CommitFailedError: A partition is not this consumer's any more. Abort the transaction, seek each partition of it
            that is still assigned back to its first offset there, and poll on.
        InvalidArgumentError: The producer is none of these, or an offset is none.
        InvalidGroupIdError: The consumer has no `group_id`.
        IllegalStateError: The consumer commits by itself, or has `enable_parallel_rebalance`, where nobody else may.
        Exception: Whatever the producer raises. Unless it is fatal: abort the transaction, seek back, and poll on.
    """
    send = _sender(producer)
    wanted = checked_offsets(offsets) or {}
    if consumer.config.enable_auto_commit:
        raise IllegalStateError(
            "with enable_auto_commit=True the consumer commits what it has returned, whatever becomes of the "
            "transaction: set enable_auto_commit=False"
        )
    # In this order: if the member is removed from the group and comes back in between, either the broker does not know
    # this generation any more, or the partitions are gone.
    group = consumer.group_metadata()
    gone = sorted(wanted.keys() - consumer.assignment())
    if gone:
        named = ", ".join(map(str, gone))
        raise CommitFailedError(
            f"no longer this consumer's: {named}; abort the transaction, seek each partition of it that is still "
            "assigned back to its first offset there, and poll on"
        )
    if wanted:
        send(wanted, group)


def librdkafka_group_metadata(group: ConsumerGroupMetadata) -> bytes:
    """As `consumer_group_metadata()` of confluent-kafka has it."""
    start = _LIBRDKAFKA_FORMAT + group.generation_id.to_bytes(4, "little", signed=True)
    instance = b"\x01" if group.group_instance_id is None else b"\x00" + group.group_instance_id.encode() + b"\x00"
    return start + group.group_id.encode() + b"\x00" + group.member_id.encode() + b"\x00" + instance


def kafka_python_group_metadata(group: ConsumerGroupMetadata) -> TheirGroupMetadata:
    """As `group_metadata()` of kafka-python has it."""
    from kafka.structs import ConsumerGroupMetadata as TheirGroupMetadata

    return TheirGroupMetadata(group.group_id, group.generation_id, group.member_id, group.group_instance_id)


def _sender(producer: object) -> Callable[[Offsets, ConsumerGroupMetadata], None]:
    """What makes values of the producer's library out of these, and calls it."""
    libraries = {each.__module__.partition(".")[0] for each in type(producer).__mro__}
    if hasattr(producer, "send_offsets_to_transaction"):
        if libraries & {"confluent_kafka", "cimpl"}:
            return partial(_send_by_confluent, cast("Producer", producer))
        if "kafka" in libraries:
            return partial(_send_by_kafka_python, cast("KafkaProducer", producer))
    hint = "; aiokafka's does not tell brokers of the member's generation" if "aiokafka" in libraries else ""
    name = type(producer).__name__
    raise InvalidArgumentError(f"a {name} is no transactional producer of confluent-kafka or kafka-python{hint}")


def _send_by_confluent(producer: Producer, offsets: Offsets, group: ConsumerGroupMetadata) -> None:
    """confluent-kafka writes a NUL behind metadata, even if that is empty: then it is not given any."""
    from confluent_kafka import TopicPartition as Position

    positions = []
    for tp, at in offsets.items():
        epoch = leader_epoch_number(at.leader_epoch)
        if at.metadata:
            positions.append(Position(*tp, at.offset, at.metadata, epoch))
        else:
            positions.append(Position(*tp, at.offset, leader_epoch=epoch))
    producer.send_offsets_to_transaction(positions, librdkafka_group_metadata(group))


def _send_by_kafka_python(producer: KafkaProducer, offsets: Offsets, group: ConsumerGroupMetadata) -> None:
    from kafka import structs

    positions = {
        structs.TopicPartition(*tp): structs.OffsetAndMetadata(
            at.offset, at.metadata, leader_epoch_number(at.leader_epoch)
        )
        for tp, at in offsets.items()
    }
    producer.send_offsets_to_transaction(positions, kafka_python_group_metadata(group))
