"""Strikes on topics and logs, and what the ledger hears of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.targets import OneTopic, PartitionOf
from kwire.testing.invariants.ledger import Removed, Truncated

if TYPE_CHECKING:
    from tests.testing.faults.kinds.recording_testbed import Struck
else:
    from recording_testbed import Struck

ORDERS = OneTopic("orders")
ALL = [TopicPartition("orders", number) for number in range(6)]


def test_a_deleted_topic_is_gone_with_its_records_and_its_traffic() -> None:
    struck = Struck()
    struck.strike("topic-delete", ORDERS)()
    assert struck.told == ["traffic pause orders", "delete orders", "traffic forget orders"]
    assert [(event.partition, event.to) for event in struck.recorder.ledger.of(Truncated)] == [
        (each, 0) for each in ALL
    ]
    assert struck.testbed.topics == {}


def test_a_topic_is_recreated_with_as_many_partitions_as_it_is_to_have() -> None:
    for wanted, made in ((0, 6), (3, 3)):
        struck = Struck()
        heal = struck.strike("topic-recreate", ORDERS, partitions=wanted)
        assert struck.told == ["traffic pause orders", "delete orders"]
        heal()
        assert struck.told[2:] == [
            f"create orders {made} 3",
            f"traffic set_partitions orders {made}",
            "traffic resume orders",
        ]
        assert struck.testbed.topics == {"orders": made}


def test_a_topic_grows_and_gets_records_at_once() -> None:
    struck = Struck()
    struck.strike("partition-growth", ORDERS, more=2)()
    assert struck.told == ["grow orders 8", "traffic set_partitions orders 8"]
    assert struck.testbed.topics == {"orders": 8}


def test_the_ledger_hears_of_deleted_records_before_the_brokers_do() -> None:
    struck = Struck()
    struck.admin.logs.start_offsets = {ALL[0]: 50}
    struck.strike("delete-records", PartitionOf(ALL[0]), share_percent=60)()
    assert [(event.partition, event.before) for event in struck.recorder.ledger.of(Removed)] == [(ALL[0], 80)]
    assert struck.admin.logs.start_offsets == {ALL[0]: 80}


def test_what_retention_takes_is_told_as_of_the_look_before() -> None:
    struck = Struck()
    struck.admin.logs.grows_by = 5
    heal = struck.strike("retention-cut", ORDERS, lasts_ms=1_000)
    of_one = [event for event in struck.recorder.ledger.of(Removed) if event.partition == ALL[0]]
    assert [event.before for event in of_one][:10] == [5 * (look + 1) for look in range(10)]
    assert [event.at_ms for event in of_one][:3] == pytest.approx([0, 0, 100])
    heal()
    configured = [line for line in struck.told if line.startswith("configure")]
    assert len(configured) == 2
    assert "'retention.ms': None" in configured[1]


def test_a_compacted_topic_is_not_compacted_any_more_and_noted() -> None:
    struck = Struck()
    struck.clock.now_s = 4.0
    heal = struck.strike("compaction", ORDERS)
    assert struck.testbed.compacted == {"orders": 4_000}
    heal()
    assert ["cleanup.policy': 'compact" in line for line in struck.told] == [True, False]
    assert "'cleanup.policy': None" in struck.told[1]


def test_a_large_record_is_sent_beside_the_others() -> None:
    struck = Struck()
    struck.strike("large-record", PartitionOf(ALL[1]), size_bytes=9_000)()
    assert struck.told == ["traffic send_large orders-1 9000"]
