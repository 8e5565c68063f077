"""How topics and brokers are set up for a run: so that every fault of the catalogue can strike, and in its time."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.testing.faults.schedule import Schedule

REPLICAS = 3
# Records as large as the catalogue allows, and what goes with them in a batch.
LARGEST_BYTES = 72 * 1024 * 1024

TOPIC_SETTINGS: Mapping[str, str] = {
    # The broker's own time: a record is in the log from then on, whenever its producer hears of it.
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(LARGEST_BYTES),
    "min.insync.replicas": "1",
}


def broker_settings(schedule: Schedule) -> Mapping[str, str]:
    """What the brokers of a run are told beside what those of a test cluster are."""
    settings = schedule.settings
    return {
        "broker.session.timeout.ms": str(settings.broker_session_timeout_ms),
        "broker.heartbeat.interval.ms": str(min(1_000, settings.broker_session_timeout_ms // 3)),
        "group.consumer.session.timeout.ms": str(settings.session_timeout_ms),
        "group.consumer.heartbeat.interval.ms": str(settings.heartbeat_interval_ms),
        "message.max.bytes": str(LARGEST_BYTES),
        # A topic that is deleted stays so, whoever asks for it.
        "auto.create.topics.enable": "false",
        # Leaders move when the schedule says so.
        "auto.leader.rebalance.enable": "false",
        # Retention and compaction act within a second, not within minutes.
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "500",
        "log.cleaner.backoff.ms": "500",
        "log.segment.delete.delay.ms": "1000",
    }
