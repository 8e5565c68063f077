"""Payloads inflate in every framing Kafka's clients write, and never beyond the limit."""

from __future__ import annotations

import gzip
import tracemalloc
from collections import deque
from typing import TYPE_CHECKING

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import CorruptRecordError
from kwire.protocol.compression import Codec, decompress, decompress_into
from kwire.protocol.compression_buffer import InflationBuffer
from kwire.protocol.compression_frames import lone_lz4_block, lz4_frame, xxh32_small, zstd_output_bound

if TYPE_CHECKING:
    from kwire.protocol.record_batch import Buffer

TEXT = b"".join(b"line %d of a text that compresses well\n" % number for number in range(2000))
XERIAL_HEADER = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2


def compress(codec: Codec, data: bytes) -> bytes:
    if codec is Codec.GZIP:
        return gzip.compress(data, mtime=0)
    if codec is Codec.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    return bytes((cramjam.lz4 if codec is Codec.LZ4 else cramjam.zstd).compress(data))


def xerial(*blocks: bytes) -> bytes:
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return XERIAL_HEADER + b"".join(len(block).to_bytes(4, "big") + block for block in packed)


def attempt(codec: Codec, data: bytes, *, limit_bytes: int) -> bytes | memoryview | CorruptRecordError:
    """The inflated bytes, or the one error that damage may raise."""
    try:
        return decompress(codec, data, limit_bytes=limit_bytes)
    except CorruptRecordError as error:
        return error


CODECS = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"x", TEXT, bytes(200_000)], ids=["one byte", "text", "zeros"])
def test_inflates_what_was_deflated(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(bytearray(packed))) == data


def test_no_codec_hands_the_payload_through_uncopied() -> None:
    view = memoryview(TEXT)
    assert decompress(Codec.NONE, view) is view


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"unknown compression codec id {codec}"):
        decompress(codec, b"")


def test_gzip_members_follow_each_other_and_what_follows_the_last_is_ignored() -> None:
    packed = compress(Codec.GZIP, b"one ") + compress(Codec.GZIP, b"two")
    assert decompress(Codec.GZIP, packed + b"\0\0 padding") == b"one two"


def test_snappy_comes_in_xerial_blocks_and_in_appended_streams() -> None:
    assert decompress(Codec.SNAPPY, xerial(b"one ", b"two ", b"three")) == b"one two three"
    assert decompress(Codec.SNAPPY, xerial(b"one ") + xerial(b"two")) == b"one two"
    assert decompress(Codec.SNAPPY, XERIAL_HEADER) == b""


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_cut_xerial_stream_is_refused(cut: int) -> None:
    stream = xerial(b"one two three four", b"five")
    whole_blocks = {len(XERIAL_HEADER), len(xerial(b"one two three four"))}
    if len(stream) - cut in whole_blocks:
        return
    with pytest.raises(CorruptRecordError, match="undecodable snappy"):
        decompress(Codec.SNAPPY, stream[:-cut])


def test_zstd_frames_follow_each_other_with_skippable_ones_between() -> None:
    skippable = (0x184D2A53).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    packed = compress(Codec.ZSTD, b"one ") + skippable + compress(Codec.ZSTD, b"two")
    assert decompress(Codec.ZSTD, packed) == b"one two"
    assert decompress(Codec.ZSTD, b"") == b""


def test_lz4_stops_at_the_end_mark() -> None:
    assert decompress(Codec.LZ4, compress(Codec.LZ4, TEXT) + b"behind the frame") == TEXT
    assert decompress(Codec.LZ4, lz4_blocks(b"") + bytes(8)) == b""


def test_magic_0_lz4_has_a_wrong_header_checksum_which_later_formats_may_not_have() -> None:
    packed = bytearray(compress(Codec.LZ4, TEXT))
    packed[14 if packed[4] & 8 else 6] ^= 0xFF
    assert decompress(Codec.LZ4, bytes(packed), magic=0) == TEXT
    with pytest.raises(CorruptRecordError, match="undecodable lz4"):
        decompress(Codec.LZ4, bytes(packed), magic=1)


def lz4_blocks(data: bytes, *, flags: int = 0x60, stored: bool = False, block_bytes: int = 65536) -> bytes:
    """A frame as producers write it: independent blocks of 64 KiB. Where `flags` ask for checksums, those are zeros."""
    descriptor = bytes([flags, 0x40]) + (len(data).to_bytes(8, "little") if flags & 0x08 else b"")
    frame = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32_small(descriptor) >> 8 & 0xFF])
    for start in range(0, len(data), block_bytes):
        piece = data[start : start + block_bytes]
        # What the library puts in front of a block, its size, is no part of the format.
        packed = piece if stored else bytes(cramjam.lz4.compress_block(piece, store_size=True))[4:]
        frame += (len(packed) | (0x80000000 if stored else 0)).to_bytes(4, "little") + packed
        frame += bytes(4 if flags & 0x10 else 0)
    return frame + bytes(4) + bytes(4 if flags & 0x04 else 0)


@pytest.mark.parametrize("flags", [0x60, 0x68], ids=["plain", "with content size"])
@pytest.mark.parametrize("stored", [False, True], ids=["packed", "stored"])
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(200_000)], ids=["nothing", "one byte", "text", "zeros"])
def test_lz4_blocks_inflate_as_the_frame_does(data: bytes, flags: int, stored: bool) -> None:
    packed = lz4_blocks(data, flags=flags, stored=stored)
    assert lz4_frame(packed, fix_checksum=False).blocks is not None
    assert decompress(Codec.LZ4, memoryview(packed)) == data
    assert bytes(cramjam.lz4.decompress(packed)) == data


def test_lz4_blocks_that_need_one_another_are_left_to_the_library() -> None:
    packed = compress(Codec.LZ4, TEXT)
    assert packed[4] & 0x20 == 0
    assert lz4_frame(packed, fix_checksum=False).blocks is None


@pytest.mark.parametrize("flags", [0x64, 0x70, 0x74, 0x7C], ids=["content", "blocks", "both", "both and content size"])
@pytest.mark.parametrize("data", [b"", b"x", TEXT[:40_000], TEXT, bytes(200_000)], ids=len)
def test_checksums_inside_lz4_are_passed_over_because_the_batch_has_one(data: bytes, flags: int) -> None:
    packed = lz4_blocks(data, flags=flags)
    assert lz4_frame(packed, fix_checksum=False).blocks is not None
    assert decompress(Codec.LZ4, packed + b"behind the frame") == data
    for missing in range(1, 9):
        with pytest.raises(CorruptRecordError, match="undecodable lz4"):
            decompress(Codec.LZ4, packed[:-missing])


@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("data", [TEXT[:4_000], TEXT * 3], ids=["one block", "many"])
def test_lz4_of_aiokafka_is_inflated_block_by_block(data: bytes, content_checksum: bool) -> None:
    # With the compressor that aiokafka has; its frames are four times as fast that way.
    compressor = cramjam.lz4.Compressor(level=9, content_checksum=content_checksum, block_linked=False)
    compressor.compress(data)
    packed = bytes(compressor.finish())
    assert packed[4] & 0x10
    assert lz4_frame(packed, fix_checksum=False).blocks is not None
    assert (lone_lz4_block(packed) is not None) == (len(data) < 65_536)
    assert decompress(Codec.LZ4, packed) == data


def test_lz4_blocks_have_their_header_checked_except_in_magic_0() -> None:
    packed = bytearray(lz4_blocks(TEXT))
    packed[6] ^= 0xFF
    assert decompress(Codec.LZ4, bytes(packed), magic=0) == TEXT
    with pytest.raises(CorruptRecordError, match="undecodable lz4"):
        decompress(Codec.LZ4, bytes(packed))


@pytest.mark.parametrize("stored", [False, True])
def test_lz4_blocks_keep_to_the_limit(stored: bool) -> None:
    packed = lz4_blocks(TEXT, stored=stored)
    assert decompress(Codec.LZ4, packed, limit_bytes=len(TEXT)) == TEXT
    with pytest.raises(CorruptRecordError, match=f"beyond the limit of {len(TEXT) - 1} bytes"):
        decompress(Codec.LZ4, packed, limit_bytes=len(TEXT) - 1)


def test_an_lz4_block_larger_than_the_frame_allows_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="undecodable lz4"):
        decompress(Codec.LZ4, lz4_blocks(bytes(70_000), block_bytes=70_000))


@settings(derandomize=True, max_examples=80, deadline=None)
@given(data=st.data())
def test_damaged_lz4_blocks_raise_corrupt_record_error_or_nothing(data: st.DataObject) -> None:
    packed = bytearray(lz4_blocks(TEXT[:5000], block_bytes=1000))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    result = attempt(Codec.LZ4, bytes(packed), limit_bytes=20_000)
    assert isinstance(result, CorruptRecordError) or len(result) <= 20_000


def test_many_payloads_become_one_stretch_and_what_fails_leaves_nothing() -> None:
    target = InflationBuffer()
    expected = b""
    for codec in Codec:
        piece = TEXT[: 1000 * (codec + 1)]
        decompress_into(target, codec, piece if codec is Codec.NONE else compress(codec, piece))
        expected += piece
        assert len(target) == len(expected)
        with pytest.raises(CorruptRecordError):
            decompress_into(target, Codec.ZSTD, compress(Codec.ZSTD, TEXT)[:-9])
        assert len(target) == len(expected)
    assert target.finish() == expected


def inflated(*pieces: bytes) -> Buffer:
    target = InflationBuffer()
    for piece in pieces:
        decompress_into(target, Codec.ZSTD, compress(Codec.ZSTD, piece))
    return target.finish()


def test_memory_is_used_again_and_what_came_out_of_it_stays() -> None:
    first = inflated(TEXT, b"one")
    tracemalloc.start()
    second = inflated(b"two")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (first, second) == (TEXT + b"one", b"two")
    assert peak_bytes < len(TEXT)


def test_memory_is_used_again_only_when_nobody_has_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: True, raising=False)
    size_bytes = 3_000_000
    whole = memoryview(inflated(bytes([1]) * size_bytes))
    part, numbers = whole[5:9], np.frombuffer(whole, dtype=np.uint8)
    place = numbers.ctypes.data
    whole.release()
    del whole
    others = [inflated(bytes([2]) * size_bytes) for _ in range(2)]
    assert (bytes(part), set(numbers.tolist())) == (bytes([1]) * 4, {1})
    del numbers
    others.append(inflated(bytes([3]) * size_bytes))
    assert bytes(part) == bytes([1]) * 4
    del part
    assert np.frombuffer(inflated(bytes([4]) * size_bytes), dtype=np.uint8).ctypes.data == place


@pytest.mark.parametrize(("is_locked", "kind"), [(True, memoryview), (False, bytes)])
def test_threads_that_run_at_the_same_time_do_not_share_a_memoryview(
    monkeypatch: pytest.MonkeyPatch, is_locked: bool, kind: type
) -> None:
    """With the interpreter's lock what was inflated is not copied."""
    monkeypatch.setattr("sys._is_gil_enabled", lambda: is_locked, raising=False)
    monkeypatch.setattr("kwire.protocol.compression_buffer._kept", deque())  # more room than is used would be copied
    buffer = InflationBuffer()
    buffer.room(4)[:] = memoryview(b"\1\2\3\4")
    buffer.took(4)
    taken = buffer.finish()
    assert isinstance(taken, kind)
    assert bytes(taken) == b"\1\2\3\4"


def test_the_room_is_an_array_for_cramjam_writes_into_no_memoryview_where_the_interpreter_has_no_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    target = InflationBuffer()
    room = target.room(4)
    assert isinstance(room, np.ndarray)
    room[:] = memoryview(b"here")
    target.took(4)
    assert target.finish() == b"here"


def test_nobody_can_write_into_what_came_out() -> None:
    assert memoryview(inflated(TEXT * 20)).readonly


def test_two_buffers_at_a_time_do_not_share_memory() -> None:
    inflated(TEXT)
    one, other = InflationBuffer(), InflationBuffer()
    decompress_into(one, Codec.NONE, b"aaaa")
    decompress_into(other, Codec.NONE, b"bbbb")
    assert (one.finish(), other.finish()) == (b"aaaa", b"bbbb")


def test_memory_for_something_very_large_is_not_kept() -> None:
    size_bytes = 9_000_000
    tracemalloc.start()
    assert len(inflated(bytes(size_bytes))) == size_bytes
    kept_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept_bytes < 100_000


@pytest.mark.parametrize(
    ("data", "expected"),
    # From the reference implementation of xxHash, seed 0.
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (b"abcd", 0xA3643705)],
)
def test_xxh32_is_the_published_function(data: bytes, expected: int) -> None:
    assert xxh32_small(data) == expected


def test_xxh32_small_refuses_what_it_cannot_hash() -> None:
    with pytest.raises(ValueError, match="up to 15 bytes"):
        xxh32_small(bytes(16))


@pytest.mark.parametrize("codec", CODECS)
def test_a_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, limit_bytes=len(TEXT)) == TEXT
    with pytest.raises(CorruptRecordError, match=f"beyond the limit of {len(TEXT) - 1} bytes"):
        decompress(codec, packed, limit_bytes=len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_allocates_no_more_than_the_limit(codec: Codec) -> None:
    limit_bytes = 100_000
    packed = compress(codec, bytes(4_000_000))
    if codec is Codec.SNAPPY:
        packed = xerial(*[bytes(40_000)] * 100)
    tracemalloc.start()
    with pytest.raises(CorruptRecordError, match="beyond the limit"):
        decompress(codec, packed, limit_bytes=limit_bytes)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # zlib grows its answer by doubling, and an error drags its traceback along.
    assert peak_bytes < 2 * limit_bytes + 100_000


def test_a_gzip_bomb_in_many_members_is_bounded_too() -> None:
    with pytest.raises(CorruptRecordError, match="beyond the limit"):
        decompress(Codec.GZIP, compress(Codec.GZIP, bytes(1000)) * 20, limit_bytes=10_000)


@pytest.mark.parametrize(("block_id", "most_bytes"), [(4, 65_536), (5, 262_144), (6, 1_048_576), (7, 4_194_304)])
def test_an_lz4_block_inflates_to_what_its_frame_says_at_most(block_id: int, most_bytes: int) -> None:
    """However well it compresses: four bytes a mebibyte would be a good bomb."""
    descriptor = bytes([0x60, block_id << 4])
    header = b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32_small(descriptor) >> 8 & 0xFF])
    block = (50_000).to_bytes(4, "little") + bytes(50_000)
    for blocks in (1, 3):
        frame = lz4_frame(header + block * blocks + bytes(4), fix_checksum=False)
        assert frame.bound_bytes == blocks * most_bytes
    assert lone_lz4_block(header + block + bytes(4)) == ((11, 50_011, False), most_bytes)


def test_a_zstd_block_inflates_to_128_kib_at_most() -> None:
    raw = (100 << 3).to_bytes(3, "little") + bytes(100)
    run = (200_000 << 3 | 2 | 1).to_bytes(3, "little") + b"x"  # repeated more often than a block may
    compressed = (9 << 3 | 4).to_bytes(3, "little") + bytes(9)
    frame = bytes.fromhex("28b52ffd 00 58")  # with a window, and no content size
    assert zstd_output_bound(frame + raw + compressed + run) == 100 + 131_072 + 131_072


def test_a_claimed_content_size_is_not_believed() -> None:
    # zstd: single segment, 8-byte content size of 1 TiB, then one raw block of 3 bytes
    zstd = bytes.fromhex("28b52ffd e0") + (1 << 40).to_bytes(8, "little") + (3 << 3 | 1).to_bytes(3, "little") + b"abc"
    assert zstd_output_bound(zstd) == 3
    with pytest.raises(CorruptRecordError, match="undecodable zstd"):
        decompress(Codec.ZSTD, zstd)
    # snappy: a varint of 4 GiB - 1 in front of nothing much
    with pytest.raises(CorruptRecordError, match="cannot become"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f\x00abc")


def test_bounds_cover_what_frames_inflate_to() -> None:
    for data in (b"", b"x", TEXT, bytes(300_000)):
        assert lz4_frame(compress(Codec.LZ4, data), fix_checksum=False)[1] >= len(data)
        assert zstd_output_bound(compress(Codec.ZSTD, data)) >= len(data)


@settings(derandomize=True, max_examples=80, deadline=None)
@given(codec=st.sampled_from(CODECS), data=st.data())
def test_damage_raises_corrupt_record_error_or_nothing(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[: data.draw(st.sampled_from([1, 40, 5000]))]))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    del packed[data.draw(st.integers(len(packed) // 2, len(packed))) :]
    result = attempt(codec, bytes(packed), limit_bytes=20_000)
    if isinstance(result, CorruptRecordError):
        assert codec.name.lower() in result.problem
    else:
        assert len(result) <= 20_000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_every_cut_is_noticed(codec: Codec) -> None:
    packed = compress(codec, TEXT[:400])
    for size in range(1, len(packed)):
        with pytest.raises(CorruptRecordError, match=f"undecodable {codec.name.lower()}"):
            decompress(codec, packed[:size])


@given(st.binary(max_size=64))
@settings(derandomize=True, max_examples=80, deadline=None)
def test_noise_is_refused_or_inflated_never_worse(noise: bytes) -> None:
    prefixes = [b"", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"\x82SNAPPY\x00", b"\x1f\x8b\x08\x00"]
    for codec in CODECS:
        for prefix in prefixes:
            result = attempt(codec, prefix + noise, limit_bytes=1000)
            assert isinstance(result, CorruptRecordError) or len(result) <= 1000
