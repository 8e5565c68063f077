"""gzip: ISA-L and zlib, which stands in for it on rare processors, say the same of good, cut and damaged streams."""

from __future__ import annotations

import gzip
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import CorruptRecordError
from kwire.protocol import compression
from kwire.protocol.compression import Codec, decompress
from kwire.protocol.gzip_library import GzipLibrary, isal_or_zlib, only_zlib

TEXT = b"".join(b"line %d of a text that compresses well\n" % number for number in range(2000))
PIECES = (b"", b"x", TEXT[:5_000], bytes(100_000))
FLAGS_AT = 3
RESERVED_FLAGS = 0xE0


def outcome(library: GzipLibrary, packed: bytes, *, limit_bytes: int = 200_000) -> bytes | None:
    """What comes out, or None for the one error that damage may raise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "_GZIP", library)
        try:
            return bytes(decompress(Codec.GZIP, packed, limit_bytes=limit_bytes))
        except CorruptRecordError:
            return None


def test_isal_is_used_where_it_is_installed_and_zlib_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "isal" in isal_or_zlib().inflater.__module__
    monkeypatch.setitem(sys.modules, "isal", None)
    assert isal_or_zlib() == only_zlib()


@pytest.mark.parametrize("level", range(10))
@pytest.mark.parametrize("library", [isal_or_zlib(), only_zlib()], ids=["isal", "zlib"])
def test_every_level_inflates(library: GzipLibrary, level: int) -> None:
    for piece in (*PIECES, TEXT):
        packed = gzip.compress(piece, level, mtime=0)
        assert outcome(library, packed) == outcome(library, packed + b"\0 padding") == piece
        assert outcome(library, packed + packed) == piece + piece


@pytest.mark.slow
@settings(derandomize=True, max_examples=300, deadline=None)
@given(data=st.data())
def test_both_say_the_same_of_damage(data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(data.draw(st.sampled_from(PIECES)), data.draw(st.integers(0, 9)), mtime=0))
    for _ in range(data.draw(st.integers(0, 2))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    packed[FLAGS_AT] &= ~RESERVED_FLAGS  # zlib refuses these, ISA-L passes them over
    cut = bytes(packed[: data.draw(st.integers(0, len(packed)))]) if data.draw(st.booleans()) else bytes(packed)
    limit_bytes = data.draw(st.sampled_from([4_999, 5_000, 200_000]))
    assert outcome(isal_or_zlib(), cut, limit_bytes=limit_bytes) == outcome(only_zlib(), cut, limit_bytes=limit_bytes)
