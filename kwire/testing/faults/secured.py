"""Runs over TLS and SASL: members log in by SCRAM at brokers behind proxies, in sessions that end while faults strike.

Called by the harness, which makes the brokers so, and by `members.py`, which tells each client in its own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kwire.testing.faults.kind import FaultClaim
from kwire.testing.faults.schedule import Schedule, Step
from kwire.testing.kafka.security import Security

USER, PASSWORD = "member", "what-members-say"
PROTOCOL, MECHANISM = "SASL_SSL", "SCRAM-SHA-256"
SESSION_MS = 8_000
"""The lifetime of a session: sessions end several times even in the shortest run."""

SECURITY = Security(users={USER: PASSWORD}, proxied=PROTOCOL)

BROKER_SETTINGS: Mapping[str, str] = {
    f"listener.name.client.{MECHANISM.lower()}.connections.max.reauth.ms": str(SESSION_MS)
}


def member_settings(client: str, truststore: Path) -> dict[str, str]:
    """The settings of a member, under its client's names."""
    settings = {"security.protocol": PROTOCOL, "sasl.mechanism": MECHANISM}
    if client == "confluent":
        return {**settings, "sasl.username": USER, "sasl.password": PASSWORD, "ssl.ca.location": str(truststore)}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        **settings,
        "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(truststore),
    }


def unreadable(schedule: Schedule) -> list[str]:
    """The faults of a schedule for which a proxy would have to read answers, which are encrypted."""
    return sorted({step.fault for step in schedule.steps if not _is_possible(step)})


def without_unreadable(schedule: Schedule) -> Schedule:
    """The schedule without these faults."""
    return replace(schedule, steps=tuple(step for step in schedule.steps if _is_possible(step)))


def _is_possible(step: Step) -> bool:
    return FaultClaim.ANSWERS not in step.kind.claims
