"""The heartbeat interval of a program that sets none."""

from __future__ import annotations

# The default of librdkafka and aiokafka, which accept it with a shorter session timeout, too.
_INTERVAL_MS = 3_000


def fitting_interval_ms(session_timeout_ms: int) -> int:
    """An interval that fits the session timeout: kwire refuses one that does not."""
    return max(1, min(_INTERVAL_MS, session_timeout_ms // 3))
