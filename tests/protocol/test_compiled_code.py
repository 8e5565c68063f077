"""The compiled functions agree with the construct layouts on any message, and fail with an error that says where."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from construct import ConstructError
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import ProtocolError, UnsupportedVersionError
from kwire.protocol import decode_message, encode_message
from kwire.protocol.compiler import decode_prefix, decoder_source, encoder_source
from kwire.protocol.layout import layout_of
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.plain import from_plain
from kwire.protocol.primitives import MAX_TAGGED_FIELDS, Blob, Construct, Fields, FormatField, Maybe, Sequence, Text
from kwire.protocol.registry import message_classes

if TYPE_CHECKING:
    from kwire.protocol.schema import Message

INTEGERS = {"b": 8, "h": 16, "l": 32, "q": 64}
EVERY_VERSION = [(name, version) for name, cls in sorted(message_classes().items()) for version in cls.versions]
EXAMPLES = max(10, settings.default.max_examples // 10) if settings.default else 10  # there are many messages
ALPHABET = "a\0éß日😀"  # one to four bytes in UTF-8; all of Unicode takes hypothesis a second to tabulate
LONG_TEXTS = ["x" * 126, "x" * 127, "é" * 64, "x" * 20000]  # around the end of one-byte varints, and into three


@cache
def values(wire: Construct) -> st.SearchStrategy[object]:
    """Values that a type can carry, as plain Python."""
    match wire:
        case FormatField():
            return numbers(wire.fmtstr[1:])
        case Text() | Blob() | Sequence():
            return behind_length(wire)
        case Maybe():
            return st.none() | structures(wire.inner)
        case Fields():
            return structures(wire)
        case _:
            return st.uuids()


def behind_length(wire: Text | Blob | Sequence) -> st.SearchStrategy[object]:
    """Values with a length, some too long for a varint of one byte."""
    found: st.SearchStrategy[object]
    if isinstance(wire, Text):
        found = st.text(ALPHABET, max_size=5) | st.sampled_from(LONG_TEXTS)
    elif isinstance(wire, Blob):
        found = st.binary(max_size=5) | st.sampled_from([b"b" * 127, b"b" * 300])
    else:
        items = values(wire.element)
        found = st.lists(items, max_size=2)
        if isinstance(wire.element, FormatField):
            found |= items.map(lambda item: [item] * 130)
    return st.none() | found if wire.length.nullable else found


def numbers(fmt: str) -> st.SearchStrategy[object]:
    if fmt == "?":
        return st.booleans()
    if fmt == "H":
        return st.integers(0, 2**16 - 1)
    bits = INTEGERS[fmt]
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@cache
def structures(layout: Fields) -> st.SearchStrategy[object]:
    members = [*layout.plain, *(layout.tagged or {}).values()]
    required = {member.name: values(member.type) for member in members}
    if layout.tagged is None:
        return st.fixed_dictionaries(required)
    tags = st.sets(st.integers(50, 2**31 - 1), min_size=1, max_size=2)
    unknown = tags.flatmap(lambda numbers: st.tuples(*(st.tuples(st.just(n), st.binary(max_size=3)) for n in numbers)))
    entries = unknown.map(lambda pairs: [{"tag": tag, "data": data} for tag, data in sorted(pairs)])
    return st.fixed_dictionaries(required, optional={"_unknown_tagged_fields": entries})


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "version"), EVERY_VERSION)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_compiled_and_construct_agree_both_ways(name: str, version: int, data: st.DataObject) -> None:
    cls = message_classes()[name]
    layout = layout_of(cls, version)
    fields = data.draw(structures(layout))
    assert isinstance(fields, dict)

    message = from_plain(cls, fields)
    encoded = encode_message(message, version)
    assert encoded == layout.build(fields)

    decoded = decode_message(cls, version, encoded)
    assert decoded == message
    assert decoded.to_dict() == layout.parse(encoded) == fields


def test_any_buffer_can_be_decoded() -> None:
    data = encode_message(HeartbeatRequest(group_id="g", member_id="m"), 4)
    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(data))):
        assert decode_message(HeartbeatRequest, 4, buffer) == HeartbeatRequest(group_id="g", member_id="m")


def test_records_are_slices_of_the_input_and_nothing_else_is() -> None:
    partition = PartitionData(records=b"records", aborted_transactions=[AbortedTransaction(producer_id=1)])
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    data = bytearray(encode_message(response, 12))
    decoded = decode_message(FetchResponse, 12, data)
    assert decoded == response

    at = data.index(b"records")
    data[at : at + 7] = b"RECORDS"
    records = decoded.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.readonly
    assert bytes(records) == b"RECORDS"
    assert decoded.responses[0].topic == "t"


def test_defaults_are_not_shared_between_decoded_messages() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData()])])
    first, second = (decode_message(FetchResponse, 12, encode_message(response, 12)) for _ in range(2))
    first.responses[0].partitions[0].diverging_epoch.epoch = 7
    first.node_endpoints.append(None)  # type: ignore[arg-type]  # any change will do
    assert second == response


# --- refusals when decoding -----------------------------------------------------------------------------------


def test_an_error_names_message_version_field_and_byte() -> None:
    data = encode_message(HeartbeatRequest(group_id="group", member_id="member"), 3)
    with pytest.raises(ProtocolError) as caught:
        decode_message(HeartbeatRequest, 3, data[:-4])
    assert (
        str(caught.value) == "cannot decode HeartbeatRequest v3: member_id at byte 13: a length of 6 with 4 bytes left"
    )


def test_of_numbers_read_together_the_one_that_is_cut_is_named() -> None:
    data = struct.pack(">ih", 1, 2)
    with pytest.raises(ProtocolError, match="HeartbeatResponse v1: error_code at byte 4: the data ends after 5 bytes"):
        decode_message(HeartbeatResponse, 1, data[:5])


def test_nested_fields_are_named_with_their_path() -> None:
    partition = MetadataResponsePartition(replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
    data = encode_message(MetadataResponse(topics=[MetadataResponseTopic(partitions=[partition])]), 12)
    with pytest.raises(
        ProtocolError, match=r"topics\.partitions\.isr_nodes at byte \d+: a length of 3 with 6 bytes left"
    ):
        decode_message(MetadataResponse, 12, data[:-14])


def test_trailing_bytes_are_an_error_for_a_message_and_fine_for_a_prefix() -> None:
    data = encode_message(HeartbeatResponse(), 1) + b"xx"
    with pytest.raises(ProtocolError, match="cannot decode HeartbeatResponse v1: 2 bytes left over at byte 6"):
        decode_message(HeartbeatResponse, 1, data)
    assert decode_prefix(HeartbeatResponse, 1, data) == (HeartbeatResponse(), 6)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, b"\x7f\xff\xff\xff"),  # an array of two billion
        (0, b"\xff\xff\xff\xff"),  # a null array where there must be one
        (0, b"\x80\x00\x00\x00"),
        (1, b"\xff\xff\xff\xfe"),  # a length of -2
        (9, b"\xff\xff\xff\xff\x0f"),  # a compact array of four billion
        (9, b"\xff\xff\xff\xff\xff\x0f"),  # a varint of six bytes
    ],
)
def test_hostile_counts_are_refused_before_anything_is_reserved(version: int, data: bytes) -> None:
    with pytest.raises(ProtocolError, match=f"cannot decode MetadataRequest v{version}: topics at byte"):
        decode_message(MetadataRequest, version, data + bytes(10))


def test_a_count_is_checked_against_the_smallest_possible_elements() -> None:
    claimed = 1000
    data = struct.pack(">hi", 0, claimed) + bytes(6 * claimed - 1)  # an ApiVersion takes six bytes
    with pytest.raises(ProtocolError, match="api_keys at byte 6: a length of 1000 with 5999 bytes left"):
        decode_message(ApiVersionsResponse, 0, data)
    assert len(decode_message(ApiVersionsResponse, 0, data + b"\0").api_keys) == claimed


def test_text_that_is_not_utf8_is_refused() -> None:
    data = encode_message(FindCoordinatorRequest(key="abc"), 0).replace(b"abc", b"a\xffc")
    with pytest.raises(ProtocolError, match=r"FindCoordinatorRequest v0: key at byte 2: .*utf-8"):
        decode_message(FindCoordinatorRequest, 0, data)


def test_a_compact_string_keeps_to_kafkas_limit() -> None:
    data = encode_message(FindCoordinatorRequest(key="x" * 0x7FFF), 3)
    assert decode_message(FindCoordinatorRequest, 3, data).key == "x" * 0x7FFF
    longer = b"\x81\x80\x02" + b"x" * 0x8000 + b"\0\0"
    with pytest.raises(ProtocolError, match="key at byte 3: a length of 32768"):
        decode_message(FindCoordinatorRequest, 3, longer)


def test_a_presence_byte_is_minus_one_or_one() -> None:
    data = encode_message(ConsumerGroupHeartbeatResponse(), 0)
    at = len(data) - 2
    assert data[at] == 0xFF
    with pytest.raises(ProtocolError, match=r"assignment at byte .*: a presence byte of 2"):
        decode_message(ConsumerGroupHeartbeatResponse, 0, data[:at] + b"\x02" + data[at + 1 :])


def test_tags_must_ascend() -> None:
    body = encode_message(HeartbeatResponse(), 4)[:-1]
    for tags in (b"\x02\x07\x00\x07\x00", b"\x02\x07\x00\x06\x00"):
        with pytest.raises(ProtocolError, match=r"tagged fields at byte .*: tag \d after tag 7"):
            decode_message(HeartbeatResponse, 4, body + tags)
        with pytest.raises(ConstructError):
            layout_of(HeartbeatResponse, 4).parse(body + tags)


def test_a_known_tagged_field_must_fill_its_size() -> None:
    body = encode_message(FetchRequest(), 12)[:-1]
    tagged = b"\x01\x00\x04\x02x\x00\x00"  # tag 0, four bytes: cluster_id "x", which takes two
    with pytest.raises(ProtocolError, match=r"tagged fields at byte .*: tag 0 ends at .* instead of"):
        decode_message(FetchRequest, 12, body + tagged)
    with pytest.raises(ConstructError):
        layout_of(FetchRequest, 12).parse(body + tagged)


def test_an_unknown_tag_cannot_reach_beyond_the_data() -> None:
    body = encode_message(HeartbeatResponse(), 4)[:-1]
    with pytest.raises(ProtocolError, match=r"tagged fields at byte .*: a length of 100 with 1 bytes left"):
        decode_message(HeartbeatResponse, 4, body + b"\x01\x07\x64\x00")


@pytest.mark.parametrize("cls", [HeartbeatResponse, ApiVersionsResponse], ids=["no known tags", "known tags"])
def test_many_unknown_tags_take_linear_time_and_survive(cls: type[Message]) -> None:
    count = MAX_TAGGED_FIELDS
    unknown = tuple((tag, b"") for tag in range(100, 100 + count))
    data = encode_message(cls(_unknown_tagged_fields=unknown), 4)
    assert decode_message(cls, 4, data)._unknown_tagged_fields == unknown


# --- refusals when encoding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "version", "problem"),
    [
        (HeartbeatRequest(generation_id=2**31), 0, "generation_id must be an int32, not 2147483648"),
        (HeartbeatRequest(generation_id=1.0), 0, "generation_id must be an int32, not 1.0"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=None), 4, "group_id must be a str of valid Unicode, not None"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=b"g"), 0, "group_id must be a str of valid Unicode, not b'g'"),  # type: ignore[arg-type]
        (HeartbeatRequest(member_id="\ud800"), 0, r"member_id must be a str of valid Unicode, not '\ud800'"),
        (HeartbeatRequest(member_id="x" * 0x8000), 0, "member_id must be no longer than 32767, not 32768"),
        (HeartbeatRequest(member_id="x" * 0x8000), 4, "member_id must be no longer than 32767, not 32768"),
        (MetadataRequest(topics=None), 0, "topics must be a list, not None"),
        (MetadataRequest(allow_auto_topic_creation="no"), 4, "allow_auto_topic_creation must be a bool, not 'no'"),  # type: ignore[arg-type]
        (MetadataRequest(allow_auto_topic_creation=[]), 4, "allow_auto_topic_creation must be a bool, not []"),  # type: ignore[arg-type]
        (FetchRequest(isolation_level=200), 4, "isolation_level must be an int8, not 200"),
        (FetchRequest(topics="abc"), 12, "topics must be a list, not 'abc'"),  # type: ignore[arg-type]
        (FetchRequest(topics=[{}]), 12, "topics.topic belongs to a structure, which {} is not"),  # type: ignore[list-item]
        (FetchRequest(topics=[FetchTopic(topic_id="id")]), 13, "topics.topic_id must be a UUID, not 'id'"),  # type: ignore[arg-type]
        (
            FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(fetch_offset=2**63)])]),
            12,
            "topics.partitions.fetch_offset must be an int64, not 9223372036854775808",
        ),
        (FetchRequest(cluster_id=5), 12, "cluster_id must be a str of valid Unicode, not 5"),  # type: ignore[arg-type]
        (SaslAuthenticateRequest(auth_bytes="x"), 0, "auth_bytes must be bytes, not 'x'"),  # type: ignore[arg-type]
        (
            FetchRequest(replica_state=ReplicaState(replica_id="x")),  # type: ignore[arg-type]
            15,
            "replica_state.replica_id must be an int32, not 'x'",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(request_: Message, version: int, problem: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        encode_message(request_, version)
    assert str(caught.value) == f"cannot encode {type(request_).__name__} v{version}: {problem}"


def test_an_array_of_numbers_names_its_field() -> None:
    partition = MetadataResponsePartition(replica_nodes=[1, 2**40])
    response = MetadataResponse(topics=[MetadataResponseTopic(partitions=[partition])])
    with pytest.raises(ProtocolError, match=r"replica_nodes must be a list in which each is an int32, not \[1, "):
        encode_message(response, 12)


def test_tuples_bytearrays_and_memoryviews_are_as_good_as_lists_and_bytes() -> None:
    plain = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])])
    other = FetchRequest(topics=(FetchTopic(topic="t", partitions=(FetchPartition(),)),))  # type: ignore[arg-type]
    assert encode_message(other, 12) == encode_message(plain, 12)
    expected = encode_message(SaslAuthenticateRequest(auth_bytes=b"abc"), 2)
    for data in (bytearray(b"abc"), memoryview(b"abc")):
        assert encode_message(SaslAuthenticateRequest(auth_bytes=data), 2) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "version", "field"),
    [
        (HeartbeatRequest(group_instance_id="i"), 2, "group_instance_id"),
        (FindCoordinatorRequest(key="g"), 4, "key"),
        (FindCoordinatorRequest(coordinator_keys=["g"]), 3, "coordinator_keys"),
        (OffsetFetchRequest(topics=None), 8, "topics"),
        (MetadataRequest(allow_auto_topic_creation=False), 3, "allow_auto_topic_creation"),
        (FetchRequest(replica_state=ReplicaState(replica_id=1)), 14, "replica_state"),
        (HeartbeatRequest(_unknown_tagged_fields=((9, b""),)), 3, "tagged fields"),
        (
            FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(last_fetched_epoch=3)])]),
            11,
            "topics.partitions.last_fetched_epoch",
        ),
    ],
)
def test_a_value_for_a_field_that_the_version_lacks_is_refused(request_: Message, version: int, field: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"v{version}: this version has no {field}, but it was given"):
        encode_message(request_, version)


def test_ignorable_fields_are_dropped_where_the_version_lacks_them() -> None:
    partition = ListOffsetsPartition(partition_index=1, current_leader_epoch=5, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[partition])], timeout_ms=5)
    partition_back = decode_message(ListOffsetsRequest, 2, encode_message(request, 2)).topics[0].partitions[0]
    assert partition_back == ListOffsetsPartition(partition_index=1, timestamp=-1)
    assert encode_message(ApiVersionsRequest(client_software_name="kwire"), 0) == b""


def test_tagged_fields_come_in_ascending_order_whatever_was_unknown() -> None:
    request = FetchRequest(replica_state=ReplicaState(replica_id=1), _unknown_tagged_fields=((0, b"\x02c"), (9, b"x")))
    with pytest.raises(ProtocolError, match=r"the tags \[0, 0, 1\] are not unique|tagged fields must be"):
        encode_message(FetchRequest(cluster_id="c", _unknown_tagged_fields=((0, b""), (1, b""))), 15)
    decoded = decode_message(FetchRequest, 15, encode_message(request, 15))
    assert (decoded.cluster_id, decoded.replica_state.replica_id) == ("c", 1)
    assert decoded._unknown_tagged_fields == ((9, b"x"),)


def test_a_tagged_field_at_its_default_is_not_written() -> None:
    plain = encode_message(FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])]), 12)
    tagged = PartitionData(diverging_epoch=EpochEndOffset(epoch=1))
    assert len(encode_message(FetchResponse(responses=[FetchableTopicResponse(partitions=[tagged])]), 12)) > len(plain)
    assert plain.endswith(bytes(3))


@pytest.mark.parametrize("version", [-1, 5])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    problem = f"HeartbeatRequest has versions 0 to 4 here, not {version}"
    with pytest.raises(UnsupportedVersionError, match=problem):
        encode_message(HeartbeatRequest(), version)
    with pytest.raises(UnsupportedVersionError, match=problem):
        decode_message(HeartbeatRequest, version, b"")


# --- the code itself ------------------------------------------------------------------------------------------


def test_the_code_is_straight_line_and_reads_neighbours_at_once() -> None:
    text = decoder_source(MetadataResponse, 12).text
    assert ".leader_id, o" in text  # one assignment from one unpack
    assert text.count("def ") == 1
    assert "pack_llllbll" in encoder_source(FetchRequest, 12).text


def test_uuids_are_read_as_uuids() -> None:
    topic_id = UUID("12345678-1234-5678-1234-567812345678")
    data = encode_message(FetchRequest(topics=[FetchTopic(topic_id=topic_id)]), 13)
    assert topic_id.bytes in data
    assert decode_message(FetchRequest, 13, data).topics[0].topic_id == topic_id
