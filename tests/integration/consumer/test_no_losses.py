"""A small form of `scripts/prove losses`: whatever goes wrong, no good record is lost, and nothing stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.testing.kafka import KafkaCluster
from proofs.losses.judge import Judge
from proofs.losses.prove import SETTINGS, SMALL_FAULTS, SMALL_WAYS, fill

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.only("kafka", reason="damage is written into the broker's files; programs are started and stopped"),
]


def test_no_way_to_read_loses_a_record_or_stands_still(tmp_path: Path) -> None:
    with KafkaCluster(settings=SETTINGS) as kafka:
        outcomes = fill(Judge(kafka.bootstrap_servers, kafka.directory, tmp_path), SMALL_WAYS, SMALL_FAULTS)
    assert len(outcomes) == len(SMALL_WAYS) * len(SMALL_FAULTS)
    assert [str(outcome) for outcome in outcomes if outcome.problem is not None] == []
