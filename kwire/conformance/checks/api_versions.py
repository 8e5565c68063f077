"""ApiVersions: the broker's offer is the same in every version, and clients of future versions are answered
(KIP-511)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok, the
from kwire.conformance.registry import check
from kwire.protocol.compiler import decode_message, decode_prefix, encode_message
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.framing import LENGTH_BYTES
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.headers import RequestHeader, ResponseHeader
from kwire.protocol.registry import BrokerVersions

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker

SOFTWARE = ApiVersionsRequest(client_software_name="kwire-conformance", client_software_version="1.0")
FROM_THE_FUTURE = 0x7FFF


@check(ApiVersionsRequest)
def lists_apis_with_sound_ranges(broker: JudgedBroker, version: int) -> None:
    answer = broker.ask(SOFTWARE, version)
    expect_ok(answer.error_code, "ApiVersions")
    twice = [key for key, count in Counter(api.api_key for api in answer.api_keys).items() if count > 1]
    expect(not twice, f"the API keys {twice} are listed more than once")
    unsound = [api for api in answer.api_keys if not 0 <= api.min_version <= api.max_version]
    expect(not unsound, f"these ranges are none: {unsound}")
    own = the(answer.api_keys, lambda api: api.api_key == ApiVersionsRequest.api_key, "entry for ApiVersions itself")
    expect(own.min_version <= version <= own.max_version, f"v{version} was answered, but is not in {own}")


@check(ApiVersionsRequest)
def offers_the_same_in_every_version(broker: JudgedBroker, version: int) -> None:
    found = BrokerVersions.from_response(broker.ask(SOFTWARE, version)).offered
    expect_equal(found, broker.versions.offered, f"what is offered in v{version}, against v0,")


@check(ApiVersionsRequest, versions="3+")
def tells_sound_features(broker: JudgedBroker, version: int) -> None:
    """KIP-584: every finalized feature is supported. Version 3 cannot show features that start at 0, and leaves them
    out."""
    answer = broker.ask(SOFTWARE, version)
    supported = {feature.name: feature for feature in answer.supported_features}
    for feature in answer.finalized_features:
        known = supported.get(feature.name)
        if known is None:
            expect(version == 3, f"the feature {feature.name!r} is finalized, but not among the supported ones")
        else:
            sound = known.min_version <= feature.max_version_level <= known.max_version
            expect(sound, f"{feature} is finalized outside of what is supported: {known}")


@check(ApiVersionsRequest, versions="3+")
def refuses_a_malformed_software_name(broker: JudgedBroker, version: int) -> None:
    """KIP-511: names are letters, digits, dots and hyphens, so that they can become names of metrics."""
    bad = ApiVersionsRequest(client_software_name=" no such name ", client_software_version="1.0")
    expect_error(broker.ask(bad, version).error_code, ErrorCode.INVALID_REQUEST, what="a malformed software name")


@check(ApiVersionsRequest, versions="5+")
def tells_who_means_another_broker(broker: JudgedBroker, version: int) -> None:
    """KIP-1242: a request names both cluster and broker or neither, and both have to be right."""
    cluster_id = broker.metadata().cluster_id
    another = broker.node_id + 1
    for cluster, node_id, code in (
        (None, -1, ErrorCode.NONE),
        (None, another, ErrorCode.INVALID_REQUEST),
        (cluster_id, broker.node_id, ErrorCode.NONE),
        (cluster_id, another, ErrorCode.REBOOTSTRAP_REQUIRED),
        (cluster_id, -1, ErrorCode.INVALID_REQUEST),
        ("another cluster", broker.node_id, ErrorCode.REBOOTSTRAP_REQUIRED),
    ):
        request = ApiVersionsRequest(
            client_software_name="kwire-conformance", client_software_version="1.0", cluster_id=cluster, node_id=node_id
        )
        answer = broker.ask(request, version)
        expect_error(answer.error_code, code, what=f"cluster {cluster!r}, node {node_id}")


@check(ApiVersionsRequest, once=True)
def answers_a_version_from_the_future_in_version_0(broker: JudgedBroker, version: int) -> None:
    """KIP-511: error 35 in version 0, with the range of ApiVersions, and the connection stays open."""
    header = RequestHeader(
        request_api_key=ApiVersionsRequest.api_key,
        request_api_version=FROM_THE_FUTURE,
        correlation_id=77,
        client_id="k",
    )
    message = encode_message(header, 2) + encode_message(SOFTWARE, version)
    with broker.connect() as connection:
        connection.send_bytes(len(message).to_bytes(LENGTH_BYTES, "big") + message)
        frame = connection.read_frame()
        answered, length = decode_prefix(ResponseHeader, 0, frame)
        expect_equal(answered.correlation_id, 77, "the correlation id")
        answer = decode_message(ApiVersionsResponse, 0, frame[length:])
        expect_error(answer.error_code, ErrorCode.UNSUPPORTED_VERSION, what="an unknown version")
        own = the(
            answer.api_keys, lambda api: api.api_key == ApiVersionsRequest.api_key, "entry for ApiVersions itself"
        )
        expect(version <= own.max_version, f"v{version} is spoken, but {own} leaves it out")
        expect_ok(connection.ask(SOFTWARE, version).error_code, "the retry on the same connection")
