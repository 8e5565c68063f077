"""Damaged record sets: one batch of several is damaged in a way that a reader can detect."""

from __future__ import annotations

import random

from kwire.protocol.record_batch import Batch, iter_batches
from kwire.testing.cluster.batches import ChecksummedFields, framed

MAGIC_WITH_CRC32C = 2


def damaged(records: bytes, rng: random.Random) -> bytes:
    """The record set with one of its batches damaged; unchanged, if no batch has records."""
    batches = [each for each in iter_batches(records) if each.magic == MAGIC_WITH_CRC32C and not each.is_control]
    if not batches:
        return records
    batch = rng.choice(batches)
    make = rng.choice((_with_a_bit_flipped, _with_a_record_too_few))
    return records[: batch.position] + make(records, batch, rng) + records[batch.end :]


def _with_a_bit_flipped(records: bytes, batch: Batch, rng: random.Random) -> bytes:
    """Flip a bit; the checksum shows it."""
    index = rng.randrange(batch.payload_start, batch.end)
    flipped = records[index] ^ (1 << rng.randrange(8))
    return records[batch.position : index] + bytes([flipped]) + records[index + 1 : batch.end]


def _with_a_record_too_few(records: bytes, batch: Batch, _rng: random.Random) -> bytes:
    """Under a good checksum: it was reckoned anew over what was damaged already."""
    fields = ChecksummedFields.of(batch)._replace(record_count=batch.record_count + 1)
    payload = records[batch.payload_start : batch.end]
    return framed(fields, payload, base_offset=batch.base_offset, leader_epoch=batch.partition_leader_epoch)
