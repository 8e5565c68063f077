"""Bytes to values and back: Kafka's wire protocol. No clock, no I/O, no policy.

`encode` and `decode` take messages by name; `encode_message` and `decode_message` are the typed pair that the engine
uses. The way from a declaration to running code is `messages` -> `schema` -> `layout` -> `compiler`.
"""

from __future__ import annotations

from kwire.protocol.compiler import decode_message, encode_message
from kwire.protocol.registry import decode, encode

__all__ = ["decode", "decode_message", "encode", "encode_message"]
