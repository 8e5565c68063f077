"""When a token is renewed: the rules of Java's ExpiringCredentialRefreshingLogin, with time and chance as arguments.

Times are milliseconds since 1970, as the ends of tokens are.
"""

from __future__ import annotations

from dataclasses import dataclass

from kwire.config import ConsumerConfig

# Whatever the settings and a token's life say: a login server is not asked more often than that.
MIN_PAUSE_MS = 1_000.0
# A server that has refused the credentials is left alone so long. Directories lock accounts after a few attempts.
REFUSED_PAUSE_MS = 60_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRules:
    """The settings `sasl_login_refresh_...`."""

    window_factor: float
    window_jitter: float
    min_period_ms: float
    buffer_ms: float

    @classmethod
    def of(cls, config: ConsumerConfig) -> RefreshRules:
        return cls(
            window_factor=config.sasl_login_refresh_window_factor,
            window_jitter=config.sasl_login_refresh_window_jitter,
            min_period_ms=config.sasl_login_refresh_min_period_seconds * 1000.0,
            buffer_ms=config.sasl_login_refresh_buffer_seconds * 1000.0,
        )

    def renew_at_ms(self, issued_at_ms: float | None, expires_at_ms: float, now_ms: float, chance: float) -> float:
        """When a token that has just come is renewed.

        Args:
            issued_at_ms: when its life began, if that is known; else it begins now.
            chance: a number from 0 to 1: clients that were started together do not all ask at the same time.
        """
        share = self.window_factor + self.window_jitter * chance
        if now_ms + self.min_period_ms + self.buffer_ms > expires_at_ms:  # too short a life for the two
            wanted_ms = now_ms + (expires_at_ms - now_ms) * share
        else:
            begin_ms = now_ms if issued_at_ms is None else issued_at_ms
            wanted_ms = begin_ms + (expires_at_ms - begin_ms) * share
            wanted_ms = min(max(wanted_ms, now_ms + self.min_period_ms), expires_at_ms - self.buffer_ms)
        return max(wanted_ms, now_ms + MIN_PAUSE_MS)
