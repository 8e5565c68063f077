"""Steps of faults: each draws what it needs from the world's random generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Removed
from kwire.testing.simulation.surroundings import Injected, Surroundings
from kwire.testing.simulation.weather import Weather

if TYPE_CHECKING:
    from kwire.testing.cluster.control import Rule

MAX_MEMBERS = 8


def some_partition(world: Surroundings) -> TopicPartition:
    name = world.rng.choice(list(world.cluster.topics))
    return TopicPartition(name, world.rng.randrange(len(world.cluster.topics[name].partitions)))


def move_leader(world: Surroundings, partition: TopicPartition) -> None:
    found = world.cluster.partition(*partition)
    assert found is not None
    others = [node for node in found.isr if node != found.leader and world.cluster.brokers[node].is_active]
    if others:
        world.cluster.move_leader(*partition, world.rng.choice(others))


def delete_records(world: Surroundings, partition: TopicPartition) -> int:
    """Delete some records of a partition, or all. Returns the first offset that is left."""
    found = world.cluster.partition(*partition)
    assert found is not None
    start, end = found.log.log_start_offset, found.log.high_watermark
    before = start + round((end - start) * world.rng.choice((0.3, 0.6, 1.0)))
    world.cluster.delete_records(*partition, before)
    world.write(Removed(at_ms=world.now_ms(), partition=partition, before=before))
    return before


def come(world: Surroundings) -> None:
    if len(world.members()) < MAX_MEMBERS:
        world.start_member()


def remove_all(rules: Iterable[Rule]) -> None:
    for rule in rules:
        rule.remove()


def bad_weather(
    world: Surroundings, weather: Weather, *, one_client: bool = False, one_broker: bool = False
) -> Injected:
    members = world.members()
    client = world.rng.choice(members).name if one_client and members else None
    broker = world.cluster.brokers[world.rng.choice(list(world.cluster.brokers))].host if one_broker else None

    def between(a_client: str, a_host: str) -> bool:
        return client in (None, a_client) and broker in (None, a_host)

    clear_up = world.network.trouble(between, weather)
    return Injected(f"{client or 'all clients'} and {broker or 'all brokers'}", clear_up)


def again_and_again(
    world: Surroundings, action: Callable[[], None], pause_seconds: tuple[float, float] = (0.2, 2.0)
) -> Callable[[], None]:
    """Repeat the action at intervals, until the returned function is called."""
    scope = trio.CancelScope()

    async def repeat() -> None:
        with scope:
            while not scope.cancel_called:
                action()
                await trio.sleep(world.rng.uniform(*pause_seconds))

    world.start_soon(repeat)
    return scope.cancel
