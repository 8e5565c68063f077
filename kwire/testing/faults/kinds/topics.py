"""Faults of topics: they are deleted, created again, and grow."""

from __future__ import annotations

from functools import partial

from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault, stays
from kwire.testing.faults.kind import Amount, FaultClaim, Lasting, Need, Since
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import OneTopic, topic_of
from kwire.testing.faults.testbed import Testbed
from kwire.testing.faults.topic_settings import REPLICAS, TOPIC_SETTINGS
from kwire.testing.invariants.ledger import Truncated

# What the controller decides reaches every broker in this time, on a busy machine.
SPREADING_MS = 3_000


@fault(
    name="topic-delete",
    description="A topic is deleted, for good.",
    targets=(OneTopic,),
    heals="nothing: who reads it goes on with the others",
    claims=(FaultClaim.TOPIC, FaultClaim.LEADERSHIP, FaultClaim.TRAFFIC),
    needs=(Need.ONE_TOPIC_LEFT,),
    settles_ms=SPREADING_MS,
    rows=(39,),
    bound=within(SPREADING_MS, "metadata_max_age_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
)
def delete(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    _delete(testbed, step, begin)
    testbed.traffic.forget(topic)
    return stays


@fault(
    name="topic-recreate",
    description="A topic is deleted and, some time later, recreated with another id and other records.",
    targets=(OneTopic,),
    parameters=(
        Amount(
            name="partitions",
            word="partitions",
            quantity=Quantity.COUNT,
            default=0,
            most=1_000,
            doc="how many the new one has; 0 for as many as before",
        ),
    ),
    lasting=Lasting(default_ms=5_000, least_ms=1_000),
    heals="the topic is there again",
    claims=(FaultClaim.TOPIC, FaultClaim.LEADERSHIP, FaultClaim.TRAFFIC),
    settles_ms=SPREADING_MS,
    rows=(39,),
    bound=within(SPREADING_MS, "metadata_max_age_ms", "rebalance_slack_ms"),
)
def recreate(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    partitions = step.amount("partitions") or testbed.topics[topic]
    _delete(testbed, step, begin)
    return partial(_create_again, testbed, topic, partitions)


def _delete(testbed: Testbed, step: Step, begin: Begin) -> None:
    """Nobody sends to it any more; offsets of a topic of the same name begin anew."""
    topic = str(topic_of(step.target))
    testbed.traffic.pause(topic)
    begin("")
    at_ms = testbed.recorder.now_ms()
    for partition in testbed.partitions(step.target):
        testbed.recorder.write(Truncated(at_ms=at_ms, partition=partition, to=0))
    del testbed.topics[topic]
    testbed.admin.topics.delete(topic)


def _create_again(testbed: Testbed, topic: str, partitions: int) -> None:
    replicas = min(REPLICAS, testbed.schedule.brokers)
    testbed.admin.topics.create(topic, partitions, replicas=replicas, settings=TOPIC_SETTINGS)
    testbed.topics[topic] = partitions
    testbed.traffic.set_partitions(topic, partitions)
    testbed.traffic.resume(topic)


@fault(
    name="partition-growth",
    description="A topic gets more partitions, and they get records at once.",
    targets=(OneTopic,),
    parameters=(Amount(name="more", quantity=Quantity.COUNT, default=1, least=1, most=100, doc="how many more"),),
    heals="nothing: they stay",
    claims=(FaultClaim.TOPIC,),
    settles_ms=SPREADING_MS,
    rows=(40,),
    bound=within(SPREADING_MS, "metadata_max_age_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
    simulated_as="topic-grows",
)
def grow(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    partitions = testbed.topics[topic] + step.amount("more")
    begin(f"to {partitions} partitions")
    testbed.admin.topics.grow(topic, partitions)
    testbed.topics[topic] = partitions
    testbed.traffic.set_partitions(topic, partitions)
    return stays
