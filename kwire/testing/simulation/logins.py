"""Security of the connections of a world: SCRAM, in sessions that end, and TLS in half of the worlds.

Drawn apart from the scenario, so that a seed's world is the same with and without it, but for what security adds.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from kwire.testing.cluster.sasl.server import SaslServer

USER, PASSWORD = "member", "what members say"
OTHER_PASSWORD = "what nobody says"
MECHANISM = "SCRAM-SHA-256"
HOUR_MS = 3_600_000
SESSION_MS = (5_000, 60_000)
# One in this many worlds has sessions of an hour, and goes on until those have been renewed: it takes a thousand times
# as much of everything that is done when there is nothing to do.
EACH_HOUR = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """Args:
    has_tls: whether connections are encrypted.
    session_ms: the lifetime of a session (`connections.max.reauth.ms`).
    """

    has_tls: bool
    session_ms: int

    @property
    def resting_ms(self) -> float:
        """How much longer a group stays at rest, so that sessions end."""
        return 1.1 * self.session_ms if self.session_ms >= HOUR_MS else 0.0

    def settings(self) -> Mapping[str, object]:
        """The settings of a member, without certificates."""
        return {
            "security_protocol": "SASL_SSL" if self.has_tls else "SASL_PLAINTEXT",
            "sasl_mechanism": MECHANISM,
            "sasl_username": USER,
            "sasl_password": PASSWORD,
        }


def draw_logins(seed: int, *, may_rest: bool = True) -> Logins:
    """The logins for a seed.

    Args:
        may_rest: whether sessions may last so long that the group has to rest for them.
    """
    rng = random.Random(f"logins {seed}")
    session_ms = rng.randint(*SESSION_MS)
    return Logins(has_tls=rng.random() < 0.5, session_ms=HOUR_MS if may_rest and seed % EACH_HOUR == 0 else session_ms)


def new_sasl_server(seed: int) -> SaslServer:
    """The brokers' side of the logins."""
    return SaslServer({USER: PASSWORD}, (MECHANISM,), random=random.Random(f"sasl {seed}"))
