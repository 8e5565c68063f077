"""What a hostile answer may become in memory: less than a bound, and never more than the decoder has reckoned with."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, cast

import pytest
from construct import ConstructError

from kwire.errors import ProtocolError
from kwire.protocol import decode_message, encode_message
from kwire.protocol.compiler import decoder_source
from kwire.protocol.decoded_size import decoded_bytes
from kwire.protocol.layout import layout_of
from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kwire.protocol.primitives import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS, VARINT
from kwire.protocol.registry import message_classes
from kwire.protocol.schema import Response
from tools.fuzz.shapes import arrays_of, with_array

if TYPE_CHECKING:
    from kwire.protocol.decoder import Decoder
    from kwire.protocol.schema import Message

RESPONSES = [cls for cls in message_classes().values() if issubclass(cls, Response)]
COUNT = 1_000
SMALL_BOUND_BYTES = 2 * 1024 * 1024


@pytest.mark.parametrize("cls", RESPONSES, ids=lambda cls: cls.__name__)
def test_no_element_takes_more_memory_than_is_reckoned_with(cls: type[Message]) -> None:
    for version in (cls.min_version, cls.max_version):
        layout = layout_of(cls, version)
        for index, array in arrays_of(layout):
            data = with_array(layout, index, COUNT)
            decode_message(cls, version, data)  # compiles it
            tracemalloc.start()
            kept = decode_message(cls, version, data)
            grown_bytes, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            reckoned_bytes = COUNT * decoded_bytes(array.element)
            # A growing list has an eighth more places than it needs; what is not per element is some kilobytes.
            assert grown_bytes <= reckoned_bytes + COUNT + 8_192, f"v{version} {layout.plain[index].name}"
            assert kept is not None


@pytest.fixture
def small_decoder(monkeypatch: pytest.MonkeyPatch) -> Decoder:
    """Decodes Metadata v12 as always, but with a bound that a test reaches in no time."""
    monkeypatch.setattr("kwire.protocol.decoder.MAX_DECODED_BYTES", SMALL_BOUND_BYTES)
    return cast("Decoder", decoder_source(MetadataResponse, 12).function("decode"))


def test_an_answer_that_would_outgrow_the_bound_is_refused_before_it_does(small_decoder: Decoder) -> None:
    topics = [MetadataResponseTopic(partitions=[MetadataResponsePartition()] * 1_000) for _ in range(8)]
    data = encode_message(MetadataResponse(topics=topics), 12)
    tracemalloc.start()
    with pytest.raises(ProtocolError, match=r"MetadataResponse v12: topics.partitions at byte \d+: .* takes more than"):
        small_decoder(data)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < SMALL_BOUND_BYTES + 64 * 1024


def test_one_array_that_would_outgrow_the_bound_takes_no_memory_at_all(small_decoder: Decoder) -> None:
    data = encode_message(MetadataResponse(topics=[MetadataResponseTopic(name="")] * 20_000), 12)
    tracemalloc.start()
    with pytest.raises(ProtocolError, match=r"topics at byte .*: with this array of 20000 elements the message takes"):
        small_decoder(data)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 64 * 1024


def test_an_array_has_a_million_elements_at_most() -> None:
    data = encode_message(FetchResponse(), 4)[:-4]
    too_many = (MAX_ARRAY_ELEMENTS + 1).to_bytes(4, "big") + bytes(6 * MAX_ARRAY_ELEMENTS + 6)
    with pytest.raises(ProtocolError, match=r"responses at byte .*: an array of 1000001 elements, of which 1000000"):
        decode_message(FetchResponse, 4, data + too_many)
    with pytest.raises(ConstructError):
        layout_of(FetchResponse, 4).parse(data + too_many)


def test_tagged_fields_are_ten_thousand_at_most() -> None:
    body = encode_message(MetadataResponse(), 12)[:-1]
    with pytest.raises(ProtocolError, match=r"10001 tagged fields, of which 10000 are allowed"):
        decode_message(MetadataResponse, 12, body + VARINT.build(MAX_TAGGED_FIELDS + 1) + bytes(30_000))
    with pytest.raises(ConstructError):
        layout_of(MetadataResponse, 12).parse(body + VARINT.build(MAX_TAGGED_FIELDS + 1) + bytes(30_000))


def test_tagged_fields_count_as_memory(small_decoder: Decoder) -> None:
    tags = tuple((tag, b"") for tag in range(500))
    data = encode_message(MetadataResponse(topics=[MetadataResponseTopic(_unknown_tagged_fields=tags)] * 40), 12)
    with pytest.raises(ProtocolError, match="with these 500 tagged fields the message takes more than"):
        small_decoder(data)
