"""Codec id -> compression of a whole payload, in the framings Kafka reads; the other way round is `compression.py`.

The codecs are loaded by the first who compresses: a consumer does so for its metrics alone, if anybody wants them.
"""

from __future__ import annotations

import struct
import zlib

NONE, GZIP, SNAPPY, LZ4, ZSTD = CODECS = range(5)
# 16 + 15 asks zlib for the gzip wrapper with the full window.
_GZIP_WBITS = 31


def deflate(codec: int, payload: bytes) -> bytes:
    """The payload, compressed by one of `CODECS`."""
    if codec == NONE:
        return payload
    if codec == GZIP:
        deflater = zlib.compressobj(wbits=_GZIP_WBITS)
        return deflater.compress(payload) + deflater.flush()
    import cramjam

    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(payload))
        return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block  # xerial's stream of blocks
    if codec == LZ4:
        compressor = cramjam.lz4.Compressor(block_linked=False)  # Kafka's reader takes independent blocks only
        compressor.compress(payload)
        return bytes(compressor.finish())
    return bytes(cramjam.zstd.compress(payload))
