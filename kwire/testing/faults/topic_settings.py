"""Settings of topics and brokers in a run, with which every fault of the catalogue can strike, and at its time."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.testing.faults.kind import Need
from kwire.testing.faults.schedule import Schedule
from kwire.testing.faults.secured import BROKER_SETTINGS, PROTOCOL
from kwire.testing.kafka.security import SECURED

REPLICAS = 3
# What brokers become where they become older: it has the consumer protocol and every version that `admin/` asks in, but
# no topic ids in commits (KIP-848).
OLDER_KAFKA = "4.0.1"
# Records as large as the catalogue allows, and what goes with them in a batch.
MAX_BYTES = 72 * 1024 * 1024

TOPIC_SETTINGS: Mapping[str, str] = {
    # The broker's own time: a record is in the log from then on, whenever its producer hears of it.
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(MAX_BYTES),
    "min.insync.replicas": "1",
}


# Everything goes, for everybody, as long as nobody has said anything about it. Controllers have to talk before any of
# them can know who may: so they have a name, which may do everything, and clients and brokers have none.
PERMISSION_SETTINGS: Mapping[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:controller",
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CLIENT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="controller" password="controller" user_controller="controller";'
    ),
}

SECURED_PERMISSION_SETTINGS: Mapping[str, str] = {
    **PERMISSION_SETTINGS,
    "listener.security.protocol.map": ",".join(
        ["BROKER:PLAINTEXT", f"CLIENT:{PROTOCOL}", "CONTROLLER:SASL_PLAINTEXT", *(f"{name}:{name}" for name in SECURED)]
    ),
}


def storage_of(schedule: Schedule) -> str | None:
    """The release that formats the brokers' storage, if it is not the brokers' own."""
    return OLDER_KAFKA if Need.OLDER_STORAGE in schedule.needs else None


def broker_settings(schedule: Schedule, *, secured: bool = False) -> Mapping[str, str]:
    """The settings of a run's brokers beside those of any test cluster."""
    settings = schedule.settings
    permissions = SECURED_PERMISSION_SETTINGS if secured else PERMISSION_SETTINGS
    return {
        "broker.session.timeout.ms": str(settings.broker_session_timeout_ms),
        "broker.heartbeat.interval.ms": str(min(1_000, settings.broker_session_timeout_ms // 3)),
        "group.consumer.session.timeout.ms": str(settings.session_timeout_ms),
        "group.consumer.heartbeat.interval.ms": str(settings.heartbeat_interval_ms),
        "message.max.bytes": str(MAX_BYTES),
        # A deleted topic must not be created again by requests for it.
        "auto.create.topics.enable": "false",
        # Leaders move only when the schedule says so.
        "auto.leader.rebalance.enable": "false",
        # Retention and compaction act within a second, not within minutes.
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.cleaner.backoff.ms": "500",
        "log.segment.delete.delay.ms": "1000",
        **(permissions if Need.PERMISSIONS in schedule.needs else {}),
        **(BROKER_SETTINGS if secured else {}),
    }
