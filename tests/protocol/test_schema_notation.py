"""Declarations: what the notation makes of a class body, and what its instances can do."""

from __future__ import annotations

import pickle
from copy import deepcopy
from inspect import Parameter, signature

import pytest

from kwire.errors import InternalError, InvalidArgumentError
from kwire.protocol import decode_message, encode_message
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kwire.protocol.plain import from_plain, to_json
from kwire.protocol.registry import message_classes
from kwire.protocol.schema import Float64, Message, Response, String, Structure, UInt16, Versions, field, fields_of


class Numbers(Message, versions="0-1", flexible="1+"):
    """Types that no declared message has yet."""

    port: UInt16 = 0
    ratio: Float64 = 0.5


def test_every_message_can_be_made_without_arguments_and_by_keyword_only() -> None:
    for cls in message_classes().values():
        assert cls() == cls()
        kinds = {parameter.kind for name, parameter in signature(cls.__init__).parameters.items() if name != "self"}
        assert kinds == {Parameter.KEYWORD_ONLY}


def test_a_constructor_is_written_when_it_is_first_called() -> None:
    """Whatever comes of that call: the next ones find it written."""

    class Fresh(Structure):
        name: String = "default"

    placeholder = Fresh.__init__
    with pytest.raises(TypeError, match="unexpected keyword argument 'nam'"):
        Fresh(nam="typo")  # type: ignore[call-arg]  # the point of the test
    written = Fresh.__init__
    assert written is not placeholder
    assert (Fresh().name, Fresh(name="given").name) == ("default", "given")
    assert Fresh.__init__ is written


def test_mutable_defaults_are_made_anew() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic())
    first.replica_state.replica_id = 5
    assert second == FetchRequest()
    assert second.topics == []


def test_instances_have_slots_and_no_hash() -> None:
    request = HeartbeatRequest()
    with pytest.raises(AttributeError):
        request.grup_id = "typo"  # type: ignore[attr-defined]  # the point of the test
    with pytest.raises(TypeError):
        hash(request)


def test_equality_is_by_class_and_value() -> None:
    assert HeartbeatRequest(group_id="a") != HeartbeatRequest(group_id="b")
    assert HeartbeatRequest(_unknown_tagged_fields=((1, b""),)) != HeartbeatRequest()
    assert HeartbeatRequest() != MetadataRequest()
    decoded = decode_message(HeartbeatRequest, 0, encode_message(HeartbeatRequest(), 0))
    assert decoded == HeartbeatRequest()  # the version it came in is no part of its value


def test_repr_shows_what_differs_from_the_defaults() -> None:
    assert repr(HeartbeatRequest()) == "HeartbeatRequest()"
    request = FetchRequest(session_id=3, topics=[FetchTopic(topic="t")])
    assert repr(request) == "FetchRequest(session_id=3, topics=[FetchTopic(topic='t')])"


def test_messages_pickle_and_copy() -> None:
    request = FetchRequest(topics=[FetchTopic(topic="t")])
    assert pickle.loads(pickle.dumps(request)) == request
    copy = deepcopy(request)
    copy.topics[0].topic = "u"
    assert request.topics[0].topic == "t"


def test_to_dict_shows_all_fields_or_those_of_a_version() -> None:
    request = HeartbeatRequest(group_id="g")
    every = {"group_id": "g", "generation_id": 0, "member_id": "", "group_instance_id": None}
    assert request.to_dict() == every
    assert "group_instance_id" not in request.to_dict(2)
    assert "group_instance_id" not in decode_message(HeartbeatRequest, 2, encode_message(request, 2)).to_dict()
    nested = MetadataResponse(topics=[MetadataResponseTopic()]).to_dict(9)["topics"]
    assert isinstance(nested, list)
    assert "topic_id" not in nested[0]
    unknown = HeartbeatRequest(_unknown_tagged_fields=((9, b"x"),)).to_dict()
    assert unknown == {**HeartbeatRequest().to_dict(), "_unknown_tagged_fields": [{"tag": 9, "data": b"x"}]}


def test_a_message_survives_the_way_through_json() -> None:
    fields = {
        "topics": [{"topic_id": {"$uuid": "12345678-1234-5678-1234-567812345678"}, "partitions": [{"partition": 1}]}],
        "replica_state": {"replica_id": 1},
        "_unknown_tagged_fields": [{"tag": 77, "data": {"$b64": "AAE="}}],
    }
    request = from_plain(FetchRequest, fields)
    assert request.replica_state == ReplicaState(replica_id=1)
    assert request._unknown_tagged_fields == ((77, b"\0\1"),)
    assert from_plain(FetchRequest, to_json(request)) == from_plain(FetchRequest, request.to_dict()) == request


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"topic": []}, "FetchRequest has no field 'topic'; did you mean topics"),
        ({"zzz": 1}, "FetchRequest has no field 'zzz'; it has replica_id, "),
        ({"topics": [{"partitions": [{"offset": 1}]}]}, "FetchPartition has no field 'offset'"),
        ({"session_id": {"a": 1}}, "FetchRequest.session_id is no structure"),
        ({"session_id": [1]}, "FetchRequest.session_id is no array"),
        ({"_unknown_tagged_fields": 5}, "FetchRequest._unknown_tagged_fields must be a list, not 5"),
        ({"_unknown_tagged_fields": [5]}, "FetchRequest._unknown_tagged_fields holds 5 instead of"),
    ],
)
def test_plain_fields_of_the_wrong_shape_are_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        from_plain(FetchRequest, fields)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3+", [3, 99], [0, 2]), ("0-7", [0, 7], [8]), ("5", [5], [4, 6])],
)
def test_version_marks_are_kafkas(text: str, inside: list[int], outside: list[int]) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_a_declaration_without_a_default_is_refused() -> None:
    with pytest.raises(InternalError, match=r"Bad\.name has no default"):

        class Bad(Structure):
            name: String


def test_a_message_needs_an_upper_version() -> None:
    with pytest.raises(InternalError, match="Endless: a message's versions have an upper end, not '0\\+'"):

        class Endless(Message, versions="0+"):
            pass


def test_the_types_that_no_consumer_message_uses_work_too() -> None:
    for version in Numbers.versions:
        data = encode_message(Numbers(port=65535, ratio=0.25), version)
        assert decode_message(Numbers, version, data) == Numbers(port=65535, ratio=0.25)
    assert [item.type.kind for item in fields_of(Numbers)] == ["uint16", "float64"]


def test_a_response_shares_key_and_versions_with_its_request() -> None:
    assert FetchRequest.response_type is FetchResponse
    assert (FetchResponse.api_key, FetchResponse.versions) == (1, range(4, 19))
    assert issubclass(FetchResponse, Response)
    assert field("1+", default=3) != 3  # a mark for the class body, taken out by the metaclass


def test_structures_that_no_bytes_came_for_are_made_when_asked_for_and_not_shared() -> None:
    data = encode_message(
        FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(), PartitionData()])]), 12
    )
    first, second = decode_message(FetchResponse, 12, data).responses[0].partitions
    assert first.current_leader == LeaderIdAndEpoch()
    assert first.current_leader is first.current_leader
    first.current_leader.leader_id = 7
    assert second.current_leader.leader_id == -1
    assert deepcopy(second) == second == pickle.loads(pickle.dumps(second))
    assert decode_message(FetchResponse, 12, data) == decode_message(FetchResponse, 12, data)
    with pytest.raises(AttributeError, match="PartitionData has no attribute 'current_leeder'"):
        _ = first.current_leeder  # type: ignore[attr-defined]  # that is the point
