"""What the module in C inflates together becomes what it becomes one by one, and no byte lies beside its room."""

from __future__ import annotations

import os
import struct
import threading
from itertools import pairwise, product
from typing import TYPE_CHECKING

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import speedups
from kwire.errors import CorruptRecordError
from kwire.protocol.compression import DEFAULT_LIMIT_BYTES, Codec, decompress
from kwire.protocol.compression_buffer import InflationBuffer
from kwire.protocol.compression_frames import NO_LZ4_FRAMES, Lz4Frames, lz4_frames_like, xxh32_small
from kwire.protocol.inflation_in_c import inflation_in_c
from kwire.testing.cluster.batches import compress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

MIB = 1024 * 1024
TEXT = b"".join(b"line %d of a text that compresses well\n" % number for number in range(4000))
HEADER = b"\x04\x22\x4d\x18\x60\x40"
"""Independent blocks of up to 64 KiB, without checksums."""
FRAMES = Lz4Frames(HEADER + bytes([xxh32_small(HEADER[4:]) >> 8 & 0xFF]), 64 * 1024, 0, 0)


@pytest.fixture(scope="module")
def module() -> ModuleType:
    if speedups.module is None:
        pytest.skip("kwire._speedups was not built, or is not wanted")
    return speedups.module


def frame(*blocks: bytes, stored: bool = False) -> bytes:
    """A frame of these blocks, packed already."""
    sizes = [(len(block) | stored << 31).to_bytes(4, "little") for block in blocks]
    return FRAMES.header + b"".join(size + block for size, block in zip(sizes, blocks, strict=True)) + bytes(4)


def packed_block(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def snappy_block(size: int, *elements: bytes) -> bytes:
    """A raw block of these elements, which says that it inflates to so many bytes."""
    head = bytearray()
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + b"".join(elements)


def literals(data: bytes, length_bytes: int = 0) -> bytes:
    """An element; without `length_bytes` its length, which is at most 60, is in the tag."""
    if not length_bytes:
        return bytes([len(data) - 1 << 2]) + data
    return bytes([59 + length_bytes << 2]) + (len(data) - 1).to_bytes(length_bytes, "little") + data


def copy(length: int, offset: int, offset_bytes: int = 2) -> bytes:
    """An element that copies what was written so many bytes before."""
    if offset_bytes == 1:
        return bytes([offset >> 8 << 5 | (length - 4) << 2 | 1, offset & 0xFF])
    return bytes([(length - 1) << 2 | (2 if offset_bytes == 2 else 3)]) + offset.to_bytes(offset_bytes, "little")


def xerial(*blocks: bytes) -> bytes:
    """The stream of raw blocks that Java's producers write."""
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


def raw_snappy(data: bytes) -> bytes:
    """As librdkafka writes it."""
    return bytes(cramjam.snappy.compress_raw(data))


def inflated_in_c(
    payloads: Sequence[tuple[int, bytes]], *, limit_bytes: int = DEFAULT_LIMIT_BYTES, enough_bytes: int = 64 * MIB
) -> list[bytes]:
    """What comes of these, each a codec and bytes, with some bytes in front, between and behind. A thread that has
    begun with them makes the same of them."""
    data, places = bytearray(b"before"), []
    for codec, payload in payloads:
        places.append((codec, len(data), len(data) + len(payload)))
        data += payload + b"beside"
    numbers = memoryview(np.array(places, dtype=np.int64).T.tobytes()).cast("q")
    now, ahead = (
        inflated(memoryview(data), numbers, limit_bytes, enough_bytes, is_begun=is_begun) for is_begun in (False, True)
    )
    assert now == ahead
    return now


def inflated(
    data: memoryview, payloads: memoryview, limit_bytes: int, enough_bytes: int, *, is_begun: bool
) -> list[bytes]:
    target = InflationBuffer()
    assert speedups.module is not None
    inflation = inflation_in_c(
        speedups.module, target, data, payloads, limit_bytes=limit_bytes, enough_bytes=enough_bytes
    )
    if inflation is None:
        return []
    if is_begun:
        inflation.begin()
    behind = inflation.places()
    assert len(target) == (behind[-1] if behind else 0)
    whole = bytes(target.finish())
    return [whole[start:end] for start, end in pairwise([0, *behind])]


repetitive = st.builds(
    lambda parts: b"".join(part * times for part, times in parts),
    st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 60)), max_size=30),
)
contents = st.one_of(
    repetitive,
    st.binary(max_size=300),
    st.integers(0, 3).map(lambda blocks: TEXT[: blocks * 65_536 + 7]),
    st.integers(65_530, 65_542).map(bytes),
)


packed = st.tuples(st.sampled_from([Codec.NONE, Codec.SNAPPY, Codec.LZ4]), contents)


@given(st.lists(packed, min_size=1, max_size=8))
def test_payloads_become_what_was_packed(module: ModuleType, contents: list[tuple[Codec, bytes]]) -> None:
    payloads = [(codec, compress(codec, content)) for codec, content in contents]
    expected = [content for _, content in contents] if any(codec for codec, _ in contents) else []
    assert inflated_in_c(payloads) == expected


@given(st.lists(contents, min_size=1, max_size=4))
def test_snappy_without_a_stream_around_it(module: ModuleType, contents: list[bytes]) -> None:
    assert inflated_in_c([(Codec.SNAPPY, raw_snappy(content)) for content in contents]) == contents


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
@given(st.lists(contents, min_size=1, max_size=4), st.data())
def test_damage_is_left_to_python_or_makes_no_difference(
    module: ModuleType, codec: Codec, contents: list[bytes], data: st.DataObject
) -> None:
    payloads = [bytearray(compress(codec, content)) for content in contents]
    for _ in range(data.draw(st.integers(1, 4))):
        damaged = data.draw(st.sampled_from(payloads))
        place = data.draw(st.integers(0, max(0, len(damaged) - 1)))
        damaged[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    found = inflated_in_c([(codec, bytes(payload)) for payload in payloads])
    for payload, inflated in zip(payloads, found, strict=False):
        # The library refuses lz4 blocks that end in a match, and the module takes them. No compressor writes such.
        try:
            assert decompress(codec, bytes(payload)) == inflated
        except CorruptRecordError:
            assert codec == Codec.LZ4


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3))
def test_whatever_stands_in_a_block_is_inflated_as_the_library_does_or_refused(
    module: ModuleType, blocks: list[bytes]
) -> None:
    payload = frame(*blocks)
    found = inflated_in_c([(Codec.LZ4, payload)] * 2)
    try:
        expected = decompress(Codec.LZ4, payload)
    except CorruptRecordError:
        return
    assert found in ([], [expected] * 2)


elements = st.one_of(
    st.builds(literals, st.binary(min_size=1, max_size=60)),
    st.builds(literals, st.binary(min_size=1, max_size=90), st.integers(1, 4)),
    st.builds(copy, st.integers(1, 64), st.integers(0, 200), st.sampled_from([2, 4])),
    st.builds(copy, st.integers(4, 11), st.integers(0, 2047), st.just(1)),
    st.binary(max_size=5),
)


@given(st.integers(0, 500), st.lists(elements, max_size=30))
def test_whatever_stands_in_a_block_of_snappy_is_inflated_as_the_library_does_or_refused(
    module: ModuleType, size: int, elements: list[bytes]
) -> None:
    payload = snappy_block(size, *elements)
    found = inflated_in_c([(Codec.SNAPPY, payload)] * 2)
    try:
        expected = [decompress(Codec.SNAPPY, payload)] * 2
    except CorruptRecordError:
        expected = []
    assert found == expected


@pytest.mark.parametrize(
    ("offset_bytes", "offset"),
    [
        *product((1, 2, 4), (1, 2, 7, 8, 15, 16, 17, 31, 64, 1_000)),
        *product((2, 4), (60_000,)),
        (4, 100_000),
    ],
)
def test_copies_of_each_length_and_offset(module: ModuleType, offset_bytes: int, offset: int) -> None:
    """In the middle of a block, where there is slack, and at its end."""
    front = np.random.default_rng(offset).integers(0, 256, max(offset, 100), dtype=np.uint8).tobytes()
    for length in range(4, 12) if offset_bytes == 1 else range(1, 65):
        repeated = (front[-offset:] * (length // offset + 1))[:length]
        near = literals(front, 3), copy(length, offset, offset_bytes)
        payload = snappy_block(2 * len(front) + length, *near, literals(front, 4))
        assert inflated_in_c([(Codec.SNAPPY, payload)]) == [front + repeated + front]
        assert inflated_in_c([(Codec.SNAPPY, snappy_block(len(front) + length, *near))]) == [front + repeated]


@pytest.mark.parametrize("length", [1, 15, 16, 17, 59, 60, 61, 62, 63, 64, 65, 255, 256, 257, 65_536, 65_537])
def test_literals_of_each_length(module: ModuleType, length: int) -> None:
    data = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8).tobytes()
    least_bytes = 0 if length <= 60 else (length - 1).bit_length() + 7 >> 3
    for length_bytes in range(least_bytes, 5):
        each = literals(data, length_bytes)
        last = literals(data[:-1], 3) if length > 1 else b""
        payload = snappy_block(4 * length, each, copy(1, 1), each, each, last)
        expected = data + data[-1:] + data + data + data[:-1]
        assert inflated_in_c([(Codec.SNAPPY, payload)]) == [expected]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x80",
        b"\x05",
        b"\xff\xff\xff\xff\xff\x00",
        b"\xff\xff\xff\xff\x1f\x00a",
        snappy_block(2, literals(b"a")),
        snappy_block(1, literals(b"ab")),
        snappy_block(5, literals(b"a"), copy(4, 0)),
        snappy_block(5, literals(b"a"), copy(4, 2)),
        snappy_block(5, literals(b"a"), copy(4, 1)[:-1]),
        snappy_block(5, literals(b"abcde")[:-1]),
        snappy_block(70, literals(bytes(70), 1)[:1]),
        snappy_block(70, literals(bytes(70), 4)[:4]),
        b"\x82SNAPPY\x00\x00\x00",
        xerial(b""),
        xerial(snappy_block(1, literals(b"a")))[:-1],
        xerial(snappy_block(1, literals(b"a"))) + b"\x00\x00\x00",
        xerial() + struct.pack(">i", -1),
    ],
    ids=repr,
)
def test_snappy_that_is_none_is_left_to_python(module: ModuleType, payload: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decompress(Codec.SNAPPY, payload)
    good = raw_snappy(TEXT[:500])
    assert inflated_in_c([(Codec.SNAPPY, good), (Codec.SNAPPY, payload), (Codec.SNAPPY, good)]) == [TEXT[:500]]


def test_streams_of_snappy_are_inflated_block_by_block_also_when_one_is_appended(module: ModuleType) -> None:
    blocks = [TEXT[:32_768], TEXT[32_768:70_000], b""]
    stream = xerial(*map(raw_snappy, blocks))
    assert inflated_in_c([(Codec.SNAPPY, stream), (Codec.SNAPPY, xerial())]) == [TEXT[:70_000], b""]
    assert inflated_in_c([(Codec.SNAPPY, stream + stream)]) == [2 * TEXT[:70_000]]


def test_lz4_of_another_kind_is_left_to_python_though_snappy_lies_beside_it(module: ModuleType) -> None:
    linked = b"\x04\x22\x4d\x18\x40" + GOOD[5:]
    snappy = (Codec.SNAPPY, raw_snappy(TEXT))
    assert inflated_in_c([snappy, (Codec.LZ4, linked), snappy]) == [TEXT]


@pytest.mark.parametrize("length", [0, 1, 14, 15, 16, 17, 18, 19, 20, 30, 269, 270, 271, 1000])
@pytest.mark.parametrize("offset", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 60_000])
def test_matches_of_each_length_and_offset(module: ModuleType, length: int, offset: int) -> None:
    """Sizes on both sides of each step that is copied at once, in the middle of a block and at its end."""
    random = np.random.default_rng(length * 100_000 + offset)
    front = random.integers(0, 256, offset, dtype=np.uint8).tobytes()
    repeated = (front * (length // offset + 1))[:length]
    content = front + repeated + b"!" + front[:20] + repeated + b"12 bytes here"
    assert inflated_in_c([(Codec.LZ4, frame(packed_block(content)))]) == [content]
    assert inflated_in_c([(Codec.LZ4, frame(packed_block(front + repeated)))]) == [front + repeated]


def test_blocks_that_are_stored_between_others(module: ModuleType) -> None:
    noise = np.random.default_rng(1).integers(0, 256, 3000, dtype=np.uint8).tobytes()
    stored = frame(noise, stored=True)
    assert inflated_in_c([(Codec.LZ4, stored), (Codec.LZ4, frame(packed_block(TEXT[:5000])))]) == [noise, TEXT[:5000]]


@pytest.mark.parametrize(
    "block",
    [
        b"\x10",
        b"\xf0",
        b"\xf0\xff",
        b"\x10a\x01",
        b"\x10a\x00\x00",
        b"\x10a\x02\x00\x10b",
        b"\x1fa\x01\x00",
        b"\x1fa\x01\x00\xff\xff\xff",
        b"\xff" * 60,
    ],
)
def test_a_block_that_is_none_is_refused(module: ModuleType, block: bytes) -> None:
    assert inflated_in_c([(Codec.LZ4, frame(block))]) == []


GOOD = frame(packed_block(TEXT[:500]))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        GOOD[:6],
        GOOD[:-1],
        GOOD[:9],
        b"\x04\x22\x4d\x18\x40" + GOOD[5:],
        GOOD[:6] + b"\x00" + GOOD[7:],
        GOOD[:7] + b"\xff\xff\xff\x7f" + GOOD[11:],
        frame(bytes(70_000), stored=True)[:-100],
        compress(Codec.ZSTD, TEXT[:500]),
    ],
    ids=["nothing", "header", "end", "size", "linked", "checksum", "huge", "stored", "zstd"],
)
def test_what_lies_in_front_of_another_frame_is_inflated(module: ModuleType, payload: bytes) -> None:
    assert inflated_in_c([(Codec.LZ4, GOOD), (Codec.LZ4, payload), (Codec.LZ4, GOOD)]) == [TEXT[:500]]
    assert inflated_in_c([(Codec.LZ4, GOOD)] * 2 + [(Codec.LZ4, payload)]) == [TEXT[:500]] * 2
    assert inflated_in_c([(Codec.LZ4, payload), (Codec.LZ4, GOOD)]) == []


def test_other_codecs_are_left_to_python(module: ModuleType) -> None:
    zstd = compress(Codec.ZSTD, TEXT)
    assert inflated_in_c([(Codec.LZ4, GOOD), (Codec.ZSTD, zstd), (Codec.LZ4, GOOD)]) == [TEXT[:500]]
    assert inflated_in_c([(Codec.SNAPPY, raw_snappy(TEXT)), (Codec.ZSTD, zstd)]) == [TEXT]
    assert inflated_in_c([(Codec.ZSTD, zstd), (Codec.ZSTD, zstd)]) == []


def test_enough_is_enough(module: ModuleType) -> None:
    payloads = [(Codec.LZ4, GOOD)] * 10
    assert len(inflated_in_c(payloads, enough_bytes=1_501)) == 4
    assert len(inflated_in_c(payloads, enough_bytes=1_500)) == 3
    assert inflated_in_c(payloads, enough_bytes=0) == []
    of_two_blocks = frame(packed_block(TEXT[:500]), packed_block(TEXT[500:900]))
    assert inflated_in_c([(Codec.LZ4, of_two_blocks)] * 2, enough_bytes=1) == [TEXT[:900]]


def test_what_grows_far_more_than_is_likely_gets_more_room(module: ModuleType) -> None:
    zeros = bytes(MIB)
    assert inflated_in_c([(Codec.LZ4, compress(Codec.LZ4, zeros))] * 3) == [zeros] * 3


def test_enough_is_enough_though_the_room_had_to_grow(module: ModuleType) -> None:
    noise, zeros = np.random.default_rng(1).bytes(100_000), bytes(MIB)
    payloads = [(Codec.LZ4, compress(Codec.LZ4, content)) for content in (noise, zeros, zeros, zeros)]
    assert inflated_in_c(payloads, enough_bytes=len(noise) + MIB) == [noise, zeros]


def test_nothing_beyond_the_limit(module: ModuleType) -> None:
    large = (Codec.LZ4, compress(Codec.LZ4, bytes(10_000)))
    assert inflated_in_c([(Codec.LZ4, GOOD), large], limit_bytes=9_999) == [TEXT[:500]]
    assert inflated_in_c([large], limit_bytes=10_000) == [bytes(10_000)]


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
@given(st.integers(0, 700), st.sampled_from([TEXT[:500], bytes(500), TEXT[:450] + bytes(50)]))
def test_no_byte_beside_the_room_is_touched(module: ModuleType, codec: Codec, room_bytes: int, content: bytes) -> None:
    payload = raw_snappy(content) if codec == Codec.SNAPPY else frame(packed_block(content))
    memory = np.full(1_000, 0xAA, dtype=np.uint8)
    behind = np.zeros(1, dtype=np.int64)
    target = memory[100 : 100 + room_bytes]
    count = module.inflate(payload, np.array([[codec], [0], [len(payload)]]), *FRAMES, target, 1 << 40, behind)
    assert count == (room_bytes >= len(content))
    assert memory[:100].tolist() == [0xAA] * 100
    assert memory[100 + room_bytes :].tolist() == [0xAA] * (900 - room_bytes)
    assert not count or target[: len(content)].tobytes() == content


def packed_alone(codec: Codec, content: bytes) -> bytes:
    """As one block."""
    if codec == Codec.SNAPPY:
        return raw_snappy(content)
    return frame(packed_block(content)) if content else frame()


SIZES = [0, 1, 20, 150, 5_000, 65_536]


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("sizes", list(product(SIZES, SIZES)))
def test_two_blocks_inflated_in_turns_lie_one_behind_the_other(
    module: ModuleType, codec: Codec, sizes: tuple[int, int]
) -> None:
    one, other = TEXT[: sizes[0]], TEXT[-sizes[1] :] if sizes[1] else b""
    contents = [one, other, b"third", other, one]
    assert inflated_in_c([(codec, packed_alone(codec, content)) for content in contents]) == contents


def test_a_block_that_inflates_to_far_more_than_others_does_not_run_into_the_one_beside_it(module: ModuleType) -> None:
    zeros, text = bytes(60_000), TEXT[:5_000]
    for contents in [zeros, text, zeros, zeros, text], [text, zeros, text], [zeros, zeros]:
        assert inflated_in_c([(Codec.LZ4, packed_alone(Codec.LZ4, content)) for content in contents]) == contents


def test_large_blocks_are_inflated_in_turns_where_they_could_be_far_larger(module: ModuleType) -> None:
    """Clients in Go write blocks of up to 4 MiB, which is more than two have room for."""
    header = HEADER[:5] + b"\x70"
    header += bytes([xxh32_small(header[4:]) >> 8 & 0xFF])
    payloads = [
        (Codec.LZ4, header + packed_alone(Codec.LZ4, content)[len(header) :])
        for content in (TEXT[:65_000], TEXT[7:], TEXT[:20])
    ]
    assert inflated_in_c(payloads) == [TEXT[:65_000], TEXT[7:], TEXT[:20]]


# Around the room that one block or two blocks of lz4 may take, and below it.
rooms = st.one_of(*(st.integers(block_bytes, block_bytes + 30_000) for block_bytes in (0, 65_536, 131_072, 196_608)))


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
@given(rooms, st.lists(st.integers(1, 9_000) | st.integers(60_000, 65_536), min_size=4, max_size=4))
def test_of_blocks_that_would_be_inflated_in_turns_those_are_that_have_room(
    module: ModuleType, codec: Codec, room_bytes: int, sizes: list[int]
) -> None:
    payloads = [packed_alone(codec, TEXT[:size_bytes]) for size_bytes in sizes]
    packed_ends = np.cumsum([len(payload) for payload in payloads])
    places = np.array([[codec] * 4, [0, *packed_ends[:-1]], packed_ends])
    memory, behind = np.full(300_000, 0xAA, dtype=np.uint8), np.zeros(4, dtype=np.int64)
    target = memory[: 100 + room_bytes][100:]
    count = module.inflate(b"".join(payloads), places, *FRAMES, target, 1 << 40, behind)
    ends = [end for end in np.cumsum(sizes).tolist() if end <= room_bytes]
    assert behind[:count].tolist() == ends
    for start, end in pairwise([0, *ends]):
        assert target[start:end].tobytes() == TEXT[: end - start]
    assert (memory[:100] == 0xAA).all()
    assert (memory[100 + room_bytes :] == 0xAA).all()


def test_a_block_that_is_damaged_is_told_from_the_one_beside_it(module: ModuleType) -> None:
    packed = raw_snappy(TEXT[:5_000])
    damaged = packed[:2_000] + b"\xff" * 40 + packed[2_040:]
    good, bad = (Codec.SNAPPY, packed), (Codec.SNAPPY, damaged)
    assert inflated_in_c([bad, good]) == []
    assert inflated_in_c([good, bad]) == [TEXT[:5_000]]
    assert inflated_in_c([good, good, bad, good]) == [TEXT[:5_000]] * 2


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 3), (0, 10_000), (2**62, 2**62), (-(2**63), 2**63 - 1)])
def test_a_payload_outside_of_the_buffer_is_refused(module: ModuleType, start: int, end: int) -> None:
    target, behind = np.zeros(100, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    for codec in Codec.NONE, Codec.SNAPPY, Codec.LZ4:
        assert not module.inflate(GOOD, np.array([[codec], [start], [end]]), *FRAMES, target, 1 << 40, behind)


@pytest.mark.parametrize(
    "other",
    [
        {"payloads": np.zeros((3, 2), dtype=np.int64)},
        {"payloads": np.zeros((2, 1), dtype=np.int64)},
        {"block_bytes": -1},
        {"block_bytes": 1 << 32},
        {"behind_block_bytes": -1},
        {"behind_block_bytes": 5},
        {"behind_frame_bytes": -1},
    ],
)
def test_sizes_that_cannot_be_are_an_error(module: ModuleType, other: dict[str, object]) -> None:
    arguments = {
        "buffer": GOOD,
        "payloads": np.array([[3], [0], [len(GOOD)]]),
        **FRAMES._asdict(),
        "target": np.zeros(1_000, dtype=np.uint8),
        "enough_bytes": 1_000,
        "behind": np.zeros(1, dtype=np.int64),
    }
    assert module.inflate(*arguments.values()) == module.InflationThread(*arguments.values()).wait() == 1
    for inflate in module.inflate, module.InflationThread:
        with pytest.raises(ValueError, match="are wanted"):
            inflate(*{**arguments, **other}.values())
        for unsuitable in ({**arguments, "buffer": "text"}, {"buffer": GOOD}):
            with pytest.raises(TypeError):
                inflate(*unsuitable.values())


def test_frames_that_say_their_size_are_not_alike() -> None:
    assert lz4_frames_like(GOOD) == FRAMES
    with_size = HEADER[:4] + b"\x68\x40" + (500).to_bytes(8, "little")
    assert lz4_frames_like(with_size + bytes([xxh32_small(with_size[4:]) >> 8 & 0xFF]) + GOOD[7:]) is None
    assert lz4_frames_like(b"\x00" * 20) is None
    assert lz4_frames_like(HEADER[:5] + b"\x00\x00") is None


def test_a_thread_is_waited_for_by_who_lets_go_of_it(module: ModuleType) -> None:
    """Its buffers are in use until then. It may be asked again, and says the same."""
    payload = raw_snappy(bytes(MIB))
    for nth in range(100):
        target, behind = np.full(MIB, 0xAA, dtype=np.uint8), np.zeros(1, dtype=np.int64)
        payloads = np.array([[Codec.SNAPPY], [0], [len(payload)]])
        thread = module.InflationThread(payload, payloads, *NO_LZ4_FRAMES, target, 1, behind)
        if nth % 2:
            assert thread.wait() == thread.wait() == 1
        del thread
        assert behind.tolist() == [MIB]
        assert not target.any()


def test_where_the_system_has_no_thread_left_it_is_inflated_at_once(module: ModuleType) -> None:
    behind, target = np.zeros(1, dtype=np.int64), np.zeros(1_000, dtype=np.uint8)
    before = threading.stack_size(2**47)  # no thread has room for such a stack
    try:
        thread = module.InflationThread(GOOD, np.array([[3], [0], [len(GOOD)]]), *FRAMES, target, 1, behind)
    finally:
        threading.stack_size(before)
    assert behind.tolist() == [500]
    assert thread.wait() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX forks")
def test_in_a_forked_process_nobody_waits_for_a_thread_that_is_not_there(module: ModuleType) -> None:
    """What the thread was to inflate counts as not inflated, unless it was through."""
    payload = raw_snappy(bytes(64 * MIB))
    payloads = np.array([[Codec.SNAPPY], [0], [len(payload)]])
    target, behind = np.empty(64 * MIB, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    threads = [module.InflationThread(payload, payloads, *NO_LZ4_FRAMES, target, 1, behind) for _ in range(2)]
    child = os.fork()
    if not child:
        status = 0 if threads.pop().wait() in {0, 1} else 1
        threads.clear()
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert [thread.wait() for thread in threads] == [1, 1]
