"""What the proofs judge with: the ledger, and the proxy's eye for heartbeats."""

from __future__ import annotations

import pytest

from kwire import ConsumerConfig, TopicPartition
from kwire.protocol.compiler import encode_message
from kwire.protocol.messages.headers import RequestHeader
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.metadata import MetadataRequest
from proofs.group import Group, Ledger
from proofs.handlers import Timers
from proofs.proxy import HeartbeatProxy

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)


@pytest.fixture
def ledger() -> Ledger:
    """Three records in A and one in B, all acknowledged; A's were seen at 10, 11 and 14 s."""
    ledger = Ledger()
    for tp, offset in ((A, 0), (A, 1), (A, 2), (B, 0)):
        ledger.acknowledged(tp, offset)
    for offset, at_s in enumerate((10.0, 11.0, 14.0)):
        ledger.saw([(A, offset)], at_s)
    return ledger


def test_what_was_acknowledged_and_not_seen_is_missing(ledger: Ledger) -> None:
    assert ledger.produced == 4
    assert ledger.missing() == [(B, 0)]
    ledger.saw([(B, 0)], 15.0)
    assert ledger.missing() == []


def test_what_was_seen_again_is_a_duplicate(ledger: Ledger) -> None:
    assert ledger.duplicates() == []
    ledger.saw([(A, 1)], 15.0)
    assert ledger.duplicates() == [(A, 1)]


@pytest.mark.parametrize(
    ("since_s", "until_s", "silence_s"),
    [
        (10.0, 14.5, 3.0),
        (12.0, 14.5, 3.0),  # it began before
        (12.0, 20.0, 6.0),  # it has not ended
        (10.5, 11.0, 1.0),
        (5.0, 11.0, 5.0),  # nothing was read before
        (30.0, 31.0, 17.0),
    ],
)
def test_the_longest_silence_is_between_two_records_or_up_to_now(
    ledger: Ledger, since_s: float, until_s: float, silence_s: float
) -> None:
    assert ledger.silence_s(A, since_s, until_s) == silence_s


def test_a_partition_that_nobody_wanted_before_is_silent_from_then_on(ledger: Ledger) -> None:
    assert ledger.silence_s(A, 12.0, 14.5, was_read=False) == 2.0
    assert ledger.silence_s(B, 12.0, 14.5) == 2.5


@pytest.mark.parametrize("group", Group)
def test_every_kind_of_group_can_be_configured(group: Group) -> None:
    config = ConsumerConfig.of({"bootstrap_servers": "broker:9092", "group_id": "any", **group.settings})
    assert config.group_id == "any"


def test_a_member_may_be_silent_for_the_session_less_one_interval() -> None:
    timers = Timers(6.0, 2.0)
    assert timers.allow(3.9)
    assert not timers.allow(4.0)


def test_the_proxy_notes_heartbeats_however_they_are_cut_and_nothing_else(proxy: HeartbeatProxy) -> None:
    heartbeat = frame(HeartbeatRequest(group_id="group", generation_id=1, member_id="member"), 4)
    data = frame(MetadataRequest(topics=[]), 12) + heartbeat + heartbeat
    rest = proxy.note(data[:20], 1.0)
    rest = proxy.note(rest + data[20:-1], 2.0)
    assert proxy.longest_gap_s("client", 0.0, 10.0) == 8.0
    assert proxy.note(rest + data[-1:], 5.0) == b""
    assert proxy.longest_gap_s("client", 0.0, 10.0) == 5.0
    assert proxy.longest_gap_s("another", 0.0, 10.0) == 10.0


@pytest.fixture
def proxy() -> HeartbeatProxy:
    return HeartbeatProxy(port=0, broker_port=0)


def frame(request: HeartbeatRequest | MetadataRequest, version: int) -> bytes:
    header = RequestHeader(
        request_api_key=request.api_key, request_api_version=version, correlation_id=7, client_id="client"
    )
    data = encode_message(header, type(request).header_version(version)) + encode_message(request, version)
    return len(data).to_bytes(4, "big") + data
