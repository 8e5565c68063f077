"""The topics of `scripts/prove spark-answers`: what a record, a batch or a log can be that a source may read wrongly.

Most are written by librdkafka; what that cannot write (no timestamp, header keys that are no text, times out of all
bounds) goes to the broker as batches, byte by byte.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic
from fastcrc.crc32 import iscsi as crc32c

from kwire.conformance.batches import RecordToWrite, encode_batch
from kwire.conformance.broker import JudgedBroker, SuiteTopic
from kwire.conformance.client import BrokerAddress
from kwire.conformance.expectations import expect_ok
from kwire.conformance.writing import append
from kwire.model import Header
from kwire.testing.kafka import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 30.0
COMPACTION_S = 120.0
FIRST_MS = 1_767_225_600_000
STEP_MS = 1_000
RECORDS = 240
PARTITIONS = 3
LARGE_BYTES = 3_000_000
PLACEHOLDER = "key-that-is-no-text"
# Cut off, overlong, surrogates, bytes that never occur, too large; text around them.
NO_TEXT = (
    *(
        b"\xff\xfe",
        b"a\xc3(b",
        b"\xf0\x9f\x98",
        b"\xf0\x9f\x98!",
        b"\xc0\xaf!",
        b"\xe0\x80\xaf",
        b"\xe2\x82",
        b"\xe2\x82A",
    ),
    *(b"\xed\xa0\x80", b"\xed\xa0", b"\xed\xa0A", b"\xed\xa0\xbd\xed\xb8\x80"),
    *(b"\xf5\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80", b"\x80\xbf"),
)
CRC_AT, BODY_AT = 17, 21
FAR_FUTURE_MS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Name and partitions; `ends` is the offset behind the last record of each."""

    name: str
    ends: Mapping[int, int]

    def assign(self) -> str:
        return f'{{"{self.name}":{list(self.ends)}}}'

    def offsets(self, offset_of: Callable[[int], int]) -> str:
        """An option's JSON: for each partition what the function makes of its end."""
        inner = ",".join(f'"{partition}":{offset_of(end)}' for partition, end in self.ends.items())
        return f'{{"{self.name}":{{{inner}}}}}'


class Topics:
    """Makes them, on a broker of its own.

    Args:
        bootstrap_servers: of one broker.
        prefix: what the names of all begin with.
    """

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self._servers = bootstrap_servers
        self._prefix = prefix
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def written(self, name: str, partitions: int) -> Written:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "ends"})
        try:
            ends = {
                number: consumer.get_watermark_offsets(Place(name, number), TIMEOUT_S)[1]
                for number in range(partitions)
            }
        finally:
            consumer.close()
        return Written(name=name, ends=ends)

    def make(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """An empty one; the broker leads it when this returns."""
        full = f"{self._prefix}-{name}"
        self._admin.create_topics([NewTopic(full, partitions, 1, config=dict(config or {}))])[full].result(TIMEOUT_S)
        until_s = time.monotonic() + TIMEOUT_S
        while not (found := self._admin.list_topics(full, TIMEOUT_S).topics[full]).partitions or found.error:
            if time.monotonic() > until_s:
                raise ClusterError(f"{full} has no leader")
        return full

    def grow(self, name: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(TIMEOUT_S)
        self._until(lambda: len(self._admin.list_topics(name, TIMEOUT_S).topics[name].partitions) == partitions)

    def remove(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(TIMEOUT_S)
        self._until(lambda: name not in self._admin.list_topics(timeout=TIMEOUT_S).topics)

    @staticmethod
    def _until(condition: Callable[[], bool]) -> None:
        until_s = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > until_s:
                raise ClusterError("a change of topics is not seen")
            time.sleep(0.05)

    # --- plain ones -----------------------------------------------------------------------------------------------

    def of_codec(self, codec: str) -> Written:
        """Keys and values present, empty and null; headers none, one, many, repeated, with null and no value."""
        name = self.make(f"codec-{codec}", PARTITIONS)
        self.fill(name, PARTITIONS, codec=codec)
        return self.written(name, PARTITIONS)

    def fill(self, name: str, partitions: int, *, codec: str = "none", records: int = RECORDS, first: int = 0) -> None:
        settings: dict[str, str | int] = {"compression.type": codec, "linger.ms": 5, "batch.num.messages": 37}
        producer = self._producer(settings)
        for number in range(first, first + records):
            key, value, headers = shape(number)
            producer.produce(
                name, value, key, partition=number % partitions, timestamp=FIRST_MS + number * STEP_MS, headers=headers
            )
        self._flush(producer, name)

    def unevenly_filled(self) -> Written:
        """Partitions of very different size, one of them empty."""
        name = self.make("uneven", 4)
        producer = self._producer()
        for partition, records in ((0, 1_000), (1, 10), (2, 301)):
            for number in range(records):
                producer.produce(name, b"%d" % number, partition=partition, timestamp=FIRST_MS + number * STEP_MS)
        self._flush(producer, name)
        return self.written(name, 4)

    def stamped_by_the_broker(self) -> Written:
        name = self.make("log-append-time", 1, {"message.timestamp.type": "LogAppendTime"})
        self.fill(name, 1, records=50)
        return self.written(name, 1)

    def with_large_values(self) -> Written:
        """Larger than what a partition may be fetched at once."""
        name = self.make("large", 1, {"max.message.bytes": str(2 * LARGE_BYTES)})
        producer = self._producer({"message.max.bytes": 2 * LARGE_BYTES})
        for size in (10, LARGE_BYTES, 5, LARGE_BYTES // 2):
            producer.produce(name, bytes(size), partition=0)
            self._flush(producer, name)
        return self.written(name, 1)

    def cut_in_front(self) -> Written:
        """Whose first records are gone."""
        name = self.make("cut", 1)
        self.fill(name, 1, records=100)
        self.cut(name, 0, 40)
        return self.written(name, 1)

    def cut(self, name: str, partition: int, before: int) -> None:
        """Removes what lies in front of an offset."""
        place = Place(name, partition, before)
        self._admin.delete_records([place])[place].result(TIMEOUT_S)

    # --- transactions and gaps ------------------------------------------------------------------------------------

    def transactional(self) -> Written:
        """Committed and aborted ones in turns, an aborted one first and last; and records of no transaction between."""
        name = self.make("transactions", 2)
        producer = self._producer({"transactional.id": name})
        producer.init_transactions(TIMEOUT_S)
        for number in range(9):
            producer.begin_transaction()
            for index in range(20):
                producer.produce(name, b"%d.%d" % (number, index), partition=index % 2)
            (producer.commit_transaction if number % 2 else producer.abort_transaction)(TIMEOUT_S)
            if number == 4:
                self.fill(name, 2, records=10)
        return self.written(name, 2)

    def compacted(self) -> Written:
        """With holes in the offsets, within batches and instead of whole ones. It stays as it is then."""
        often = ConfigEntry("log.cleaner.backoff.ms", "50", incremental_operation=AlterConfigOpType.SET)
        for number in self._admin.list_topics(timeout=TIMEOUT_S).brokers:
            self._configure(ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[often]))
        config = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.0"}
        name = self.make("compacted", 1, {**config, "max.compaction.lag.ms": "1", "delete.retention.ms": "600000"})
        producer = self._producer()
        for _ in range(3):
            for number in range(200):
                producer.produce(name, b"%d" % number, b"k%d" % (number % 7), partition=0)
            self._flush(producer, name)
        until_s = time.monotonic() + COMPACTION_S
        while self._count(name, end := self.written(name, 1).ends[0]) == end:
            if time.monotonic() > until_s:
                raise ClusterError(f"{name} was not compacted in {COMPACTION_S:.0f} s")
            producer.produce(name, b"roll", b"roll", partition=0)  # without a new segment there is nothing to do
            self._flush(producer, name)
        keep = [("cleanup.policy", "delete"), ("retention.ms", "-1"), ("segment.ms", "600000")]
        entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in keep]
        self._configure(ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries))
        return self.written(name, 1)

    # --- byte by byte ---------------------------------------------------------------------------------------------

    def without_timestamps(self) -> Written:
        """And from before 1970, and from the far past."""
        times_ms = (-1, -1, 0, 1, FIRST_MS, -1)
        records = [RecordToWrite(b"%d" % at, b"key", timestamp_ms=at) for at in times_ms]
        return self._raw("no-timestamps", *(encode_batch(record) for record in records), encode_batch(*records[:2]))

    def with_keys_that_are_no_text(self) -> Written:
        """Of headers."""
        return self._raw("no-text", *(_with_key(bytes_of_key) for bytes_of_key in NO_TEXT))

    def with_times_out_of_bounds(self) -> Written:
        """Which Spark's timestamps cannot hold."""
        record = RecordToWrite(b"late", timestamp_ms=FAR_FUTURE_MS)
        return self._raw("out-of-bounds", encode_batch(record))

    def _raw(self, name: str, *batches: bytes) -> Written:
        lenient = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
        full = self.make(name, 1, lenient)
        host, _, port = self._servers.rpartition(":")
        broker = JudgedBroker(BrokerAddress(host, int(port)), TIMEOUT_S)
        topic = SuiteTopic(full, broker.wait_for_leaders(full).topic_id)
        for batch in batches:
            expect_ok(append(broker, topic, batch).error_code, f"a batch of {full}")
        return self.written(full, 1)

    # --- small steps ----------------------------------------------------------------------------------------------

    def _producer(self, settings: Mapping[str, str | int] | None = None) -> Producer:
        # One request at a time: when a new topic's leader refuses the first, later ones shall not overtake it.
        plain = {"acks": "all", "log_level": 0, "max.in.flight.requests.per.connection": 1}
        return Producer({"bootstrap.servers": self._servers, **plain, **(settings or {})})

    def _flush(self, producer: Producer, name: str) -> None:
        if left := producer.flush(TIMEOUT_S):
            raise ClusterError(f"{left} records of {name} were not acknowledged")

    def _configure(self, resource: ConfigResource) -> None:
        self._admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    def _count(self, name: str, end: int) -> int:
        """How many records there are in front of an offset."""
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "count", "enable.partition.eof": True})
        consumer.assign([Place(name, 0, 0)])
        count = 0
        try:
            while (message := consumer.poll(TIMEOUT_S)) is not None and message.error() is None:
                count += (message.offset() or 0) < end
        finally:
            consumer.close()
        return count


def shape(number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]] | None]:
    """Key, value and headers of the record of this number: all that can be missing is, in all combinations."""
    keys = (b"key-%d" % number, None, b"", "schlüssel".encode())
    values = (b"value %d " % number * 8, b"", None, bytes(range(256)))
    headers: tuple[list[tuple[str, str | bytes | None]] | None, ...] = (
        None,
        [("source", b"shop")],
        [("a", b"1"), ("a", None), ("größe", "ß".encode()), ("", b"")],
    )
    return keys[number % 4], values[number // 4 % 4], headers[number // 16 % 3]


def _with_key(key: bytes) -> bytes:
    """A batch of one record with a header of this key: written with another of the same length, which is replaced."""
    stand_in = PLACEHOLDER[: len(key)].encode()
    headers = (Header(stand_in.decode(), b"before"), Header("plain", b"behind"))
    batch = encode_batch(RecordToWrite(b"value", b"K", headers, timestamp_ms=FIRST_MS))
    body = batch[BODY_AT:].replace(stand_in, key, 1)
    return batch[:CRC_AT] + struct.pack(">I", crc32c(body)) + body
