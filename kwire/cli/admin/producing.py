"""A small producer: it chooses a partition for each record, and sends a Produce request for each full batch."""

from __future__ import annotations

from collections import defaultdict

from kwire.cli.admin.cluster import ClusterView
from kwire.cli.admin.murmur2 import murmur2
from kwire.cli.tables import counted
from kwire.conformance.batches import RecordToWrite, encode_batch
from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.protocol.error_codes import error_for
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

BATCH_RECORDS = 1_000
BATCH_BYTES = 500_000
"""Half of the largest batch that brokers accept by default (message.max.bytes)."""
ALL_REPLICAS = -1
TIMEOUT_MS = 30_000


class Producing:
    """Writes records to one topic.

    Args:
        partition: The partition to write to; None to choose by keys.

    Raises:
        InvalidArgumentError: There is no such topic or partition.
    """

    def __init__(self, view: ClusterView, topic: str, partition: int | None) -> None:
        self.count = 0
        self._view = view
        self._topic = topic
        state = view.topic_to_write(topic)
        self._leaders = {each.number: each.leader for each in state.partitions}
        self._brokers = view.brokers()
        if partition is not None and partition not in self._leaders:
            raise InvalidArgumentError(f"topic {topic!r} has no partition {partition}; it has {len(self._leaders)}")
        self._partition = partition
        self._turn = 0
        self._waiting: defaultdict[int, list[RecordToWrite]] = defaultdict(list)
        self._waiting_bytes: defaultdict[int, int] = defaultdict(int)
        self._written: dict[int, tuple[int, int]] = {}

    def add(self, record: RecordToWrite) -> None:
        """Add a record, and write the batch of its partition if it is full. Raises: KafkaError."""
        partition = self._partition_of(record)
        size_bytes = len(record.key or b"") + len(record.value or b"")
        if self._waiting_bytes[partition] + size_bytes > BATCH_BYTES:
            self._write(partition)
        self._waiting[partition].append(record)
        self._waiting_bytes[partition] += size_bytes
        if len(self._waiting[partition]) >= BATCH_RECORDS:
            self._write(partition)

    def flush(self) -> None:
        """Write all records that wait. Raises: KafkaError."""
        for partition in sorted(self._waiting):
            self._write(partition)

    def summary(self) -> str:
        """As in `3 records written: orders-0 at offset 5 to 6, orders-1 at offset 2`."""
        places = [
            f"{TopicPartition(self._topic, number)} at offset {first}{f' to {last}' if last > first else ''}"
            for number, (first, last) in sorted(self._written.items())
        ]
        records = f"{counted(self.count, 'record')} written"
        return f"{records}: {', '.join(places)}" if places else records

    def _partition_of(self, record: RecordToWrite) -> int:
        if self._partition is not None:
            return self._partition
        if record.key is not None:
            return (murmur2(record.key) & 0x7FFFFFFF) % len(self._leaders)
        self._turn += 1
        return (self._turn - 1) % len(self._leaders)

    def _write(self, partition: int) -> None:
        records = self._waiting.pop(partition, [])
        self._waiting_bytes.pop(partition, None)
        if not records:
            return
        leader = self._leaders[partition]
        if leader is None or leader not in self._brokers:
            raise InvalidArgumentError(f"{self._topic}-{partition} has no leader that could take records")
        data = PartitionProduceData(index=partition, records=encode_batch(*records))
        request = ProduceRequest(
            acks=ALL_REPLICAS,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        answer = self._view.client.ask(
            request, self._brokers[leader], max_version=ProduceRequest.last_version_with_names
        )
        placed = answer.responses[0].partition_responses[0]
        if placed.error_code:
            raise error_for(
                placed.error_code,
                f"{counted(len(records), 'record')} for {self._topic}-{partition} not written, {self.count} before",
                topics=[self._topic],
            )
        self.count += len(records)
        first = self._written.get(partition, (placed.base_offset, 0))[0]
        self._written[partition] = (first, placed.base_offset + len(records) - 1)
