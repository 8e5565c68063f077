"""Faults of brokers' processes.

Toxiproxy takes connections for a broker that is down, so its proxy refuses them as long as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kwire.testing.faults.admin.group import OFFSETS_TOPIC
from kwire.testing.faults.admin.patience import wait_for
from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault, stays
from kwire.testing.faults.kind import Amount, FaultClaim, Lasting, Need, Since
from kwire.testing.faults.proxies.tamperings import Refuse
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import ONE_BROKER, AllBrokers
from kwire.testing.faults.testbed import Testbed
from kwire.testing.faults.topic_settings import OLDER_KAFKA

# A broker that is back reads what it has missed; taking the next one down before leaves partitions without leaders.
CATCHING_UP_MS = 5_000


@fault(
    name="broker-kill",
    description="A broker's process is killed (SIGKILL); the others take over when its session has ended.",
    targets=ONE_BROKER,
    lasting=Lasting(default_ms=15_000, least_ms=1_000),
    heals="the broker is started again, with its data",
    claims=(FaultClaim.BROKER_DOWN,),
    needs=(Need.THREE_BROKERS,),
    settles_ms=CATCHING_UP_MS,
    rows=(1,),
    bound=within(2_000, "broker_session_timeout_ms"),
    since=Since.STRIKE,
    simulated_as="broker-kill",
)
def kill(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    broker = testbed.broker(step.target)
    begin(f"broker {broker}")
    refuse(testbed, broker)
    testbed.cluster.kill_broker(broker)
    return partial(start_again, testbed, broker)


@fault(
    name="broker-stop",
    description="A broker is shut down in order (SIGTERM), and hands its leaders over before it goes.",
    targets=ONE_BROKER,
    lasting=Lasting(least_ms=1_000),
    heals="the broker is started again, with its data",
    claims=(FaultClaim.BROKER_DOWN,),
    needs=(Need.THREE_BROKERS,),
    settles_ms=CATCHING_UP_MS,
    rows=(2,),
    # The shutdown itself takes a while, in which some leaders have moved and others not.
    bound=within(7_000),
    since=Since.STRIKE,
)
def stop(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    broker = testbed.broker(step.target)
    begin(f"broker {broker}")
    stop_in_order(testbed, broker)
    return partial(start_again, testbed, broker)


@fault(
    name="broker-freeze",
    description="A broker's process is stopped (SIGSTOP): its connections stay open, and nobody answers.",
    targets=ONE_BROKER,
    lasting=Lasting(default_ms=15_000, least_ms=1_000),
    heals="the process goes on (SIGCONT), and finds out what it has missed",
    claims=(FaultClaim.BROKER_DOWN,),
    needs=(Need.THREE_BROKERS,),
    settles_ms=CATCHING_UP_MS,
    rows=(10,),
    bound=within(2_000, "broker_session_timeout_ms", "request_timeout_ms"),
    since=Since.STRIKE,
    simulated_as="broker-pause",
)
def freeze(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    broker = testbed.broker(step.target)
    begin(f"broker {broker}")
    testbed.cluster.pause_broker(broker)
    return partial(testbed.cluster.resume_broker, broker)


@fault(
    name="rolling-restart",
    description="Each broker in turn is shut down in order and started again, evenly over the time.",
    targets=(AllBrokers,),
    parameters=(
        Amount(
            name="rounds",
            word="rounds",
            quantity=Quantity.COUNT,
            default=1,
            least=1,
            most=10,
            doc="how often each is restarted",
        ),
    ),
    lasting=Lasting(default_ms=45_000, least_ms=15_000),
    heals="the last broker is up again",
    claims=(FaultClaim.BROKER_DOWN,),
    needs=(Need.THREE_BROKERS,),
    settles_ms=CATCHING_UP_MS,
    rows=(2,),
    bound=within(2_000),
    simulated_as="rolling-bounce",
)
def roll(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """One restart after the other."""
    assert step.lasts_ms is not None
    order = list(testbed.brokers(step.target)) * step.amount("rounds")
    begin(f"{len(order)} restarts")
    for broker in _in_turn(testbed, step.lasts_ms, order):
        stop_in_order(testbed, broker)
        start_again(testbed, broker)
    return stays


@fault(
    name="rolling-downgrade",
    description="Each broker in turn is restarted as an older release of Kafka, then each as its own again.",
    targets=(AllBrokers,),
    lasting=Lasting(default_ms=60_000, least_ms=30_000),
    heals="the last broker is up again, and all are of one release",
    claims=(FaultClaim.BROKER_DOWN,),
    needs=(Need.THREE_BROKERS, Need.OLDER_STORAGE),
    settles_ms=CATCHING_UP_MS,
    rows=(43,),
    bound=within(2_000),
)
def downgrade(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """There and back, so that each broker is of either release beside brokers of the other one."""
    assert step.lasts_ms is not None
    brokers = list(testbed.brokers(step.target))
    begin(f"to Kafka {OLDER_KAFKA}, and back")
    for turn, broker in enumerate(_in_turn(testbed, step.lasts_ms, brokers * 2)):
        stop_in_order(testbed, broker)
        testbed.cluster.change_release(broker, OLDER_KAFKA if turn < len(brokers) else None)
        start_again(testbed, broker)
    return stays


def _in_turn(testbed: Testbed, lasts_ms: int, order: Sequence[int]) -> Iterator[int]:
    """Each when its time has come, and the one before has caught up."""
    began_ms = testbed.recorder.now_ms()
    for turn, broker in enumerate(order):
        testbed.sleep_until(began_ms + turn * lasts_ms / len(order))
        wait_until_whole(testbed)
        yield broker


def stop_in_order(testbed: Testbed, broker: int) -> None:
    """It serves until the end of its shutdown, so it is refused only then."""
    testbed.cluster.stop_broker(broker)
    refuse(testbed, broker)


def refuse(testbed: Testbed, broker: int) -> None:
    with testbed.proxies_of((broker,)) as proxies:
        proxies[0].tamper(Refuse())


def start_again(testbed: Testbed, broker: int) -> None:
    """With its data; comes back when it serves and clients can reach it."""
    testbed.cluster.start_broker(broker)
    with testbed.proxies_of((broker,)) as proxies:
        proxies[0].lift(Refuse())


def wait_until_whole(testbed: Testbed) -> None:
    """Until each partition has a leader, and all its replicas are in sync."""
    topics = (*testbed.topics, OFFSETS_TOPIC)
    wait_for(lambda: testbed.admin.topics.are_whole(topics), "all replicas are in sync")
