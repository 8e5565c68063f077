"""Telemetry: asks a broker which metrics it wants of this client, and pushes them (KIP-714).

Brokers have the API only where somebody takes the metrics. One that does not is sent nothing, and looked at again every
five minutes, as another may have taken its place. What errors do is as in Java's ClientTelemetryReporter, but a lost
connection does not end telemetry, and what a broker did not take is part of the next difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, assert_never
from uuid import UUID

from kwire.clock import NEVER_MS
from kwire.errors import KafkaError
from kwire.events import Reply
from kwire.logs import part_logger
from kwire.managers.telemetry_points import PushedTotals
from kwire.managers.unsent import ANY_NODE, NOTHING_TO_SEND, AnyUnsentRequest, PollResult, UnsentRequest
from kwire.metrics import MetricName
from kwire.model import ZERO_UUID
from kwire.protocol.deflation import CODECS, NONE, deflate
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kwire.protocol.otlp_metrics import Point, metrics_data
from kwire.states.machine import Machine
from kwire.states.telemetry import TELEMETRY, TelemetryEffect, TelemetryEvent, TelemetryState
from kwire.version import __version__

log = part_logger("metrics")

S, E, F = TelemetryState, TelemetryEvent, TelemetryEffect

DEFAULT_INTERVAL_MS = 300_000.0
LAST_PUSH_TIMEOUT_MS = 1_000.0  # what closing waits for it
_SCOPE = ("kwire", __version__)

# What an error code does. The first ones: ask again at once, but the second time in a row after the interval. The next
# ones: ask again after the interval. All others end telemetry.
_AT_ONCE = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
_AFTER_THE_INTERVAL = frozenset({ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


class TelemetrySource(NamedTuple):
    """What is told.

    Attributes:
        numbers: The consumer's metrics at this time.
        labels: What they are of: its group and rack.
        started_ms: When the consumer was made, on the clock on the wall.
    """

    numbers: Callable[[float], Mapping[MetricName, float]]
    labels: Callable[[], Mapping[str, str]]
    wall_clock_ms: Callable[[], int]
    started_ms: int


class TelemetryManager:
    """Used by the network thread alone.

    Args:
        has_brokers: Whether metadata has named any: nobody is dialled for telemetry.
        chance: spreads the first pushes of many clients over time.
    """

    def __init__(self, source: TelemetrySource, has_brokers: Callable[[], bool], chance: Callable[[], float]) -> None:
        self._source = source
        self._has_brokers = has_brokers
        self._chance = chance
        self._machine = Machine(TELEMETRY)
        self._totals = PushedTotals(source.started_ms)
        self._subscription = GetTelemetrySubscriptionsResponse()
        self._refused_codecs = set[int]()
        self._attempt = 0
        self._due_ms = 0.0
        self._was_at_once = False
        self._waiters: list[Reply[UUID]] = []
        self._waits_for = "the first answer of a broker about the metrics that it wants"

    @property
    def state(self) -> TelemetryState:
        return self._machine.state

    def poll(self, now_ms: float) -> PollResult:
        if self.state not in (S.SUBSCRIPTION_NEEDED, S.PUSH_NEEDED) or not self._has_brokers():
            return NOTHING_TO_SEND
        if now_ms < self._due_ms:
            return PollResult([], self._due_ms)
        return PollResult(self._fire(E.DUE, now_ms), NEVER_MS)

    def close(self, now_ms: float) -> list[AnyUnsentRequest]:
        """The last metrics, if any are wanted."""
        if self.state not in (S.TERMINATING_PUSH_IN_PROGRESS, S.TERMINATED):
            self._attempt += 1  # an answer that comes now is of no interest
        return self._fire(E.CLOSE_WANTED, now_ms)

    def _fire(self, event: TelemetryEvent, now_ms: float) -> list[AnyUnsentRequest]:
        return [self._perform(effect, now_ms) for effect in self._machine.fire(event)]

    def _perform(self, effect: TelemetryEffect, now_ms: float) -> AnyUnsentRequest:
        self._attempt += 1
        match effect:
            case F.ASK:
                return self._question()
            case F.PUSH:
                return self._push(now_ms)
            case F.PUSH_THE_LAST:
                return self._push(now_ms, is_last=True)
            case _:
                assert_never(effect)

    # --- by which id brokers know this client ---------------------------------------------------------------

    def ask_client_instance_id(self, reply: Reply[UUID]) -> None:
        """The reply gets it once a broker has given it. Where none takes metrics, that is never."""
        self._waiters.append(reply)
        self._answer_waiters()

    def _answer_waiters(self, waits_for: str | None = None) -> None:
        self._waits_for = waits_for or self._waits_for
        known = self._subscription.client_instance_id
        for waiter in self._waiters:
            waiter.waiting_for = self._waits_for
            if known != ZERO_UUID:
                waiter.succeed(known)
        self._waiters = [each for each in self._waiters if not (each.done or each.abandoned)]

    # --- what is wanted -------------------------------------------------------------------------------------

    def _question(self) -> UnsentRequest[GetTelemetrySubscriptionsResponse]:
        return UnsentRequest(
            request=GetTelemetrySubscriptionsRequest(client_instance_id=self._subscription.client_instance_id),
            destination=ANY_NODE,
            on_answer=partial(self._on_subscription, self._attempt),
            on_failure=partial(self._on_failure, self._attempt),
        )

    def _on_subscription(self, attempt: int, answer: GetTelemetrySubscriptionsResponse, now_ms: float) -> None:
        if attempt != self._attempt:
            return
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE and answer.client_instance_id == ZERO_UUID:
            code = ErrorCode.INVALID_REQUEST  # it gave no id: nothing could be pushed
        if code is not ErrorCode.NONE:
            self._on_error(code, now_ms)
            return
        if answer.delta_temporality != self._subscription.delta_temporality:
            self._totals = PushedTotals(self._source.started_ms)
        self._subscription = answer
        self._answer_waiters()
        is_wanted = bool(answer.requested_metrics)
        self._due_ms = now_ms + self._interval_ms * (0.5 + self._chance() if is_wanted else 1.0)
        self._machine.fire(E.SUBSCRIBED if is_wanted else E.NOTHING_WANTED)

    @property
    def _interval_ms(self) -> float:
        interval_ms = self._subscription.push_interval_ms
        return float(interval_ms) if interval_ms > 0 else DEFAULT_INTERVAL_MS

    # --- what is told ---------------------------------------------------------------------------------------

    def _push(self, now_ms: float, *, is_last: bool = False) -> UnsentRequest[PushTelemetryResponse]:
        wanted = self._subscription
        codec = self._codec()
        points = self._totals.points(
            self._source.numbers(now_ms),
            wanted.requested_metrics,
            self._source.wall_clock_ms(),
            as_deltas=wanted.delta_temporality,
        )
        request = PushTelemetryRequest(
            client_instance_id=wanted.client_instance_id,
            subscription_id=wanted.subscription_id,
            terminating=is_last,
            compression_type=codec,
            metrics=self._fitting(points, codec),
        )
        return UnsentRequest(
            request=request,
            destination=ANY_NODE,
            on_answer=partial(self._on_push, self._attempt),
            on_failure=partial(self._on_failure, self._attempt),
            timeout_ms=LAST_PUSH_TIMEOUT_MS if is_last else None,
        )

    def _codec(self) -> int:
        """The broker names those it takes, the one it likes best first."""
        accepted: Sequence[int] = self._subscription.accepted_compression_types
        return next((each for each in accepted if each in CODECS and each not in self._refused_codecs), NONE)

    def _fitting(self, points: Sequence[Point], codec: int) -> bytes:
        """The points as bytes. If these are more than the broker takes, those of single partitions are left out."""
        packed = self._packed(points, codec)
        if 0 < self._subscription.telemetry_max_bytes < len(packed):
            log.warning(
                "metrics of %d bytes are too many for the broker; those of partitions are left out", len(packed)
            )
            packed = self._packed([point for point in points if "partition" not in point.attributes], codec)
        return packed

    def _packed(self, points: Sequence[Point], codec: int) -> bytes:
        return deflate(codec, metrics_data(self._source.labels(), _SCOPE, points))

    def _on_push(self, attempt: int, answer: PushTelemetryResponse, now_ms: float) -> None:
        if attempt != self._attempt:
            return
        code = ErrorCode.of(answer.error_code)
        if code is not ErrorCode.NONE:
            if code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
                self._refused_codecs.add(self._codec())
            self._on_error(code, now_ms)
            return
        self._totals.taken()
        self._was_at_once = False
        self._due_ms = now_ms + self._interval_ms
        self._machine.fire(E.PUSHED)

    # --- what goes wrong ------------------------------------------------------------------------------------

    def _on_error(self, code: ErrorCode, now_ms: float) -> None:
        log.info("the broker does not take metrics: %s", code.meaning)
        self._answer_waiters(f"a broker that takes metrics (this one: {code.meaning})")
        if code not in _AT_ONCE and code not in _AFTER_THE_INTERVAL:
            self._machine.fire(E.REFUSED)
            return
        is_at_once = code in _AT_ONCE and not self._was_at_once
        self._due_ms = now_ms if is_at_once else now_ms + self._interval_ms
        self._was_at_once = is_at_once
        self._machine.fire(E.ASK_AGAIN)

    def _on_failure(self, attempt: int, error: KafkaError, now_ms: float) -> None:
        """No answer, or a broker without the API."""
        if attempt != self._attempt:
            return
        log.debug("metrics cannot be pushed: %s", error)
        self._answer_waiters(f"a broker that takes metrics ({error})")
        self._due_ms = now_ms + self._interval_ms
        self._machine.fire(E.ASK_AGAIN)
