"""Whether a consumer is alive, for probes: `Consumer.healthy()`. Pure. A consumer without partitions is healthy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from kwire.description.consumer_description import ConsumerDescription
from kwire.description.page import cause_line, duration
from kwire.description.values import Cause, CauseKind

FATAL = frozenset(
    {
        CauseKind.NETWORK_THREAD_DEAD,
        CauseKind.CLOSED,
        CauseKind.FENCED,
        CauseKind.REFUSED,
        CauseKind.AUTHENTICATION,
        CauseKind.AUTHORIZATION,
    }
)
"""What does not pass by itself."""


@dataclass(frozen=True, slots=True)
class Health:
    """True or false, with reasons: `if not (health := consumer.healthy()): print(health)`."""

    reasons: tuple[Cause, ...] = ()

    def __bool__(self) -> bool:
        return not self.reasons

    def with_error(self, error: BaseException | None) -> Health:
        """This, and as a further reason the error that something has ended with, if there is one."""
        if error is None:
            return self
        return Health((*self.reasons, Cause(kind=CauseKind.ENDED, text="it has ended", error=str(error))))

    def as_dict(self) -> dict[str, object]:
        """For the answer of a probe."""
        return {"healthy": bool(self), **asdict(self)}

    def __str__(self) -> str:
        return "; ".join(map(cause_line, self.reasons)) or "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a consumer has to keep to, in seconds and offsets.

    Attributes:
        session_timeout_s: With the consumer protocol it is the broker's, which no answer tells. The setting cannot be
            given then, and its default is Kafka's for brokers too: the shortest that they may have, unless that was
            lowered as well.
    """

    session_timeout_s: float
    max_poll_interval_s: float
    max_lag: int | None = None


def health_of(described: ConsumerDescription, bounds: Bounds) -> Health:
    """What is wrong with a consumer that is described so."""
    return Health((*_fatal(described), *_overdue(described, bounds), *_lagging(described, bounds)))


def _fatal(described: ConsumerDescription) -> Iterator[Cause]:
    return (cause for cause in described.causes if cause.kind in FATAL)


def _overdue(described: ConsumerDescription, bounds: Bounds) -> Iterator[Cause]:
    group, last_poll_s = described.group, described.last_poll_s
    is_wanted = described.subscription is not None
    if is_wanted and last_poll_s is not None and last_poll_s > bounds.max_poll_interval_s:
        yield Cause(
            kind=CauseKind.POLL_OVERDUE,
            text=f"the last poll is longer ago than max_poll_interval_ms ({duration(bounds.max_poll_interval_s)})",
            for_s=last_poll_s,
        )
    if group is not None and group.generation is None and not group.is_coordinator_connected:
        yield from _out_of_reach(described, bounds)
    # While a join is open the broker hears of the member by that, however long the others take.
    is_joining = any(cause.kind is CauseKind.JOINING for cause in described.causes)
    if group is None or group.generation is None or group.last_heartbeat_s is None or is_joining:
        return
    if group.last_heartbeat_s > bounds.session_timeout_s:
        is_classic = group.protocol == "classic"
        session = "session_timeout_ms" if is_classic else "group.consumer.session.timeout.ms by default"
        yield Cause(
            kind=CauseKind.HEARTBEAT_OVERDUE,
            text=f"no heartbeat was answered for longer than {session} ({duration(bounds.session_timeout_s)})",
            for_s=group.last_heartbeat_s,
        )


def _out_of_reach(described: ConsumerDescription, bounds: Bounds) -> Iterator[Cause]:
    """What has kept a consumer from being a member for longer than a session: a member is judged by its heartbeats."""
    for cause in described.causes:
        is_long = cause.for_s is not None and cause.for_s > bounds.session_timeout_s
        if is_long and cause.kind in (CauseKind.NO_COORDINATOR, CauseKind.BROKER_DOWN):
            yield cause


def _lagging(described: ConsumerDescription, bounds: Bounds) -> Iterator[Cause]:
    if bounds.max_lag is None:
        return
    for each in described.partitions:
        if each.lag is not None and each.lag > bounds.max_lag:
            text = f"{each.topic}-{each.partition} is {each.lag} offsets behind its end, more than {bounds.max_lag}"
            yield Cause(kind=CauseKind.LAG, text=text)
