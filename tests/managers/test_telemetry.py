"""Telemetry (KIP-714) in virtual time: what is asked and pushed, when, and what each error does."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.errors import DisconnectError, UnsupportedVersionError
from kwire.events import Reply
from kwire.managers.telemetry import TelemetryManager, TelemetrySource
from kwire.managers.telemetry_points import PushedTotals, is_wanted, telemetry_name
from kwire.managers.unsent import AnyUnsentRequest
from kwire.metrics import MetricName
from kwire.protocol.compression import decompress
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.protocol.otlp_metrics import Point, Temporality
from kwire.states.telemetry import TelemetryState

ME = UUID(int=7)
INTERVAL_MS = 10_000
STARTED_MS = 1_700_000_000_000
S = TelemetryState


def metric(name: str, *tags: tuple[str, str]) -> MetricName:
    return MetricName(name=name, group="consumer-fetch-manager-metrics", tags=(("client-id", "me"), *tags))


TOTAL, LAG = metric("records-consumed-total"), metric("records-lag", ("topic", "orders"), ("partition", "0"))
TOTAL_NAME = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"


class Telemetry:
    """The manager, between a consumer that counts and a broker that a test speaks for."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000.0
        self.numbers = {TOTAL: 5.0, LAG: 3.0}
        self.has_brokers = True
        source = TelemetrySource(
            numbers=lambda _: self.numbers,
            labels=lambda: {"group_id": "billing"},
            wall_clock_ms=lambda: STARTED_MS + int(self.now_ms),
            started_ms=STARTED_MS,
        )
        self.manager = TelemetryManager(source, lambda: self.has_brokers, chance=lambda: 0.75)

    @property
    def state(self) -> TelemetryState:
        return self.manager.state

    def sent(self) -> AnyUnsentRequest | None:
        result = self.manager.poll(self.now_ms)
        assert result.requests or result.wake_at_ms > self.now_ms, "the wait rule"
        return result.requests[0] if result.requests else None

    def must_send(self) -> AnyUnsentRequest:
        sent = self.sent()
        assert sent is not None
        return sent

    def sent_after(self, wait_ms: float) -> AnyUnsentRequest:
        """What goes out then, and not a moment before."""
        self.now_ms += wait_ms - 1
        assert self.sent() is None
        self.now_ms += 1
        return self.must_send()

    def answer(self, unsent: AnyUnsentRequest, answer: object) -> None:
        unsent.on_answer(answer, self.now_ms)

    def subscribed(self, **wanted: object) -> AnyUnsentRequest:
        """The first push."""
        self.answer(self.must_send(), subscription(**wanted))
        return self.sent_after(1.25 * INTERVAL_MS)

    def pushed(self, unsent: AnyUnsentRequest, error: ErrorCode = ErrorCode.NONE) -> None:
        self.answer(unsent, PushTelemetryResponse(error_code=error))


def subscription(**wanted: object) -> GetTelemetrySubscriptionsResponse:
    found = GetTelemetrySubscriptionsResponse(
        client_instance_id=ME, subscription_id=3, push_interval_ms=INTERVAL_MS, requested_metrics=["*"]
    )
    for name, value in wanted.items():
        setattr(found, name, value)
    return found


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def push_of(unsent: AnyUnsentRequest) -> PushTelemetryRequest:
    assert isinstance(unsent.request, PushTelemetryRequest)
    return unsent.request


# --- in good times ------------------------------------------------------------------------------------------


def test_nobody_is_asked_before_metadata_names_brokers(telemetry: Telemetry) -> None:
    telemetry.has_brokers = False
    assert telemetry.sent() is None
    telemetry.has_brokers = True
    assert telemetry.must_send().request == GetTelemetrySubscriptionsRequest()
    assert telemetry.sent() is None


def test_the_first_push_is_spread_over_time_and_the_next_ones_keep_the_interval(telemetry: Telemetry) -> None:
    first = telemetry.subscribed()
    assert (push_of(first).client_instance_id, push_of(first).subscription_id) == (ME, 3)
    assert not push_of(first).terminating
    assert b"\x05kwire" in push_of(first).metrics, "the name of the library, behind its length"
    telemetry.pushed(first)
    telemetry.pushed(telemetry.sent_after(INTERVAL_MS))
    telemetry.sent_after(INTERVAL_MS)


def test_who_wants_nothing_is_asked_again_after_the_interval(telemetry: Telemetry) -> None:
    telemetry.answer(telemetry.must_send(), subscription(requested_metrics=[]))
    again = telemetry.sent_after(INTERVAL_MS)
    assert again.request == GetTelemetrySubscriptionsRequest(client_instance_id=ME), "by the id that was given"


def test_an_interval_that_is_none_is_five_minutes(telemetry: Telemetry) -> None:
    telemetry.answer(telemetry.must_send(), subscription(requested_metrics=[], push_interval_ms=0))
    telemetry.sent_after(300_000)


# --- the end ------------------------------------------------------------------------------------------------


def test_the_last_push_says_that_it_is_the_last(telemetry: Telemetry) -> None:
    telemetry.pushed(telemetry.subscribed())
    (last,) = telemetry.manager.close(telemetry.now_ms)
    assert push_of(last).terminating
    assert last.timeout_ms == 1_000
    telemetry.pushed(last)
    assert telemetry.state is S.TERMINATED
    assert telemetry.manager.close(telemetry.now_ms) == []


@pytest.mark.parametrize("error", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.INVALID_REQUEST, None])
def test_what_becomes_of_the_last_push_does_not_matter(telemetry: Telemetry, error: ErrorCode | None) -> None:
    open_push = telemetry.subscribed()
    (last,) = telemetry.manager.close(telemetry.now_ms)
    telemetry.pushed(open_push)
    assert telemetry.state.name == "TERMINATING_PUSH_IN_PROGRESS", "that was the answer to the one before"
    assert telemetry.manager.close(telemetry.now_ms) == []
    if error is None:
        last.on_failure(DisconnectError("gone"), telemetry.now_ms)
    else:
        telemetry.pushed(last, error)
    assert telemetry.state is S.TERMINATED


def test_without_a_subscription_there_is_no_last_push(telemetry: Telemetry) -> None:
    assert Telemetry().manager.close(0.0) == []
    question = telemetry.must_send()
    assert telemetry.manager.close(telemetry.now_ms) == []
    telemetry.answer(question, subscription())
    assert telemetry.state is S.TERMINATED


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_RECORD])
def test_some_errors_end_it(telemetry: Telemetry, code: ErrorCode) -> None:
    telemetry.pushed(telemetry.subscribed(), code)
    assert telemetry.state is S.TERMINATED
    other = Telemetry()
    other.answer(other.must_send(), GetTelemetrySubscriptionsResponse(error_code=code))
    other.now_ms += 1_000_000
    assert other.sent() is None


def test_an_answer_without_an_id_ends_it(telemetry: Telemetry) -> None:
    telemetry.answer(telemetry.must_send(), subscription(client_instance_id=UUID(int=0)))
    assert telemetry.state is S.TERMINATED


def test_a_subscription_that_has_changed_is_asked_for_at_once_but_not_again_and_again(telemetry: Telemetry) -> None:
    telemetry.pushed(telemetry.subscribed(), ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
    question = telemetry.must_send()
    assert isinstance(question.request, GetTelemetrySubscriptionsRequest)
    telemetry.answer(question, GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID))
    telemetry.sent_after(INTERVAL_MS)


@pytest.mark.parametrize("code", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_other_errors_wait_for_the_next_interval(telemetry: Telemetry, code: ErrorCode) -> None:
    telemetry.pushed(telemetry.subscribed(), code)
    assert isinstance(telemetry.sent_after(INTERVAL_MS).request, GetTelemetrySubscriptionsRequest)


def test_a_broker_without_the_api_is_looked_at_again_after_five_minutes(telemetry: Telemetry) -> None:
    telemetry.must_send().on_failure(UnsupportedVersionError("not offered"), telemetry.now_ms)
    telemetry.sent_after(300_000)


def test_a_lost_connection_does_not_end_it(telemetry: Telemetry) -> None:
    telemetry.subscribed().on_failure(DisconnectError("gone"), telemetry.now_ms)
    assert isinstance(telemetry.sent_after(INTERVAL_MS).request, GetTelemetrySubscriptionsRequest)


# --- compression and size -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", range(5))
def test_metrics_are_compressed_as_the_broker_likes_best(telemetry: Telemetry, codec: int) -> None:
    push = push_of(telemetry.subscribed(accepted_compression_types=[77, codec, 1]))
    assert push.compression_type == codec
    assert TOTAL_NAME.encode() in bytes(decompress(codec, bytes(push.metrics)))


def test_a_compression_that_was_refused_is_not_used_again(telemetry: Telemetry) -> None:
    first = telemetry.subscribed(accepted_compression_types=[4, 3])
    telemetry.pushed(first, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    assert push_of(telemetry.subscribed(accepted_compression_types=[4, 3])).compression_type == 3


def test_what_is_too_much_goes_without_single_partitions(telemetry: Telemetry) -> None:
    telemetry.numbers |= {
        metric("records-lag", ("topic", "orders"), ("partition", str(number))): 1.0 for number in range(100)
    }
    push = push_of(telemetry.subscribed(telemetry_max_bytes=500))
    assert TOTAL_NAME.encode() in push.metrics
    assert b"records.lag" not in push.metrics
    assert len(push.metrics) < 500


# --- what is told -------------------------------------------------------------------------------------------


def told(totals: PushedTotals, value: float, at_ms: int, *, as_deltas: bool = True) -> Point:
    (point,) = totals.points({TOTAL: value}, ["*"], at_ms, as_deltas=as_deltas)
    return point


def test_differences_are_to_what_the_broker_has_taken() -> None:
    totals = PushedTotals(started_ms=1)
    first = told(totals, 5.0, 10)
    assert (first.value, first.started_ns, first.temporality) == (5.0, 1_000_000, Temporality.DELTA)
    totals.taken()
    assert told(totals, 7.0, 20)[2:5] == (2.0, 20_000_000, 10_000_000)
    assert told(totals, 9.0, 30)[2:5] == (4.0, 30_000_000, 10_000_000), "the one before was not taken"


def test_totals_are_told_from_the_beginning_unless_differences_are_wanted() -> None:
    totals = PushedTotals(started_ms=1)
    told(totals, 5.0, 10, as_deltas=False)
    totals.taken()
    assert told(totals, 7.0, 20, as_deltas=False)[2:] == (7.0, 20_000_000, 1_000_000, Temporality.CUMULATIVE)


@pytest.mark.parametrize("as_deltas", [True, False])
def test_what_is_no_total_is_told_as_it_stands(as_deltas: bool) -> None:
    totals = PushedTotals(started_ms=1)
    for value in (3.0, 2.0):
        (point,) = totals.points({LAG: value}, ["*"], 10, as_deltas=as_deltas)
        assert (point.value, point.started_ns, point.temporality) == (value, Point("", {}, 0.0, 0).started_ns, None)
        totals.taken()


def test_another_temporality_begins_anew(telemetry: Telemetry) -> None:
    telemetry.pushed(telemetry.subscribed(), ErrorCode.NONE)
    telemetry.pushed(telemetry.sent_after(INTERVAL_MS), ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
    before = telemetry.manager._totals
    telemetry.subscribed(delta_temporality=True)
    assert telemetry.manager._totals is not before


def test_what_is_no_number_is_left_out_and_so_is_a_text() -> None:
    version = MetricName(name="version", group="app-info", tags=(("version", "1.0"),))
    numbers = {LAG: float("nan"), version: 1.0, TOTAL: 1.0}
    assert [each.name for each in PushedTotals(1).points(numbers, ["*"], 2, as_deltas=False)] == [TOTAL_NAME]


def test_tags_become_attributes_without_the_client_that_the_broker_knows() -> None:
    node = MetricName(name="request-rate", group="consumer-node-metrics", tags=(("client-id", "me"), ("node-id", "n")))
    (point,) = PushedTotals(1).points({node: 1.0}, ["*"], 2, as_deltas=False)
    assert (point.name, point.attributes) == ("org.apache.kafka.consumer.node.request.rate", {"node_id": "n"})


@pytest.mark.parametrize(
    ("prefixes", "is_there"),
    [
        (["*"], True),
        (["org.apache.kafka.consumer.fetch."], True),
        (["org.apache.kafka.producer", "org.apache.kafka.consumer"], True),
        (["org.apache.kafka.consumer.coordinator"], False),
        (["*", "org.apache.kafka.producer"], False),
        ([], False),
    ],
)
def test_names_are_chosen_by_how_they_begin(prefixes: list[str], is_there: bool) -> None:
    assert is_wanted(telemetry_name(TOTAL), prefixes) is is_there


# --- by which id brokers know this client -------------------------------------------------------------------


def test_who_asks_for_the_id_gets_it_with_the_first_answer_and_later_at_once(telemetry: Telemetry) -> None:
    early: Reply[UUID] = Reply()
    telemetry.manager.ask_client_instance_id(early)
    assert not early.done
    assert early.waiting_for == "the first answer of a broker about the metrics that it wants"
    telemetry.answer(telemetry.must_send(), subscription())
    late: Reply[UUID] = Reply()
    telemetry.manager.ask_client_instance_id(late)
    assert early.result() == late.result() == ME


def test_who_asks_for_the_id_is_told_why_there_is_none(telemetry: Telemetry) -> None:
    reply: Reply[UUID] = Reply()
    telemetry.manager.ask_client_instance_id(reply)
    telemetry.must_send().on_failure(DisconnectError("gone"), telemetry.now_ms)
    assert reply.waiting_for == "a broker that takes metrics (gone)"
    refused = telemetry.sent_after(300_000)
    telemetry.answer(refused, subscription(error_code=ErrorCode.INVALID_REQUEST))
    assert "this one: " in reply.waiting_for
    assert not reply.done


def test_who_has_given_up_is_not_answered(telemetry: Telemetry) -> None:
    reply: Reply[UUID] = Reply()
    telemetry.manager.ask_client_instance_id(reply)
    reply.abandon()
    telemetry.manager.ask_client_instance_id(Reply())
    telemetry.answer(telemetry.must_send(), subscription())
    assert not reply.done


def test_exactly_as_much_as_the_broker_takes_is_told_whole(telemetry: Telemetry) -> None:
    whole = push_of(telemetry.subscribed()).metrics
    for room, is_whole in ((len(whole), True), (len(whole) - 1, False)):
        other = Telemetry()
        pushed = push_of(other.subscribed(telemetry_max_bytes=room)).metrics
        assert (len(pushed) == len(whole)) is is_whole


def test_an_answer_to_a_question_from_before_the_end_changes_nothing(telemetry: Telemetry) -> None:
    question = telemetry.must_send()
    telemetry.manager.close(telemetry.now_ms)
    telemetry.answer(question, subscription())
    question.on_failure(DisconnectError("gone"), telemetry.now_ms)
    assert telemetry.state is S.TERMINATED
    assert telemetry.sent() is None
