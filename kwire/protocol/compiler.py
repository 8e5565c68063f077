"""Construct layouts become straight-line Python functions; this is what runs.

A function is written and compiled once for each (message class, version), on first use. Interpreting the construct
tree takes ten times as long, on the thread that also has to send heartbeats: a Metadata answer has 10,000 partitions.
`decode_message` and `encode_message` are the typed entry points for the engine; by name, see `registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from kwire.errors import ProtocolError
from kwire.protocol.decoder import reads_view, write_decoder
from kwire.protocol.encoder import write_encoder
from kwire.protocol.layout import layout_of
from kwire.protocol.schema import Message

if TYPE_CHECKING:
    from kwire.protocol.decoder import Decoder
    from kwire.protocol.encoder import Encoder
    from kwire.protocol.source import FunctionBody

M = TypeVar("M", bound=Message)

# Filled by whichever thread comes first; two that come at once do the same work twice, to the same result.
_decoders: dict[tuple[type[Message], int], tuple[Decoder, bool]] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decode_message(message: type[M], version: int, data: bytes | bytearray | memoryview) -> M:
    """Decode all of `data`.

    `records` fields come out as slices of `data`, without a copy; everything else is copied.

    Raises:
        ProtocolError: The bytes do not follow the protocol; says which field at which byte.
        UnsupportedVersionError: The message has no such version.
    """
    found, length = decode_prefix(message, version, data)
    if length != len(data):
        left = len(data) - length
        raise ProtocolError(f"cannot decode {message.__name__} v{version}: {left} bytes left over at byte {length}")
    return found


def decode_prefix(message: type[M], version: int, data: bytes | bytearray | memoryview) -> tuple[M, int]:
    """Decode a message that other bytes may follow; returns it, and how many bytes it took. Errors as above."""
    decode, from_view = _decoders.get((message, version)) or _compile_decoder(message, version)
    buffer = memoryview(data).toreadonly() if from_view else bytes(data)
    found, length = decode(buffer)
    return cast("M", found), length


def encode_message(message: Message, version: int) -> bytes:
    """Encode a message.

    Raises:
        ProtocolError: A value does not fit its field; says which.
        UnsupportedVersionError: The message has no such version, or this version has no field for a value that
            must not be dropped.
    """
    kind = type(message)
    encode = _encoders.get((kind, version)) or _compile_encoder(kind, version)
    return encode(message)


def decoder_source(message: type[Message], version: int) -> FunctionBody:
    """The code that decodes one version of a message, to read or to run."""
    return write_decoder(layout_of(message, version), f"{message.__name__} v{version}", version)


def encoder_source(message: type[Message], version: int) -> FunctionBody:
    """The code that encodes one version of a message, to read or to run."""
    return write_encoder(layout_of(message, version), f"{message.__name__} v{version}")


def _compile_decoder(message: type[Message], version: int) -> tuple[Decoder, bool]:
    source = decoder_source(message, version)
    compiled = cast("Decoder", source.function("decode")), reads_view(layout_of(message, version))
    _decoders[message, version] = compiled
    return compiled


def _compile_encoder(message: type[Message], version: int) -> Encoder:
    encode = cast("Encoder", encoder_source(message, version).function("encode"))
    _encoders[message, version] = encode
    return encode
