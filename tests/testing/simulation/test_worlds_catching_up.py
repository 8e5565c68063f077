"""Parallel rebalance on the virtual clock: how soon both cursors are at work."""

from __future__ import annotations

import pytest

from kwire import Cursor, OffsetAndMetadata, TopicPartition
from kwire.testing.simulation.script import Script, play

AT = TopicPartition("orders", 0)
# Round trips of a few milliseconds: to join, for the committed offset, for the end of the log, to fetch.
AT_ONCE_MS = 50.0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_end_of_the_log_is_asked_for_at_once(protocol: str) -> None:
    """The question waited for the next thing to happen on the network thread, be it a heartbeat."""

    def story(script: Script) -> None:
        script.cluster.create_topic("orders", 1, 1)
        before = script.consumer(group_protocol=protocol)
        before.assign([AT])
        before.commit_sync({AT: OffsetAndMetadata(0)})
        before.close()
        values = script.send("orders", 20)
        consumer = script.consumer("orders", group_protocol=protocol, enable_parallel_rebalance=True)
        began_ms = script.now_ms()
        records = consumer.poll(10.0)
        assert [record.value for record in records.of(Cursor.CHILD)] == values
        assert script.now_ms() - began_ms < AT_ONCE_MS

    play(story)
