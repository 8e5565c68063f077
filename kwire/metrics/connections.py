"""Connections and logins, as Java's `Selector` counts them. Counted by the network thread."""

from __future__ import annotations

from kwire.metrics.names import Values
from kwire.metrics.window import Window, WindowSetting


class ConnectionMetrics:
    """Counts connections that are of use, and logins, of which one may be renewed (KIP-368)."""

    def __init__(self, setting: WindowSetting) -> None:
        self._created = Window(setting)
        self._closed = Window(setting)
        self._logins = Window(setting)
        self._refused_logins = Window(setting)
        self._renewals = Window(setting)
        self._refused_renewals = Window(setting)

    def created(self, now_ms: float) -> None:
        """A connection can be used now."""
        self._created.record(1, now_ms)

    def closed(self, now_ms: float) -> None:
        """A connection that could be used is closed."""
        self._closed.record(1, now_ms)

    def logged_in(self, now_ms: float) -> None:
        """Client and broker have accepted each other, by TLS or a login."""
        self._logins.record(1, now_ms)

    def login_refused(self, now_ms: float, *, is_renewal: bool) -> None:
        """A login was not accepted."""
        (self._refused_renewals if is_renewal else self._refused_logins).record(1, now_ms)

    def renewed(self, latency_ms: float, now_ms: float) -> None:
        """A login was renewed, which took so long."""
        self._renewals.record(latency_ms, now_ms)

    def values(self, now_ms: float) -> Values:
        yield "connection-count", self._created.count - self._closed.count
        # Brokers know which of their clients cannot renew logins. Java's clients say this for all of theirs.
        yield "successful-authentication-no-reauth-total", self._logins.count
        for name, window in (
            ("connection-creation", self._created),
            ("connection-close", self._closed),
            ("successful-authentication", self._logins),
            ("failed-authentication", self._refused_logins),
            ("successful-reauthentication", self._renewals),
            ("failed-reauthentication", self._refused_renewals),
        ):
            yield from window.measure(now_ms).meter(name)
        yield from self._renewals.measure(now_ms).avg_max("reauthentication-latency")
