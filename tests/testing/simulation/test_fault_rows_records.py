"""Fault rows of records: damage, hostile contents, sizes, transactions (S)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kwire.errors import CorruptRecordError
from kwire.protocol.deflation import GZIP
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kwire.testing.cluster.batches import CRC_COVERS_FROM, ChecksummedFields, build_batch, framed, record_bytes
from kwire.testing.simulation.script import BytesConsumer, Script

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import T0, TOPIC, gather, reading, scripted
else:
    from row_world import T0, TOPIC, gather, reading, scripted


# A rule is for requests that come from now on: by then, fetches that wait at the brokers already are answered.
OLD_FETCHES_MS = 600.0


def answered_partitions(answer: FetchResponse) -> list[PartitionData]:
    return [data for topic in answer.responses for data in topic.partitions]


# --- damaged records ------------------------------------------------------------------------------------------


def last_batch(script: Script, partition: int = 0) -> bytes:
    found = script.cluster.partition(TOPIC, partition)
    assert found is not None
    return bytes(found.log.batches[-1].data)


@dataclass(slots=True)
class Damage:
    """Flips a bit in a batch, wherever an answer has it."""

    batch: bytes = b""
    at: int = 0
    times: float = 0

    def __call__(self, payload: bytes) -> bytes:
        start = payload.find(self.batch) if self.batch and self.times > 0 else -1
        if start < 0:
            return payload
        self.times -= 1
        at = start + self.at
        return payload[:at] + bytes([payload[at] ^ 0x10]) + payload[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("codec", [0, GZIP], ids=["plain", "gzip"])
@scripted(brokers=1)
def test_row_17_a_bit_is_flipped_in_each_byte_under_the_checksum(script: Script, codec: int) -> None:
    """The poll says where; the next one fetches it again. No damaged value is handed out."""
    consumer, _ = reading(script)
    damage = Damage()
    script.cluster.control.on(FetchRequest).corrupt(damage)
    size_bytes, at = CRC_COVERS_FROM + 1, CRC_COVERS_FROM
    while at < size_bytes:
        script.sleep(2 * OLD_FETCHES_MS)  # until a single fetch waits for the next record
        offset = script.cluster.end_offset(TOPIC, 0)
        sent = script.send(TOPIC, codec=codec)
        damage.batch, damage.at, damage.times = last_batch(script), at, 1
        with pytest.raises(CorruptRecordError) as caught:
            script.read(consumer, sent)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == (TOPIC, 0, offset)
        script.recovers(1_000, partial(script.read, consumer, sent))
        size_bytes, at = len(damage.batch), at + 1


@scripted()
def test_row_17_damage_that_stays_is_told_and_stepped_over_and_other_partitions_go_on(script: Script) -> None:
    consumer, _ = reading(script, 2)
    damage = Damage()
    script.cluster.control.on(FetchRequest).corrupt(damage)
    script.sleep(OLD_FETCHES_MS)
    script.send(TOPIC)
    damage.batch, damage.at, damage.times = last_batch(script), 60, float("inf")
    for _ in range(5):
        sent = script.send(TOPIC, 10, 1)
        values, errors = gather(script, consumer, 1_000)
        assert values == sent
        assert errors
        assert all(isinstance(error, CorruptRecordError) and error.offset == 1 for error in errors)
    consumer.seek(T0, 2)
    script.read(consumer, script.send(TOPIC))


def batch_of(count: int, payload: bytes, last_offset_delta: int = 0) -> bytes:
    """A batch at offset 1 with a good checksum over bad contents."""
    return framed(ChecksummedFields(0, last_offset_delta, 0, 0, -1, -1, -1, count), payload, base_offset=1)


GOOD_RECORD = record_bytes(0, 0, None, b"good", ())
HOSTILE_BATCHES = {
    "no records, it says": batch_of(-1, GOOD_RECORD),
    "two thousand million records": batch_of(2**31 - 1, GOOD_RECORD),
    "one more than there are": batch_of(2, GOOD_RECORD, 1),
    "a length without an end": batch_of(1, b"\xff" * 20),
    "a record of a negative length": batch_of(1, b"\x03" + GOOD_RECORD[1:]),
    "a value of two gigabytes": batch_of(1, b"\x20\x00\x00\x00\x01" + b"\xfe\xff\xff\xff\x0f" + b"v" * 8),
}


@pytest.mark.parametrize("kind", HOSTILE_BATCHES)
@scripted(brokers=1)
def test_row_18_contents_that_cannot_be_under_a_good_checksum(script: Script, kind: str) -> None:
    consumer, _ = reading(script)
    is_hostile = True

    def put(answer: FetchResponse) -> None:
        for data in answered_partitions(answer):
            if is_hostile and data.records:
                data.records = HOSTILE_BATCHES[kind]

    script.edit(FetchRequest, put)
    script.sleep(OLD_FETCHES_MS)
    sent = script.send(TOPIC)
    with pytest.raises(CorruptRecordError) as caught:
        script.read(consumer, sent, within_ms=5_000)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (TOPIC, 0, 1)
    is_hostile = False
    script.recovers(1_000, partial(poll_past_damage, script, consumer, sent))


def poll_past_damage(script: Script, consumer: BytesConsumer, sent: list[bytes]) -> None:
    """What is buffered may be damaged still."""
    values: list[bytes] = []
    while values != sent:
        came, _ = gather(script, consumer, 50)
        values += came
        assert values in ([], sent)


@scripted()
def test_row_19_a_record_is_larger_than_a_fetch_may_be(script: Script) -> None:
    """KIP-74: the first batch comes whole."""
    consumer, _ = reading(
        script, max_partition_fetch_bytes=100, fetch_max_bytes=100, fetch_buffer_bytes=1_000, fetch_min_bytes=1
    )
    large = b"x" * 200_000
    for _ in range(3):
        script.append(TOPIC, 0, build_batch([large], timestamp_ms=script.cluster.wall_clock_ms()))
        script.recovers(1_000, partial(script.read, consumer, [large, *script.send(TOPIC)]))


# --- transactions ---------------------------------------------------------------------------------------------


class Transactions:
    """Producers that write straight into the log."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._sequences: Counter[int] = Counter()

    def write(self, producer_id: int, *values: bytes) -> None:
        batch = build_batch(
            values,
            timestamp_ms=self._script.cluster.wall_clock_ms(),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self._sequences[producer_id],
            transactional=True,
        )
        self._sequences[producer_id] += len(values)
        self._script.append(TOPIC, 0, batch)

    def end(self, producer_id: int, *, committed: bool) -> None:
        cluster = self._script.cluster
        found = cluster.partition(*T0)
        assert found is not None
        found.log.end_transaction(producer_id, 0, found.leader_epoch, cluster.wall_clock_ms(), committed=committed)
        cluster.changed.notify(found.key)


@pytest.mark.parametrize("is_shuffled", [False, True])
@scripted()
def test_row_27_transactions_hang_abort_and_end_twice(script: Script, is_shuffled: bool) -> None:
    """No aborted record comes, whatever the order of the aborted; what hangs holds back what is behind it, no more."""
    consumer, _ = reading(script, isolation_level="read_committed")
    if is_shuffled:

        def shuffle(answer: FetchResponse) -> None:
            for data in answered_partitions(answer):
                data.aborted_transactions = (data.aborted_transactions or [])[::-1]

        script.edit(FetchRequest, shuffle)
        script.sleep(OLD_FETCHES_MS)
    transactions = Transactions(script)
    transactions.write(1, b"aborted1")
    transactions.write(2, b"committed2")
    transactions.end(1, committed=False)
    transactions.end(1, committed=False)
    transactions.write(1, b"aborted3")
    transactions.write(4, b"aborted4")
    transactions.end(4, committed=False)
    transactions.end(1, committed=False)
    transactions.end(2, committed=True)
    transactions.end(2, committed=True)
    transactions.write(1, b"committed5")
    transactions.end(1, committed=True)
    script.read(consumer, [b"committed2", b"committed5"])
    transactions.write(3, b"hanging")
    behind = script.send(TOPIC, 2)
    assert not consumer.poll(5.0)
    position = consumer.position(T0)
    transactions.end(3, committed=True)
    script.recovers(1_000, partial(script.read, consumer, [b"hanging", *behind]))
    assert consumer.position(T0) > position
    assert not consumer.poll(1.0)
    assert consumer.position(T0) == script.cluster.end_offset(TOPIC, 0)
