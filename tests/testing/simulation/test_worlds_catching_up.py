"""Parallel rebalance on the virtual clock: how soon both cursors are at work."""

from __future__ import annotations

import pytest

from kwire import Consumer, Cursor, OffsetAndMetadata, Records, TopicPartition
from kwire.testing.simulation.script import Script, play

AT = TopicPartition("orders", 0)
# Round trips of a few milliseconds: to join, for the committed offset, for the end of the log, to fetch.
AT_ONCE_MS = 50.0
LAG = 20


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


@pytest.mark.parametrize("main_is_ahead", [False, True])
def test_what_a_child_has_returned_counts_when_the_log_is_cut_within_its_part(main_is_ahead: bool) -> None:
    """The main cursor went back into the part of the child, which was stopped before the application could say what it
    had been given: a commit left that out, and it came again."""

    def story(script: Script) -> None:
        script.cluster.create_topic("orders", 1, 1)
        consumer = lagging(script)
        child = child_offsets(consumer.poll(10.0))
        if main_is_ahead:
            script.send("orders", 1)
            script.sleep(100.0)
            child += child_offsets(records := consumer.poll(10.0))
            assert records.of(Cursor.MAIN)
        script.cluster.elect_uncleanly("orders", 0, 5)
        end = script.cluster.end_offset("orders", 0)
        assert child[-1] < end < LAG
        script.sleep(2_000.0)  # it has noticed, as far as it can without the application
        consumer.commit_sync()
        assert consumer.committed([AT])[AT] == OffsetAndMetadata(child[-1] + 1, leader_epoch=0)
        while len(child) < end:
            child += child_offsets(consumer.poll(10.0))
        assert child == list(range(end))

    play(story)


def lagging(script: Script) -> Consumer[bytes, bytes]:
    """A consumer that finds a lag, which it is given little by little."""
    before = script.consumer()
    before.assign([AT])
    before.commit_sync({AT: OffsetAndMetadata(0)})
    before.close()
    for _ in range(LAG):
        script.send("orders", 1)
    return script.consumer("orders", enable_parallel_rebalance=True, max_poll_records=3)


def child_offsets(records: Records[bytes, bytes]) -> list[int]:
    return [record.offset for record in records.of(Cursor.CHILD)]
