"""What kwire compresses, for its metrics, it can read itself; and so can the libraries that others use."""

from __future__ import annotations

import gzip

import cramjam
import pytest

from kwire.protocol.compression import Codec, decompress
from kwire.protocol.deflation import CODECS, deflate

TEXT = b"".join(b"line %d of a text that compresses well\n" % number for number in range(3_000))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("payload", [b"", b"x", TEXT], ids=["nothing", "one byte", "text"])
def test_what_is_deflated_inflates_again(codec: int, payload: bytes) -> None:
    packed = deflate(codec, payload)
    assert bytes(decompress(codec, packed)) == payload
    assert codec == Codec.NONE or not payload or packed != payload
    assert len(packed) < len(TEXT) / 2 or codec == Codec.NONE


def test_frames_are_those_of_the_format() -> None:
    assert gzip.decompress(deflate(Codec.GZIP, TEXT)) == TEXT
    assert bytes(cramjam.lz4.decompress(deflate(Codec.LZ4, TEXT))) == TEXT
    assert bytes(cramjam.zstd.decompress(deflate(Codec.ZSTD, TEXT))) == TEXT
    # Java's stream of blocks: name, version and oldest reader's version, then the size of each block, and the block.
    stream = deflate(Codec.SNAPPY, TEXT)
    assert stream[:16] == b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1)) * 2
    assert int.from_bytes(stream[16:20], "big") == len(stream) - 20
    assert bytes(cramjam.snappy.decompress_raw(stream[20:])) == TEXT
