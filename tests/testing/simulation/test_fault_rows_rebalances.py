"""Fault rows of rebalances: callbacks that fail, work under way, members that come and go (S)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pytest

from kwire.errors import (
    RebalanceListenerError,
)
from kwire.model import TopicPartition
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.schema import Message, Request
from kwire.testing.simulation.script import Script
from kwire.testing.simulation.weather import Weather

if TYPE_CHECKING:
    from tests.testing.simulation.row_world import (
        BOTH,
        T0,
        TOPIC,
        Listening,
        Reader,
        acknowledged_once,
        both_protocols,
        gather,
        partitions,
        reading,
        scripted,
        send_to_each,
        share_all,
    )
else:
    from row_world import (
        BOTH,
        T0,
        TOPIC,
        Listening,
        Reader,
        acknowledged_once,
        both_protocols,
        gather,
        partitions,
        reading,
        scripted,
        send_to_each,
        share_all,
    )

# --- callbacks ------------------------------------------------------------------------------------------------


class Failing(Listening):
    """A listener whose methods of one kind raise, until it is disarmed."""

    def __init__(self, script: Script, kind: str) -> None:
        super().__init__(script)
        self.kind = kind

    def _hear(self, kind: str, partitions: Collection[TopicPartition]) -> None:
        super()._hear(kind, partitions)
        if kind == self.kind and partitions:
            raise ValueError(kind)


@both_protocols
@scripted()
def test_row_36_a_callback_raises(script: Script, protocol: str) -> None:
    """The rebalance goes on, and the poll says what was raised, each time once."""
    script.cluster.create_topic(TOPIC, 2, 3)
    consumer, heard = script.consumer(group_protocol=protocol), Failing(script, "revoked")
    consumer.subscribe([TOPIC], listener=heard)
    _, errors = gather(script, consumer, 3_000)
    assert consumer.assignment() == BOTH
    other = Reader(script, group_protocol=protocol)
    _, more = gather(script, consumer, 5_000)
    assert len(other.owned) == 1
    assert consumer.assignment() == BOTH - other.owned
    assert {type(error) for error in errors + more} == {RebalanceListenerError}
    assert len(errors + more) == heard.kinds().count("revoked")
    sent = script.send(TOPIC, 3, min(consumer.assignment()).partition)
    script.read(consumer, sent, within_ms=1_000)
    consumer.commit_sync()
    heard.kind = ""  # closing gives up partitions, too


@both_protocols
@scripted()
def test_row_36_assigned_raises(script: Script, protocol: str) -> None:
    """It is called again by each poll, and no record comes before it succeeds; then the group goes on."""
    script.cluster.create_topic(TOPIC, 2, 3)
    sent = script.send(TOPIC)
    consumer, heard = script.consumer(group_protocol=protocol), Failing(script, "assigned")
    consumer.subscribe([TOPIC], listener=heard)
    records, errors = gather(script, consumer, 12_000)
    assert not records
    assert {type(error) for error in errors} == {RebalanceListenerError}
    assert heard.kinds() == ["assigned"] * len(errors)
    assert consumer.group_metadata().generation_id > 0
    heard.kind = ""
    script.read(consumer, sent, within_ms=1_000)
    other = Reader(script, group_protocol=protocol)
    gather(script, consumer, 5_000)
    assert len(other.owned) == 1
    assert consumer.assignment() == BOTH - other.owned


@both_protocols
@scripted()
def test_row_36_assigned_raises_until_the_member_is_fenced(script: Script, protocol: str) -> None:
    """What it was never told of is lost, which the listener hears as in Java, and assigned anew."""
    script.cluster.create_topic(TOPIC, 1, 3)
    consumer, heard = script.consumer(group_protocol=protocol), Failing(script, "assigned")
    consumer.subscribe([TOPIC], listener=heard)
    _, errors = gather(script, consumer, 3_000)
    calls = heard.kinds().count("assigned")
    assert calls == len(errors) > 0
    clear_up = script.network.trouble(lambda _client, _host: True, Weather(holds=True))
    script.sleep(12_000.0)
    clear_up()
    script.sleep(2_000.0)  # it hears that it is fenced
    heard.kind = ""
    gather(script, consumer, 4_000)
    assert heard.kinds() == ["assigned"] * calls + ["lost", "assigned"]
    script.read(consumer, script.send(TOPIC), within_ms=1_000)


@both_protocols
@scripted()
def test_row_36_lost_raises(script: Script, protocol: str) -> None:
    script.cluster.create_topic(TOPIC, 1, 3)
    consumer, heard = script.consumer(group_protocol=protocol), Failing(script, "lost")
    consumer.subscribe([TOPIC], listener=heard)
    script.read(consumer, script.send(TOPIC))
    consumer.commit_sync()
    clear_up = script.network.trouble(lambda _client, _host: True, Weather(holds=True))
    gather(script, consumer, 12_000)
    clear_up()
    _, errors = gather(script, consumer, 4_000)
    assert [type(error) for error in errors] == [RebalanceListenerError]
    assert heard.kinds() == ["assigned", "lost", "assigned"]
    script.read(consumer, script.send(TOPIC), within_ms=1_000)


class Blocking(Reader):
    """A reader whose next revocation takes 20 s, which is longer than a rebalance may take."""

    is_armed = False

    def _hear(self, kind: str, partitions: Collection[TopicPartition]) -> None:
        super()._hear(kind, partitions)
        if kind == "revoked" and self.is_armed:
            self.is_armed = False
            self.script.sleep(20_000.0)


@pytest.mark.slow
@both_protocols
@scripted()
def test_row_36_a_callback_takes_longer_than_the_rebalance_may(script: Script, protocol: str) -> None:
    script.cluster.create_topic(TOPIC, 2, 3)
    one = Blocking(script, group_protocol=protocol)
    script.until(lambda: one.owned == BOTH)
    one.is_armed = True
    two = Reader(script, group_protocol=protocol)
    script.recovers(15_000 + 5_000, lambda: script.until(lambda: two.owned == BOTH))
    script.recovers(20_000, lambda: script.until(lambda: share_all([one, two], BOTH)))
    sent = send_to_each(script, 2)
    script.until(lambda: sorted(one.values + two.values) == sorted(sent), within_ms=1_000)


# --- rebalances in the middle of something --------------------------------------------------------------------


@scripted()
def test_row_37_a_seek_wins_over_a_look_up_under_way(script: Script) -> None:
    consumer, _ = reading(script)
    sent = [value for _ in range(5) for value in script.send(TOPIC)]
    script.read(consumer, sent)
    consumer.commit_sync()
    consumer.close()
    script.cluster.control.on(OffsetFetchRequest, times=1).delay(2_000, handled=True)
    other = script.consumer()
    other.assign([T0])
    other.poll(0.5)
    other.seek(T0, 3)
    script.read(other, sent[2:])
    script.sleep(3_000)
    assert not other.poll(0.5)
    assert other.position(T0) == 6


@pytest.mark.slow
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky", None])
@pytest.mark.parametrize("under_way", [FetchRequest, OffsetFetchRequest, OffsetCommitRequest])
@scripted()
def test_row_37_partitions_come_and_go_while_something_is_under_way(
    script: Script, under_way: type[Request[Message]], assignor: str | None
) -> None:
    """And come back to the same member. Nothing is left out; what is committed does not come again."""
    settings: dict[str, object] = {"group_protocol": "consumer"}
    if assignor is not None:
        settings = {"partition_assignment_strategy": [assignor]}
    script.cluster.create_topic(TOPIC, 4, 3)
    script.cluster.control.on(under_way).delay(800, handled=True)
    one = Reader(script, **settings)
    sent = send_to_each(script, 4)
    script.until(lambda: one.owned == partitions(4))
    script.sleep(300)
    readers = [one]
    for _ in range(3):
        other = Reader(script, **settings)
        readers.append(other)
        for _ in range(8):
            sent += send_to_each(script, 4)
            script.sleep(400)
        script.until(lambda other=other: share_all([one, other], partitions(4)))  # type: ignore[misc]  # bound now
        other.stop()
    script.recovers(10_000, lambda: script.until(lambda: one.owned == partitions(4)))
    script.recovers(10_000, lambda: script.until(lambda: {v for each in readers for v in each.values} == set(sent)))
    assert acknowledged_once(readers)


@pytest.mark.slow
@both_protocols
@scripted()
def test_row_38_twenty_members_come_leave_and_are_killed(script: Script, protocol: str) -> None:
    script.cluster.create_topic(TOPIC, 6, 3)
    readers = [Reader(script, group_protocol=protocol) for _ in range(2)]
    alive, sent = list(readers), list[bytes]()
    for _ in range(20):
        kind = script.rng.choice(("come", "come", "leave", "kill"))
        if kind == "come" or len(alive) == 1:
            alive.append(Reader(script, group_protocol=protocol))
            readers.append(alive[-1])
        else:
            gone = alive.pop(script.rng.randrange(len(alive)))
            gone.stop() if kind == "leave" else gone.kill()
        sent += send_to_each(script, 6)
        script.sleep(script.rng.uniform(100.0, 2_000.0))
    while len(alive) > 3:
        alive.pop().stop()
    # A rebalance waits so long for members who are dead, and then the others have to hear of its end.
    script.recovers(15_000 + 1_000, lambda: script.until(lambda: share_all(alive, partitions(6))))
    script.recovers(5_000, lambda: script.until(lambda: {v for each in readers for v in each.values} == set(sent)))
    assert acknowledged_once(readers)


@pytest.mark.slow
@both_protocols
@scripted()
def test_row_46_a_process_is_killed_wherever_it_is(script: Script, protocol: str) -> None:
    """From its first bytes to its last: the next owner goes on where the commits ended. A member that died in the
    middle of a join is waited for until the rebalance times out, and then until its session does."""
    script.cluster.create_topic(TOPIC, 2, 3)
    readers, sent = list[Reader](), list[bytes]()
    for _ in range(15):
        readers.append(Reader(script, group_protocol=protocol))
        end_ms = script.now_ms() + script.rng.choice((5.0, 50.0, 12_000.0)) * script.rng.random()
        while script.now_ms() < end_ms:
            sent += send_to_each(script, 2)
            script.sleep(script.rng.uniform(0.0, min(1_000.0, end_ms - script.now_ms() + 1.0)))
        readers[-1].kill()
    readers.append(Reader(script, group_protocol=protocol))
    script.recovers(15_000 + 10_000, lambda: script.until(lambda: readers[-1].owned == BOTH))
    script.recovers(1_000, lambda: script.until(lambda: {v for each in readers for v in each.values} >= set(sent)))
    assert acknowledged_once(readers)
