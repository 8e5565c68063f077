"""Messages by name and key, and the versions that a broker and kwire share."""

from __future__ import annotations

import pytest

import kwire.protocol
from kwire.errors import InvalidArgumentError, UnsupportedVersionError
from kwire.protocol import decode, encode
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.records import read_records
from kwire.protocol.registry import BrokerVersions, message_class, request_class, request_classes


def offering(**versions: tuple[int, int, int]) -> BrokerVersions:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in versions.values()]
    return BrokerVersions.from_response(ApiVersionsResponse(api_keys=keys))


def test_messages_are_found_by_name_and_requests_by_key() -> None:
    assert message_class("FetchRequest") is FetchRequest
    assert request_class(1) is FetchRequest
    assert all(cls.api_key == key and cls.response_type.api_key == key for key, cls in request_classes().items())


def test_a_wrong_name_or_key_gets_a_helpful_error() -> None:
    with pytest.raises(InvalidArgumentError, match="no message is called 'FetchReqest'; did you mean FetchRequest"):
        decode("FetchReqest", 4, b"")
    with pytest.raises(InvalidArgumentError, match=r"no message is called '!'$"):
        message_class("!")
    with pytest.raises(UnsupportedVersionError, match="kwire has no API with key 9999"):
        request_class(9999)


def test_encode_takes_fields_or_the_message_itself() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=3)
    data = encode("HeartbeatRequest", 4, {"group_id": "g", "generation_id": 3})
    assert data == encode("HeartbeatRequest", 4, message)
    assert decode("HeartbeatRequest", 4, data) == message
    with pytest.raises(InvalidArgumentError, match="HeartbeatRequest was asked for, but a HeartbeatResponse was given"):
        encode("HeartbeatRequest", 4, HeartbeatResponse())


@pytest.mark.parametrize(
    ("offered", "min_version", "max_version", "expected"),
    [
        ((4, 18), None, None, 18),
        ((0, 10), None, None, 10),
        ((0, 99), None, None, 18),
        ((0, 99), None, 12, 12),
        ((7, 11), 11, 12, 11),
        ((4, 4), None, None, 4),
        ((0, 18), 2, 99, 18),
    ],
)
def test_the_highest_common_version_is_picked(
    offered: tuple[int, int], min_version: int | None, max_version: int | None, expected: int
) -> None:
    versions = offering(fetch=(1, *offered))
    assert versions.pick(FetchRequest, min_version=min_version, max_version=max_version) == expected
    assert versions.supports(FetchRequest, expected)


@pytest.mark.parametrize(
    ("offered", "min_version", "max_version", "problem"),
    [
        ((0, 3), None, None, r"the broker offers Fetch \(API key 1\) in versions 0 to 3, but kwire wants 4 to 18"),
        ((19, 20), None, None, "in versions 19 to 20, but kwire wants 4 to 18"),
        ((0, 12), 13, None, "in versions 0 to 12, but kwire wants 13 to 18"),
        ((13, 18), None, 12, "in versions 13 to 18, but kwire wants 4 to 12"),
    ],
)
def test_without_a_common_version_the_error_names_both_ranges(
    offered: tuple[int, int], min_version: int | None, max_version: int | None, problem: str
) -> None:
    with pytest.raises(UnsupportedVersionError, match=problem):
        offering(fetch=(1, *offered)).pick(FetchRequest, min_version=min_version, max_version=max_version)


def test_an_api_that_the_broker_lacks_is_named() -> None:
    versions = offering(fetch=(1, 0, 12))
    problem = r"does not offer ConsumerGroupHeartbeat \(API key 68\); kwire wants versions 0 to 1"
    with pytest.raises(UnsupportedVersionError, match=problem):
        versions.pick(ConsumerGroupHeartbeatRequest)
    assert not versions.supports(ConsumerGroupHeartbeatRequest, 0)
    assert not versions.supports(FetchRequest, 13)


def test_people_who_name_an_api_are_told_its_messages() -> None:
    for name in ("Fetch", "fetch", "FETCH"):
        with pytest.raises(InvalidArgumentError, match=r"did you mean FetchRequest or FetchResponse\?"):
            message_class(name)
    with pytest.raises(InvalidArgumentError, match=r"did you mean FetchRequest\?"):
        message_class("fetchrequest")


def test_the_entry_points_are_there_and_record_sets_cost_nothing_until_read() -> None:
    assert kwire.protocol.read_records is read_records
    assert kwire.protocol.read_records(b"", check_crcs=True) == []
    with pytest.raises(AttributeError, match="has no attribute 'read_record'"):
        _ = kwire.protocol.read_record  # type: ignore[attr-defined]  # that is the point


def test_base64_and_uuids_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"SyncGroupResponse.assignment: 'a' is not base64"):
        encode("SyncGroupResponse", 4, {"assignment": {"$b64": "a"}})
    with pytest.raises(InvalidArgumentError, match=r"_unknown_tagged_fields: '\?' is not base64"):
        encode("SyncGroupResponse", 4, {"_unknown_tagged_fields": [{"tag": 9, "data": {"$b64": "?"}}]})
    with pytest.raises(InvalidArgumentError, match=r"client_instance_id: 'x' is not a uuid"):
        encode("PushTelemetryRequest", 0, {"client_instance_id": {"$uuid": "x"}})
