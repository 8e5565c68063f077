"""An unclean election: records that only the leader has are lost with it. Carried out, and called, as the others are.

One follower is left, and stands still, until the leader goes on alone. Then the leader is killed and the follower goes
on: nobody in sync is left, so it leads, and its log ends where it stood.
"""

from __future__ import annotations

from functools import partial

from kwire.model import TopicPartition
from kwire.testing.faults.admin.patience import AdminError, wait_for
from kwire.testing.faults.admin.topics import Placement
from kwire.testing.faults.arena import Arena
from kwire.testing.faults.proxies.tamperings import Refuse
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.strikes.strike import Begin, Heal
from kwire.testing.invariants.ledger import Truncated

ALLOWED = "unclean.leader.election.enable"
# What the leader takes with it: so long it goes on alone.
ALONE_MS = 2_000.0
# Beside the session of a broker that stands still, or is dead: until the controller acts, on a busy machine.
SLACK_S = 20.0


def unclean_election(arena: Arena, step: Step, begin: Begin) -> Heal:
    (partition,) = arena.partitions(step.target)
    before = _whole(arena, partition)
    leader, follower = before.leader, _follower(arena, before)
    arena.admin.topics.configure(partition.topic, {ALLOWED: "true"})
    arena.admin.leaders.reassign({partition: (leader, follower)})
    begin(f"broker {leader} is killed, broker {follower} leads")
    _leave_behind(arena, partition, leader, follower)
    arena.traffic.pause(partition.topic)
    _overthrow(arena, partition, leader, follower)
    (end,) = arena.admin.logs.ends([partition]).values()
    arena.recorder.write(Truncated(at_ms=arena.recorder.now_ms(), partition=partition, to=end))
    arena.traffic.resume(partition.topic)
    return partial(_heal, arena, partition, leader, before.replicas)


def _whole(arena: Arena, partition: TopicPartition) -> Placement:
    def look() -> Placement | None:
        placement = arena.admin.topics.placement(partition)
        return placement if placement is not None and placement.is_whole else None

    return wait_for(look, f"{partition} has all its replicas in sync")


def _follower(arena: Arena, placement: Placement) -> int:
    """One that does not coordinate the group, if there is a choice: that is another fault."""
    coordinator = arena.admin.group.coordinator()
    followers = [number for number in placement.in_sync if number != placement.leader]
    if not followers:
        raise AdminError("nobody follows the leader")
    return next((number for number in followers if number != coordinator), followers[0])


def _leave_behind(arena: Arena, partition: TopicPartition, leader: int, follower: int) -> None:
    arena.cluster.pause_broker(follower)
    patience_s = arena.schedule.settings.broker_session_timeout_ms / 1000 + SLACK_S
    wait_for(
        lambda: _in_sync(arena, partition) == (leader,), f"the leader of {partition} is alone", timeout_s=patience_s
    )
    arena.sleep(ALONE_MS)


def _in_sync(arena: Arena, partition: TopicPartition) -> tuple[int, ...]:
    placement = arena.admin.topics.placement(partition)
    return () if placement is None else placement.in_sync


def _overthrow(arena: Arena, partition: TopicPartition, leader: int, follower: int) -> None:
    """The follower goes on when the leader is dead, or it would fetch what it has missed."""
    with arena.proxies_of((leader,)) as proxies:
        proxies[0].tamper(Refuse())
    arena.cluster.kill_broker(leader)
    arena.cluster.resume_broker(follower)
    patience_s = arena.schedule.settings.broker_session_timeout_ms / 1000 + SLACK_S
    wait_for(lambda: _is_led_by(arena, partition, follower), f"broker {follower} leads", timeout_s=patience_s)


def _is_led_by(arena: Arena, partition: TopicPartition, broker: int) -> bool:
    placement = arena.admin.topics.placement(partition)
    return placement is not None and placement.leader == broker


def _heal(arena: Arena, partition: TopicPartition, leader: int, replicas: tuple[int, ...]) -> None:
    """The former leader is back, and cuts its log; then all is as it was before."""
    arena.cluster.start_broker(leader)
    with arena.proxies_of((leader,)) as proxies:
        proxies[0].lift(Refuse())
    arena.admin.leaders.reassign({partition: replicas})
    arena.admin.topics.configure(partition.topic, {ALLOWED: None})
