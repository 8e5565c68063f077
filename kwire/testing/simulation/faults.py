"""The faults of a world, by name. Each injects itself and answers what heals it.

A fault draws what it needs from the world's own chance, says in one line what it did, and may be healed at any moment.
`Surroundings` is what it may touch; nothing else of the world is its business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from kwire.model import TopicPartition
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.schema import Message, Request
from kwire.testing.invariants.ledger import Removed, Truncated
from kwire.testing.simulation.refusals import OFFSET_REFUSALS, REFUSALS
from kwire.testing.simulation.surroundings import Fault, Injected, Surroundings, nothing
from kwire.testing.simulation.weather import Weather

if TYPE_CHECKING:
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.control import Rule

# Answers that are longer have records at their end: the bit is to flip in those, which have a checksum.
BYTES_WITH_RECORDS = 300
MOST_MEMBERS = 8

# --- brokers -------------------------------------------------------------------------------------------------


def broker_kill(world: Surroundings) -> Injected:
    """A broker's process dies, and is started again."""
    node_id = world.rng.choice(list(world.cluster.brokers))
    world.cluster.kill_broker(node_id)
    return Injected(f"broker {node_id}", lambda: world.cluster.start_broker(node_id))


def broker_pause(world: Surroundings) -> Injected:
    """A broker's process is stopped: connections stay, and nobody answers."""
    node_id = world.rng.choice(list(world.cluster.brokers))
    world.cluster.pause_broker(node_id)
    return Injected(f"broker {node_id}", lambda: world.cluster.resume_broker(node_id))


def rolling_bounce(world: Surroundings) -> Injected:
    """Each broker in turn is stopped for a second and started again."""

    scope = trio.CancelScope()

    async def bounce() -> None:
        with scope:
            for node_id in list(world.cluster.brokers):
                world.cluster.kill_broker(node_id)
                try:
                    await trio.sleep(1.0)
                finally:
                    world.cluster.start_broker(node_id)
                await trio.sleep(1.0)

    world.start_soon(bounce)
    return Injected("all brokers", scope.cancel)


def leader_moves(world: Surroundings) -> Injected:
    """Leaders move, again and again."""

    def move() -> None:
        partition = _partition(world)
        found = world.cluster.partition(*partition)
        assert found is not None
        others = [node for node in found.isr if node != found.leader and world.cluster.brokers[node].is_up]
        if others:
            world.cluster.move_leader(*partition, world.rng.choice(others))

    return Injected("every 0.2 to 2 s", _again_and_again(world, move))


def coordinator_moves(world: Surroundings) -> Injected:
    """The group gets another coordinator, again and again."""
    return Injected("every 0.2 to 2 s", _again_and_again(world, lambda: world.cluster.move_coordinator(world.group)))


def unclean_election(world: Surroundings) -> Injected:
    """A replica that lacks the last records takes over."""
    partition = _partition(world)
    found = world.cluster.partition(*partition)
    if found is None or len(found.replicas) < 2 or found.leader < 0:
        return Injected("nobody to take over", nothing)
    lose = world.rng.randint(1, 20)
    world.cluster.elect_uncleanly(*partition, lose)
    world.write(Truncated(at_ms=world.now_ms(), partition=partition, to=found.log.log_end_offset))
    return Injected(f"{partition} ends at {found.log.log_end_offset}", nothing)


def records_deleted(world: Surroundings) -> Injected:
    """The first half of what is in a partition is deleted."""
    partition = _partition(world)
    found = world.cluster.partition(*partition)
    assert found is not None
    before = (found.log.log_start_offset + found.log.high_watermark) // 2
    world.cluster.delete_records(*partition, before)
    world.write(Removed(at_ms=world.now_ms(), partition=partition, before=before))
    return Injected(f"{partition} begins at {before}", nothing)


def topic_grows(world: Surroundings) -> Injected:
    """A topic gets a partition more."""
    name = world.rng.choice(list(world.cluster.topics))
    count = len(world.cluster.topics[name].partitions) + 1
    world.cluster.grow_topic(name, count)
    return Injected(f"{name} has {count} partitions", nothing)


# --- the network ---------------------------------------------------------------------------------------------


def partition_from_one_broker(world: Surroundings) -> Injected:
    """Nothing passes between the clients and one broker; everything arrives when it is over."""
    return _bad_weather(world, Weather(holds=True), one_broker=True)


def partition_of_one_member(world: Surroundings) -> Injected:
    """Nothing passes between one client and any broker; everything arrives when it is over."""
    return _bad_weather(world, Weather(holds=True), one_client=True)


def half_open(world: Surroundings) -> Injected:
    """One client's bytes to and from a broker vanish, and nobody is told."""
    return _bad_weather(world, Weather(swallows=True), one_client=True, one_broker=True)


def refused(world: Surroundings) -> Injected:
    """All connections of a client are cut, and new ones refused."""
    injected = _bad_weather(world, Weather(refuses=True), one_client=True)
    client = injected.detail.split()[0]
    world.network.cut(lambda name, _host: name == client)
    return injected


def slow_network(world: Surroundings) -> Injected:
    """Each chunk takes up to a second longer."""
    return _bad_weather(world, Weather(extra_latency_ms=world.rng.choice((50.0, 300.0, 1_000.0))))


def sliced_bytes(world: Surroundings) -> Injected:
    """At most seven bytes arrive at once."""
    return _bad_weather(world, Weather(slice_bytes=world.rng.randint(1, 7)))


def short_lived_connections(world: Surroundings) -> Injected:
    """Connections are cut, again and again."""

    def cut() -> None:
        member = world.rng.choice(world.members() or [None])
        world.network.cut(lambda client, _host: member is None or client == member.name)

    return Injected("every 0.2 to 2 s", _again_and_again(world, cut))


# --- answers -------------------------------------------------------------------------------------------------


def damaged_batches(world: Surroundings) -> Injected:
    """A bit flips in the records of fetches: their checksum says so."""

    def flip(payload: bytes) -> bytes:
        if len(payload) < BYTES_WITH_RECORDS:
            return payload
        index = len(payload) - world.rng.randint(12, 40)
        return payload[:index] + bytes([payload[index] ^ (1 << world.rng.randrange(8))]) + payload[index + 1 :]

    rule = world.cluster.control.on(FetchRequest, where=lambda _request, _call: world.rng.random() < 0.3).corrupt(flip)
    return Injected("fetches", rule.remove)


def lost_answers(world: Surroundings) -> Injected:
    """Requests of a kind are done, and their answers lost."""
    kind = _kind(world)
    rule = world.cluster.control.on(kind, times=world.rng.randint(1, 5)).drop(handled=True)
    return Injected(kind.__name__, rule.remove)


def late_answers(world: Surroundings) -> Injected:
    """Requests of a kind are answered late."""
    kind = _kind(world)
    rule = world.cluster.control.on(kind).delay(world.rng.choice((200.0, 2_000.0, 9_000.0)), handled=True)
    return Injected(kind.__name__, rule.remove)


def cut_answers(world: Surroundings) -> Injected:
    """Requests of a kind end their connection, done or not."""
    kind, handled = _kind(world), world.rng.random() < 0.5
    rule: Rule = world.cluster.control.on(kind, times=world.rng.randint(1, 10)).cut(handled=handled)
    return Injected(f"{kind.__name__}, {'done' if handled else 'not done'}", rule.remove)


def refused_requests(world: Surroundings) -> Injected:
    """Some requests of a kind are answered with an error that has nothing to do with them."""
    kind, answer, codes = world.rng.choice(REFUSALS)
    code = world.rng.choice(codes)
    rule = world.cluster.control.on(kind, where=lambda _request, _call: world.rng.random() < 0.5).answer(answer(code))
    return Injected(f"{kind.__name__}: {code.name}", rule.remove)


def refused_offsets(world: Surroundings) -> Injected:
    """Many commits and look-ups of offsets are answered with an error that has nothing to do with them, while one
    member more comes, so that there is something to look up."""
    drawn = [(kind, answer(world.rng.choice(codes))) for kind, answer, codes in OFFSET_REFUSALS]

    def some(_request: Request[Message], _call: Call) -> bool:
        return world.rng.random() < 0.6

    rules = [world.cluster.control.on(kind, where=some).answer(answer) for kind, answer in drawn]

    def heal() -> None:
        for rule in rules:
            rule.remove()

    if len(world.members()) < MOST_MEMBERS:
        world.start_member()
    return Injected("commits and look-ups", heal)


def throttled(world: Surroundings) -> Injected:
    """Requests of a kind are throttled."""
    kind = _kind(world)
    world.cluster.throttle(kind, world.rng.choice((100, 1_000, 5_000)))
    return Injected(kind.__name__, lambda: world.cluster.throttle(kind, 0))


# --- members -------------------------------------------------------------------------------------------------


def member_kill(world: Surroundings) -> Injected:
    """A member's process is killed; another one takes its place when it is over."""
    members = world.members()
    if not members:
        return Injected("nobody", nothing)
    member = world.rng.choice(members)
    world.kill_member(member)
    return Injected(member.name, lambda: _start(world))


def member_freeze(world: Surroundings) -> Injected:
    """A member's process is stopped, and goes on when it is over."""
    members = [member for member in world.members() if not member.process.is_frozen]
    if not members:
        return Injected("nobody", nothing)
    member = world.rng.choice(members)
    world.freeze_member(member)
    return Injected(member.name, lambda: world.thaw_member(member))


def storm(world: Surroundings) -> Injected:
    """Members come, leave and are killed, again and again."""

    def change() -> None:
        members = world.members()
        choice = world.rng.random()
        if choice < 0.5 or len(members) < 2:
            if len(members) < MOST_MEMBERS:
                world.start_member()
        elif choice < 0.8:
            world.rng.choice(members).leave()
        else:
            world.kill_member(world.rng.choice(members))

    return Injected("every 0.2 to 2 s", _again_and_again(world, change))


def wall_clock_steps(world: Surroundings) -> Injected:
    """The clients' wall clocks jump by an hour."""
    world.time.wall_clock_step_ms = world.rng.choice((-3_600_000, 3_600_000))

    def heal() -> None:
        world.time.wall_clock_step_ms = 0

    return Injected(f"{world.time.wall_clock_step_ms} ms", heal)


FAULTS: Mapping[str, Fault] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        broker_kill,
        broker_pause,
        rolling_bounce,
        leader_moves,
        coordinator_moves,
        unclean_election,
        records_deleted,
        topic_grows,
        partition_from_one_broker,
        partition_of_one_member,
        half_open,
        refused,
        slow_network,
        sliced_bytes,
        short_lived_connections,
        damaged_batches,
        lost_answers,
        late_answers,
        cut_answers,
        refused_requests,
        refused_offsets,
        throttled,
        member_kill,
        member_freeze,
        storm,
        wall_clock_steps,
    )
}

# --- what they share -----------------------------------------------------------------------------------------


def _partition(world: Surroundings) -> TopicPartition:
    name = world.rng.choice(list(world.cluster.topics))
    return TopicPartition(name, world.rng.randrange(len(world.cluster.topics[name].partitions)))


def _kind(world: Surroundings) -> type[Request[Message]]:
    return world.rng.choice(
        (FetchRequest, OffsetCommitRequest, OffsetFetchRequest, HeartbeatRequest, ConsumerGroupHeartbeatRequest)
    )


def _start(world: Surroundings) -> None:
    world.start_member()


def _bad_weather(
    world: Surroundings, weather: Weather, *, one_client: bool = False, one_broker: bool = False
) -> Injected:
    members = world.members()
    client = world.rng.choice(members).name if one_client and members else None
    broker = world.cluster.brokers[world.rng.choice(list(world.cluster.brokers))].host if one_broker else None

    def between(a_client: str, a_host: str) -> bool:
        return client in (None, a_client) and broker in (None, a_host)

    clear_up = world.network.trouble(between, weather)
    return Injected(f"{client or 'all clients'} and {broker or 'all brokers'}", clear_up)


def _again_and_again(world: Surroundings, action: Callable[[], None]) -> Callable[[], None]:
    """Do it every now and then, until the function that is answered is called."""
    scope = trio.CancelScope()

    async def repeat() -> None:
        with scope:
            while True:
                action()
                await trio.sleep(world.rng.uniform(0.2, 2.0))

    world.start_soon(repeat)
    return scope.cancel
