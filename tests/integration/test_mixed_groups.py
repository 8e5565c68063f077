"""kwire, Java's client and librdkafka share a group: the short version of `scripts/prove mixed-groups`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from proofs.mixed_groups.changes import Action, Change
from proofs.mixed_groups.members import Group, Kind
from proofs.mixed_groups.rules import Cause
from proofs.mixed_groups.trial import run_scenario

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from tests.integration.conftest import MakeTopic
    from tests.integration.kafkas import SharedKafka

PARTITIONS = 6
SESSION_TIMEOUT_MS = 4_000
TIMEOUT_S = 30.0

# Java's client leads, until it is killed while kwire is in the group; at the end kwire hands over to kwire.
CHANGES = (
    Change(action=Action.JOIN, member="java-0", kind=Kind.JAVA),
    Change(action=Action.JOIN, member="kwire-1", kind=Kind.KWIRE, hasty=True),
    Change(action=Action.JOIN, member="confluent-2", kind=Kind.CONFLUENT),
    Change(action=Action.KILL, member="java-0", kind=Kind.JAVA),
    Change(action=Action.JOIN, member="kwire-3", kind=Kind.KWIRE),
    Change(action=Action.LEAVE, member="kwire-1", kind=Kind.KWIRE),
)


@pytest.mark.slow
@pytest.mark.only("kafka", reason="Java's client is in the group")
@pytest.mark.parametrize("strategy", ["cooperative-sticky", None])
def test_a_group_of_three_clients_keeps_kafkas_rules(
    strategy: str | None, kafka: SharedKafka, admin: AdminClient, topic: MakeTopic, tmp_path: Path
) -> None:
    name = topic(PARTITIONS)
    group = Group(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=f"mixed-{name}",
        topic=name,
        partitions=PARTITIONS,
        strategy=strategy,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        directory=tmp_path,
    )
    shorten_session(admin, group)
    result = run_scenario(strategy or "consumer", group, CHANGES)
    verdict = result.verdict
    assert verdict.violations == []
    assert verdict.produced > 0
    assert verdict.consumed == verdict.produced + sum(verdict.duplicates.values())
    assert verdict.duplicates_by(Cause.UNKNOWN) == 0


def shorten_session(admin: AdminClient, group: Group) -> None:
    """With the consumer protocol, sessions are the broker's business."""
    entry = ConfigEntry(
        "consumer.session.timeout.ms", str(group.session_timeout_ms), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group.group_id, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
