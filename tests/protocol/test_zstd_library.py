"""zstd: zstandard, whose decompressors are kept, says the same of good, cut and damaged frames as cramjam does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cramjam
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import CorruptRecordError
from kwire.protocol.compression import Codec, decompress
from kwire.protocol.zstd_library import ZstdError, inflate_zstd

TEXT = b"".join(b"line %d of a text that compresses well\n" % number for number in range(8000))
PIECES = (b"", b"x", TEXT[:5_000], TEXT, bytes(131_072), bytes(300_000))
SKIPPABLE = (0x184D2A5F).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"12345"


def packed(piece: bytes, *, level: int = 3, knows_size: bool = True, has_checksum: bool = False) -> bytes:
    compressor = zstandard.ZstdCompressor(level=level, write_content_size=knows_size, write_checksum=has_checksum)
    return compressor.compress(piece)


def outcome(data: bytes, limit_bytes: int = 1_000_000) -> bytes | None:
    """What comes out, or None for the one error that damage may raise."""
    try:
        return bytes(decompress(Codec.ZSTD, data, limit_bytes=limit_bytes))
    except CorruptRecordError:
        return None


@pytest.mark.parametrize("level", [-5, 1, 3, 9, 19])
@pytest.mark.parametrize("knows_size", [True, False])
@pytest.mark.parametrize("has_checksum", [True, False])
def test_frames_of_every_kind_inflate(level: int, knows_size: bool, has_checksum: bool) -> None:
    frames = [packed(piece, level=level, knows_size=knows_size, has_checksum=has_checksum) for piece in PIECES]
    assert [outcome(frame) for frame in frames] == list(PIECES)
    assert outcome(SKIPPABLE.join(frames) + SKIPPABLE) == b"".join(PIECES)


@pytest.mark.parametrize("piece", [piece for piece in PIECES if len(piece) > 1])
def test_room_that_is_one_byte_too_small_is_told(piece: bytes) -> None:
    room = bytearray(len(piece))
    assert inflate_zstd(packed(piece), memoryview(room)) == len(piece)
    assert room == piece
    with pytest.raises(ZstdError, match=f"more than {len(piece) - 1} bytes"):
        inflate_zstd(packed(piece), memoryview(room)[:-1])


@pytest.mark.parametrize("has_checksum", [True, False])
def test_whatever_is_cut_off_is_noticed(has_checksum: bool) -> None:
    whole = packed(TEXT[:200], has_checksum=has_checksum) + SKIPPABLE
    ends = {0, len(whole) - len(SKIPPABLE), len(whole)}
    assert {size for size in range(len(whole) + 1) if outcome(whole[:size]) is not None} == ends


def test_several_threads_may_inflate_at_once() -> None:
    frames = [(packed(TEXT[start : start + 3_000]), TEXT[start : start + 3_000]) for start in range(0, 30_000, 1_000)]
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(lambda each: outcome(each[0]) == each[1], frames * 30))


@pytest.mark.slow
@settings(derandomize=True, max_examples=400, deadline=None)
@given(data=st.data())
def test_both_say_the_same_of_damage(data: st.DataObject) -> None:
    piece = data.draw(st.sampled_from(PIECES))
    whole = bytearray(
        packed(piece, knows_size=data.draw(st.booleans()), has_checksum=data.draw(st.booleans()))
        + data.draw(st.sampled_from([b"", SKIPPABLE, packed(b"more")]))
    )
    for _ in range(data.draw(st.integers(0, 2))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))]) if data.draw(st.booleans()) else bytes(whole)
    try:
        expected = bytes(cramjam.zstd.decompress(cut)) if cut else b""
    except cramjam.DecompressionError:
        expected = None
    assert outcome(cut) == expected
