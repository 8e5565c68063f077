"""Records that clients in Python have written, each in its own form of batches and frames, are read as they were given.

aiokafka's lz4 frames have a checksum behind each block, which librdkafka's and Java's have not.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import pytest
from aiokafka import AIOKafkaProducer

from kwire import TopicPartition

if TYPE_CHECKING:
    from tests.integration.conftest import MakeTopic
    from tests.integration.consumer.conftest import OpenConsumer, Read
    from tests.integration.kafkas import SharedKafka

RECORDS = 400
FIRST_MS = 1_700_000_000_000

Codec: TypeAlias = Literal["gzip", "snappy", "lz4", "zstd"]


class Given(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def some(chance: random.Random) -> list[Given]:
    """Sizes, keys and headers as they come in real topics; a null, and an empty value."""
    words = [b"order", b"customer", b"amount", b"status", b'{"id": ']
    return [
        Given(
            chance.choice((b"", b"k%d" % number)),  # aiokafka takes no record without a key and a value
            chance.choice((None, b"", b" ".join(chance.choices(words, k=chance.randrange(8, 300))))),
            tuple((f"header {nth}", chance.randbytes(nth)) for nth in range(chance.randrange(3))),
            FIRST_MS + chance.randrange(100_000),
        )
        for number in range(RECORDS)
    ]


async def written_by_aiokafka(servers: str, topic: str, codec: Codec, records: list[Given], batch_bytes: int) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, compression_type=codec, linger_ms=50, max_batch_size=batch_bytes
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                topic, each.value, each.key, headers=list(each.headers), partition=0, timestamp_ms=each.timestamp_ms
            )
            for each in records
        ]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


@pytest.mark.slow
@pytest.mark.parametrize("batch_bytes", [16_384, 500_000])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_aiokafka_wrote_is_read_as_it_was_given(
    kafka: SharedKafka, topic: MakeTopic, open_consumer: OpenConsumer, read: Read, codec: Codec, batch_bytes: int
) -> None:
    name, records = topic(), some(random.Random(codec))
    asyncio.run(written_by_aiokafka(kafka.bootstrap_servers, name, codec, records, batch_bytes))
    consumer = open_consumer()
    consumer.assign([TopicPartition(name, 0)])
    found = [
        Given(
            record.key, record.value, tuple((header.key, header.value) for header in record.headers), record.timestamp
        )
        for record in read(consumer, RECORDS)
    ]
    assert found == records
