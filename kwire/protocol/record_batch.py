"""The batches of a record set: headers and checksums, nothing decompressed, nothing per record.

Contract: `iter_batches` yields every whole batch in front of a damaged one and then raises; what an answer's size
limit cut off at the end is simply not there. All three formats come out as the same `Batch`. Called by `records.py`
(decoding) and by the fetch path, which decides from headers alone which batches to decode.
"""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kwire import speedups
from kwire.errors import CorruptRecordError
from kwire.model import TimestampType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

Buffer: TypeAlias = bytes | memoryview

# All formats start with int64 offset and int32 length of what follows; the magic byte is at the same place in all.
LOG_OVERHEAD_BYTES = 12
MAGIC_AT = 16
# The shortest message there is: magic 0 without key and value; Java refuses anything shorter for every format.
MIN_MESSAGE_BYTES = 14
HEADER_BYTES = 61
# The checksum of magic 2 covers everything from the attributes on (KIP-98).
_CRC_COVERS_FROM = 21

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp,
# producer id and epoch, base sequence, record count
_HEADER = struct.Struct(">qiibIhiqqqhii")
# offset, length, crc, magic, attributes; then a timestamp in magic 1
_MESSAGE = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_LENGTH_MAGIC_AND_CRC = struct.Struct(">i4xbI")
_LENGTH_AT = 8
MIN_LENGTH_BYTES = HEADER_BYTES - LOG_OVERHEAD_BYTES
"""The least length of a batch of magic 2: what of its header the length counts."""

CODEC_MASK = 0x07
_CODEC_AT = 22  # in the second byte of the attributes
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
_DELETE_HORIZON_BIT = 0x40  # KIP-534: the base timestamp is a delete horizon


class Batch(NamedTuple):
    """The header of one batch and where it lies in `data`. A tuple: a fetch may bring thousands of tiny batches.

    In magic 0 and 1 a batch is one message. Such a wrapper of compressed messages carries the offset of its *last*
    message, which `base_offset` and `last_offset` then both show, and its `record_count` is -1: not known yet.
    """

    data: Buffer
    position: int
    base_offset: int
    length_bytes: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD_BYTES + self.length_bytes

    @property
    def end(self) -> int:
        return self.position + LOG_OVERHEAD_BYTES + self.length_bytes

    @property
    def payload_start(self) -> int:
        return self.position + HEADER_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_plain(self) -> bool:
        """Whether its records lie there as they are: of magic 2, not compressed, and not all gone by compaction."""
        return self.magic == 2 and self.record_count > 0 and not self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType.LOG_APPEND_TIME if self.is_log_append_time else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & _DELETE_HORIZON_BIT != 0

    def damage(self, problem: str) -> CorruptRecordError:
        """The error for a problem of this batch; it names the base offset."""
        return CorruptRecordError(f"record batch at base offset {self.base_offset}: {problem}", offset=self.base_offset)


BATCH_NUMBERS = len(Batch._fields) - 1
"""How many numbers say all of a batch but its bytes."""


def iter_batches(data: Buffer, *, check_crcs: bool = True, start: int = 0) -> Iterator[Batch]:
    """The batches of a record set, as a fetch answer carries it for one partition.

    Args:
        data: The record set; it may end in the middle of a batch.
        check_crcs: Whether to verify each batch's checksum before it is yielded.
        start: Where the first of them lies in `data`.

    Raises:
        CorruptRecordError: A length no batch can have, an unknown magic, a wrong checksum. All batches before the
            damaged one have been yielded by then.
    """
    # Checksums are of `view`, so that a stretch of it is no copy.
    crc32c, view = (_crc32c(), memoryview(data)) if check_crcs else (None, data)
    read, new = _HEADER.unpack_from, tuple.__new__
    size_bytes = len(data)
    position = start
    while True:
        while position + HEADER_BYTES <= size_bytes:
            # These few lines are all that is done for each batch, so that tiny ones cost little.
            header = read(data, position)
            end = position + LOG_OVERHEAD_BYTES + header[1]
            if header[3] != 2 or header[1] < MIN_LENGTH_BYTES or end > size_bytes:
                break
            batch = new(Batch, (data, position, *header))
            if crc32c is not None and crc32c(view[position + _CRC_COVERS_FROM : end]) != header[4]:
                raise _wrong_checksum(batch)
            yield batch
            position = end
        message = _message_at(data, position)
        if message is None:
            return
        if check_crcs and message_crc(message) != message.crc:
            raise _wrong_checksum(message)
        yield message
        position = message.end


def find_batches(data: Buffer, *, check_crcs: bool = True) -> Sequence[int]:
    """The positions of the batches at the start of a record set, up to the first that is not a sound one of magic 2.

    What follows the last of them is of another format, cut off, or damaged; `iter_batches` says which.
    """
    if speedups.module is not None:
        return read_batches_in_c(speedups.module, data, check_crcs=check_crcs)[::BATCH_NUMBERS]
    checksum = _crc32c() if check_crcs else None
    read, view, size_bytes = _LENGTH_MAGIC_AND_CRC.unpack_from, memoryview(data), len(data)
    positions, position = [], 0
    while position + HEADER_BYTES <= size_bytes:
        length_bytes, magic, crc = read(data, position + _LENGTH_AT)
        end = position + LOG_OVERHEAD_BYTES + length_bytes
        if magic != 2 or length_bytes < MIN_LENGTH_BYTES or end > size_bytes:
            break
        if checksum is not None and checksum(view[position + _CRC_COVERS_FROM : end]) != crc:
            break
        positions.append(position)
        position = end
    return positions


def read_batches_in_c(module: ModuleType, data: Buffer, *, check_crcs: bool) -> memoryview:
    """The same batches, int64: of each its position, and the numbers of its header, as `Batch` has them."""
    return memoryview(module.find_batches(data, _crc32c() if check_crcs else None)).cast("q")


def last_batch(data: Buffer) -> Batch | None:
    """The last whole batch of a record set, without a look at checksums. None: none is whole.

    Raises:
        CorruptRecordError: As `iter_batches`.
    """
    found = find_batches(data, check_crcs=False)
    batch = None
    # From the last of those on, all is looked at: what is behind them may be whole, cut off, or damaged.
    for batch in iter_batches(data, check_crcs=False, start=found[-1] if found else 0):  # noqa: B007  the last counts
        pass
    return batch


def size_of_first(data: Buffer) -> int:
    """The size of the first batch, of any format; 0 if the record set is too short to say."""
    if len(data) < LOG_OVERHEAD_BYTES:
        return 0
    (length_bytes,) = _LENGTH.unpack_from(data, _LENGTH_AT)
    return LOG_OVERHEAD_BYTES + int(length_bytes)


def codec_of_first(data: Buffer) -> int:
    """The codec of the first batch; 0 also if that is of another format than magic 2, or not whole."""
    is_known = len(data) >= HEADER_BYTES and data[MAGIC_AT] == 2
    return data[_CODEC_AT] & CODEC_MASK if is_known else 0


def next_sound_offset(data: Buffer, position: int) -> int | None:
    """The base offset of the first sound batch that begins behind `position`. None: there is no such batch, or the
    length of one in front of it cannot be believed."""
    view, start = memoryview(data), 0
    while start + HEADER_BYTES <= len(view):
        base_offset = int.from_bytes(view[start : start + 8], "big", signed=True)
        (length_bytes,) = _LENGTH.unpack_from(view, start + _LENGTH_AT)
        end = start + LOG_OVERHEAD_BYTES + length_bytes
        if length_bytes < MIN_MESSAGE_BYTES or end > len(view):
            return None
        if base_offset > position and _is_sound(view[start:end]):
            return base_offset
        start = end
    return None


def _is_sound(batch: memoryview) -> bool:
    try:
        return next(iter_batches(batch), None) is not None
    except CorruptRecordError:
        return False


@cache
def _crc32c() -> Callable[[Buffer], int]:
    """Only who checks loads the extension: the network thread does not, it looks at headers."""
    from fastcrc.crc32 import iscsi

    return iscsi


def _wrong_checksum(batch: Batch) -> CorruptRecordError:
    return batch.damage(f"wrong checksum: its header says 0x{batch.crc:08x}, its bytes differ")


def _message_at(data: Buffer, position: int) -> Batch | None:
    """The message of magic 0 or 1 that lies there, where no whole batch of magic 2 does. None: it is not whole.

    Raises:
        CorruptRecordError: What lies there is neither.
    """
    rest_bytes = len(data) - position
    if rest_bytes < LOG_OVERHEAD_BYTES:
        return None
    (length_bytes,) = _LENGTH.unpack_from(data, position + _LENGTH_AT)
    if length_bytes < MIN_MESSAGE_BYTES:
        raise _framing_damage(data, position)
    if rest_bytes <= MAGIC_AT:
        return None
    magic = data[position + MAGIC_AT]
    if magic > 2:
        raise _framing_damage(data, position)
    end = position + LOG_OVERHEAD_BYTES + length_bytes
    if end > len(data):
        return None
    if magic == 2:  # too short for its header, or it would have been a batch
        raise _framing_damage(data, position)
    return read_message(data, position, end)


def read_message(data: Buffer, position: int, end: int) -> Batch:
    """One message of magic 0 or 1 as a batch. The caller has checked that it lies inside `data` up to `end`."""
    offset, length_bytes, crc, magic, attributes = _MESSAGE.unpack_from(data, position)
    timestamp = -1
    if magic > 0 and position + _MESSAGE.size + _TIMESTAMP.size <= end:
        (timestamp,) = _TIMESTAMP.unpack_from(data, position + _MESSAGE.size)
    # Only codec and timestamp type are defined here (KIP-32); the other bits mean nothing before magic 2.
    attributes &= CODEC_MASK | LOG_APPEND_TIME_BIT
    count = -1 if attributes & CODEC_MASK else 1
    return Batch(
        data, position, offset, length_bytes, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count
    )


def message_crc(batch: Batch) -> int:
    """The CRC-32 of a magic 0 or 1 message: it covers everything behind itself."""
    return zlib.crc32(memoryview(batch.data)[batch.position + MAGIC_AT : batch.end])


def _framing_damage(data: Buffer, position: int) -> CorruptRecordError:
    """The header cannot be believed, so the place in the record set says more than its offset field."""
    offset = int.from_bytes(data[position : position + 8], "big", signed=True)
    (length_bytes,) = _LENGTH.unpack_from(data, position + _LENGTH_AT)
    where = f"record batch at byte {position} (base offset {offset})"
    if length_bytes < MIN_MESSAGE_BYTES:
        problem = f"its length of {length_bytes} bytes is less than the {MIN_MESSAGE_BYTES} of the shortest message"
    elif data[position + MAGIC_AT] == 2:
        problem = f"its length of {length_bytes} bytes is less than the rest of a batch header of {HEADER_BYTES}"
    else:
        problem = f"unknown magic {data[position + MAGIC_AT]}; known are 0, 1 and 2"
    return CorruptRecordError(f"{where}: {problem}", offset=offset)
