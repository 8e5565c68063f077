"""Bounds of recovery times: formulas of a run's settings, to be evaluated and shown.

A bound is a sum of settings and milliseconds, such as `session_timeout_ms + 2000 ms`. Called by the catalogue, which
has one for each kind of fault, and by `scenarios.py`, where the rows of the table of faults have tighter ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of a run that bounds depend on, for clients and brokers alike.

    Settings of clients have kwire's names; other clients get their equivalents. They are shorter than the defaults, so
    that a run is not mostly waiting.

    Args:
        session_timeout_ms: the member's with the classic protocol, the group's with the consumer protocol.
        broker_session_timeout_ms: after this time without a heartbeat, the controller fences a broker.
        rebalance_slack_ms: what a rebalance takes beside its timeouts, on a busy machine.
    """

    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 1_000
    max_poll_interval_ms: int = 15_000
    request_timeout_ms: int = 8_000
    metadata_max_age_ms: int = 5_000
    fetch_max_wait_ms: int = 500
    auto_commit_interval_ms: int = 1_000
    close_timeout_ms: int = 5_000
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    broker_session_timeout_ms: int = 9_000
    rebalance_slack_ms: int = 5_000

    def named(self, name: str) -> int:
        """The setting of that name."""
        value: int = getattr(self, name)
        return value


SETTINGS: tuple[str, ...] = tuple(each.name for each in fields(RunSettings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A time limit: the sum of some settings and a constant.

    Args:
        ms: what is added to the settings.
        settings: names of settings; one that counts twice stands here twice.
    """

    ms: int = 0
    settings: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        unknown = [name for name in self.settings if name not in SETTINGS]
        if unknown:
            raise ValueError(f"a bound names the settings {unknown}, which a run does not have")

    def in_ms(self, settings: RunSettings) -> int:
        return self.ms + sum(settings.named(name) for name in self.settings)

    @property
    def formula(self) -> str:
        """The bound in words: `2 x request_timeout_ms + 2000 ms`."""
        names = dict.fromkeys(self.settings)
        counted = ((self.settings.count(name), name) for name in names)
        terms = [name if times == 1 else f"{times} x {name}" for times, name in counted]
        return " + ".join([*terms, f"{self.ms} ms"] if self.ms or not terms else terms)


def within(ms: int, *settings: str) -> Bound:
    """A bound in the order in which one says it: `within(2_000, "session_timeout_ms")`."""
    return Bound(ms=ms, settings=settings)
