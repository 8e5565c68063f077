"""Bytes to values and back: Kafka's wire protocol. No clock, no I/O, no policy.

`encode` and `decode` take messages by name, `read_records` takes a record set; these are for tools and tests.
`encode_message` and `decode_message` are the typed pair that the engine uses. The way from a declaration to running
code is `messages` -> `schema` -> `layout` -> `compiler`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.compiler import decode_message, encode_message
from kwire.protocol.registry import decode, encode

if TYPE_CHECKING:
    from kwire.protocol.records import read_records

__all__ = ["decode", "decode_message", "encode", "encode_message", "read_records"]


if not TYPE_CHECKING:  # a type checker would take every misspelt name for an attribute

    def __getattr__(name: str) -> object:
        """`read_records` brings numpy and the codecs; programs that handle messages only do not wait for them."""
        if name == "read_records":
            from kwire.protocol.records import read_records

            return read_records
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
