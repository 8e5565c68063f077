"""Brokers as processes, and what the cluster does by itself: `kinds/brokers.py` carried out.

Toxiproxy takes connections for a broker that is down, so its proxy refuses them as long as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from kwire.model import TopicPartition
from kwire.testing.faults.admin.group import OFFSETS_TOPIC
from kwire.testing.faults.admin.patience import CLIENT_ID, wait_for
from kwire.testing.faults.injectors.injector import Begin, Heal, Injector, stay_so, stays
from kwire.testing.faults.injectors.unclean import unclean_election
from kwire.testing.faults.proxies.tamperings import Refuse
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.testbed import Testbed
from kwire.testing.faults.topic_settings import OLDER_KAFKA
from kwire.testing.faults.traffic import CLIENT_ID as TRAFFIC_CLIENT_ID

# Of those who are not to be struck: more than they could ever use.
SPARED = {"consumer_byte_rate": 1e12, "request_percentage": 1e6}


def kill(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    broker = testbed.broker(step.target)
    begin(f"broker {broker}")
    refuse(testbed, broker)
    testbed.cluster.kill_broker(broker)
    return partial(start_again, testbed, broker)


def stop(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    broker = testbed.broker(step.target)
    begin(f"broker {broker}")
    stop_in_order(testbed, broker)
    return partial(start_again, testbed, broker)


def freeze(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    broker = testbed.broker(step.target)
    begin(f"broker {broker}")
    testbed.cluster.pause_broker(broker)
    return partial(testbed.cluster.resume_broker, broker)


def roll(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """One restart after the other."""
    assert step.lasts_ms is not None
    order = list(testbed.brokers(step.target)) * step.amount("rounds")
    begin(f"{len(order)} restarts")
    for broker in _in_turn(testbed, step.lasts_ms, order):
        stop_in_order(testbed, broker)
        start_again(testbed, broker)
    return stays


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


def move_leaders(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    return _move(testbed, testbed.partitions(step.target), begin)


def move_coordinator(testbed: Testbed, _step: Step, begin: Begin) -> Heal:
    return _move(testbed, (testbed.admin.group.kept_in(),), begin)


def _move(testbed: Testbed, partitions: tuple[TopicPartition, ...], begin: Begin) -> Heal:
    moves = testbed.admin.leaders.prepare_move(partitions)
    begin("to broker " + ", ".join(str(number) for number in sorted(set(moves.values()))))
    testbed.admin.leaders.elect(moves)
    return stays


def throttle(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """All clients but the harness's own, whose records have to come."""
    percent = step.amount("request_percent")
    quotas: dict[str, float | None] = {"consumer_byte_rate": float(step.amount("fetch_rate_bytes_per_second"))}
    if percent < 100:
        quotas["request_percentage"] = float(percent)
    begin("all clients")
    testbed.admin.quotas.change({CLIENT_ID: SPARED, TRAFFIC_CLIENT_ID: SPARED, None: quotas})
    stay_so(testbed, step)
    gone = dict.fromkeys(SPARED)
    return lambda: testbed.admin.quotas.change({None: dict.fromkeys(quotas), CLIENT_ID: gone, TRAFFIC_CLIENT_ID: gone})


INJECTORS: Mapping[str, Injector] = {
    "broker-kill": kill,
    "broker-stop": stop,
    "broker-freeze": freeze,
    "rolling-restart": roll,
    "rolling-downgrade": downgrade,
    "leader-move": move_leaders,
    "coordinator-move": move_coordinator,
    "unclean-election": unclean_election,
    "quota": throttle,
}
