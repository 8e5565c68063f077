"""How often a member says that it is alive, where a program has not said so."""

from __future__ import annotations

# The default of librdkafka and aiokafka. They take it beside a shorter session, too.
_INTERVAL_MS = 3_000


def fitting_interval_ms(session_timeout_ms: int) -> int:
    """One that fits a short session: kwire refuses others."""
    return max(1, min(_INTERVAL_MS, session_timeout_ms // 3))
