"""An unclean election: records that only the leader has are lost with it.

One follower is left, and stands still, until the leader goes on alone. Then the leader is killed and the follower goes
on: nobody in sync is left, so it leads, and its log ends where it stood.
"""

from __future__ import annotations

from functools import partial

from kwire.model import TopicPartition
from kwire.testing.faults.admin.patience import AdminError, wait_for
from kwire.testing.faults.admin.topics import Placement
from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault
from kwire.testing.faults.kind import FaultClaim, Lasting, Need
from kwire.testing.faults.kinds.brokers import CATCHING_UP_MS
from kwire.testing.faults.proxies.tamperings import Refuse
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import PartitionOf
from kwire.testing.faults.testbed import Testbed
from kwire.testing.invariants.ledger import Truncated

ALLOWED = "unclean.leader.election.enable"
# What the leader takes with it: so long it goes on alone.
ALONE_MS = 2_000.0
# Beside the session of a broker that stands still, or is dead: until the controller acts, on a busy machine.
SLACK_S = 20.0


@fault(
    name="unclean-election",
    description="A partition's only follower stands still until the leader is alone; that is killed, and it leads.",
    targets=(PartitionOf,),
    lasting=Lasting(default_ms=30_000, least_ms=15_000),
    heals="the former leader is started again and cuts its log, and all replicas follow again",
    claims=(FaultClaim.BROKER_DOWN, FaultClaim.LEADERSHIP, FaultClaim.TOPIC),
    needs=(Need.THREE_BROKERS,),
    settles_ms=CATCHING_UP_MS,
    rows=(24,),
    bound=within(2_000, "metadata_max_age_ms"),
    simulated_as="unclean-election",
)
def unclean_election(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    (partition,) = testbed.partitions(step.target)
    before = _whole(testbed, partition)
    leader, follower = before.leader, _follower(testbed, before)
    testbed.admin.topics.configure(partition.topic, {ALLOWED: "true"})
    testbed.admin.leaders.reassign({partition: (leader, follower)})
    begin(f"broker {leader} is killed, broker {follower} leads")
    _leave_behind(testbed, partition, leader, follower)
    testbed.traffic.pause(partition.topic)
    _overthrow(testbed, partition, leader, follower)
    (end,) = testbed.admin.logs.ends([partition]).values()
    testbed.recorder.write(Truncated(at_ms=testbed.recorder.now_ms(), partition=partition, to=end))
    testbed.traffic.resume(partition.topic)
    return partial(_heal, testbed, partition, leader, before.replicas)


def _whole(testbed: Testbed, partition: TopicPartition) -> Placement:
    def look() -> Placement | None:
        placement = testbed.admin.topics.placement(partition)
        return placement if placement is not None and placement.is_whole else None

    return wait_for(look, f"{partition} has all its replicas in sync")


def _follower(testbed: Testbed, placement: Placement) -> int:
    """One that does not coordinate the group, if there is a choice: that is another fault."""
    coordinator = testbed.admin.group.coordinator()
    followers = [number for number in placement.in_sync if number != placement.leader]
    if not followers:
        raise AdminError("nobody follows the leader")
    return next((number for number in followers if number != coordinator), followers[0])


def _leave_behind(testbed: Testbed, partition: TopicPartition, leader: int, follower: int) -> None:
    testbed.cluster.pause_broker(follower)
    patience_s = testbed.schedule.settings.broker_session_timeout_ms / 1000 + SLACK_S
    wait_for(
        lambda: _in_sync(testbed, partition) == (leader,), f"the leader of {partition} is alone", timeout_s=patience_s
    )
    testbed.sleep(ALONE_MS)


def _in_sync(testbed: Testbed, partition: TopicPartition) -> tuple[int, ...]:
    placement = testbed.admin.topics.placement(partition)
    return () if placement is None else placement.in_sync


def _overthrow(testbed: Testbed, partition: TopicPartition, leader: int, follower: int) -> None:
    """The follower goes on when the leader is dead, or it would fetch what it has missed."""
    with testbed.proxies_of((leader,)) as proxies:
        proxies[0].tamper(Refuse())
    testbed.cluster.kill_broker(leader)
    testbed.cluster.resume_broker(follower)
    patience_s = testbed.schedule.settings.broker_session_timeout_ms / 1000 + SLACK_S
    wait_for(lambda: _is_led_by(testbed, partition, follower), f"broker {follower} leads", timeout_s=patience_s)


def _is_led_by(testbed: Testbed, partition: TopicPartition, broker: int) -> bool:
    placement = testbed.admin.topics.placement(partition)
    return placement is not None and placement.leader == broker


def _heal(testbed: Testbed, partition: TopicPartition, leader: int, replicas: tuple[int, ...]) -> None:
    """The former leader is back, and cuts its log; then all is as it was before."""
    testbed.cluster.start_broker(leader)
    with testbed.proxies_of((leader,)) as proxies:
        proxies[0].lift(Refuse())
    testbed.admin.leaders.reassign({partition: replicas})
    testbed.admin.topics.configure(partition.topic, {ALLOWED: None})
