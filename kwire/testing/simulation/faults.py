"""The faults of a world, by name. Each is a function that injects the fault and returns what heals it.

A fault draws what it needs from the world's random generator, describes itself in one line, and may be healed at any
moment. It uses only the `Surroundings` of the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import trio

from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest
from kwire.protocol.schema import Message, Request
from kwire.testing.invariants.ledger import Truncated
from kwire.testing.simulation.damage import damaged
from kwire.testing.simulation.fault_steps import (
    again_and_again,
    bad_weather,
    come,
    delete_records,
    move_leader,
    remove_all,
    some_partition,
)
from kwire.testing.simulation.refusals import (
    COMMITS_REFUSED,
    FETCH_REFUSALS,
    LOOKUPS_REFUSED,
    POSITION_REFUSALS,
    REFUSALS,
)
from kwire.testing.simulation.surroundings import Fault, Injected, Surroundings, nothing
from kwire.testing.simulation.weather import Weather

if TYPE_CHECKING:
    from kwire.protocol.messages.fetch import FetchResponse
    from kwire.testing.cluster.control import Rule

SHARE_DAMAGED = 0.3
KINDS: tuple[type[Request[Message]], ...] = (
    FetchRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    HeartbeatRequest,
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    MetadataRequest,
    FindCoordinatorRequest,
)

# --- brokers -------------------------------------------------------------------------------------------------


def broker_kill(world: Surroundings) -> Injected:
    """A broker's process dies, and is started again."""
    node_id = world.rng.choice(list(world.cluster.brokers))
    world.cluster.kill_broker(node_id)
    return Injected(f"broker {node_id}", lambda: world.cluster.start_broker(node_id))


def broker_pause(world: Surroundings) -> Injected:
    """A broker's process is stopped: connections stay open, and it answers nothing."""
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
    return Injected("every 0.2 to 2 s", again_and_again(world, lambda: move_leader(world, some_partition(world))))


def coordinator_moves(world: Surroundings) -> Injected:
    """The group gets another coordinator, again and again."""
    return Injected("every 0.2 to 2 s", again_and_again(world, lambda: world.cluster.move_coordinator(world.group)))


def unclean_election(world: Surroundings) -> Injected:
    """Replicas that lack the last records take over, again and again; new records soon stand where those were."""

    def cut() -> None:
        partition = some_partition(world)
        found = world.cluster.partition(*partition)
        if found is not None and found.leader >= 0:
            world.cluster.elect_uncleanly(*partition, world.rng.randint(1, 20))
            world.write(Truncated(at_ms=world.now_ms(), partition=partition, to=found.log.log_end_offset))

    return Injected("every 0.5 to 6 s", again_and_again(world, cut, pause_seconds=(0.5, 6.0)))


def records_deleted(world: Surroundings) -> Injected:
    """Many records of a partition are deleted, or all of them."""
    partition = some_partition(world)
    before = delete_records(world, partition)
    return Injected(f"{partition} begins at {before}", nothing)


def topic_grows(world: Surroundings) -> Injected:
    """A topic gets one more partition."""
    name = world.rng.choice(list(world.cluster.topics))
    return Injected(f"{name} has {world.grow_topic(name)} partitions", nothing)


# --- the network ---------------------------------------------------------------------------------------------


def partition_from_one_broker(world: Surroundings) -> Injected:
    """Nothing passes between the clients and one broker; everything arrives when it is over."""
    return bad_weather(world, Weather(holds=True), one_broker=True)


def partition_of_one_member(world: Surroundings) -> Injected:
    """Nothing passes between one client and any broker; everything arrives when it is over."""
    return bad_weather(world, Weather(holds=True), one_client=True)


def half_open(world: Surroundings) -> Injected:
    """One client's bytes to and from a broker are lost, and no connection ends."""
    return bad_weather(world, Weather(swallows=True), one_client=True, one_broker=True)


def refused(world: Surroundings) -> Injected:
    """All connections of a client are cut, and new ones refused."""
    injected = bad_weather(world, Weather(refuses=True), one_client=True)
    client = injected.detail.split()[0]
    world.network.cut(lambda name, _host: name == client)
    return injected


def slow_network(world: Surroundings) -> Injected:
    """Each chunk takes up to a second longer."""
    return bad_weather(world, Weather(extra_latency_ms=world.rng.choice((50.0, 300.0, 1_000.0))))


def sliced_bytes(world: Surroundings) -> Injected:
    """At most seven bytes arrive at once."""
    return bad_weather(world, Weather(slice_bytes=world.rng.randint(1, 7)))


def short_lived_connections(world: Surroundings) -> Injected:
    """Connections are cut, again and again."""

    def cut() -> None:
        member = world.rng.choice(world.members() or [None])
        world.network.cut(lambda client, _host: member is None or client == member.name)

    return Injected("every 0.2 to 2 s", again_and_again(world, cut))


# --- answers -------------------------------------------------------------------------------------------------


def damaged_batches(world: Surroundings) -> Injected:
    """Batches are damaged in fetches: a bit flips, and the checksum says so; or the contents cannot be."""

    def damage(answer: Message) -> None:
        for topic in cast("FetchResponse", answer).responses:
            for found in topic.partitions:
                if found.records and world.rng.random() < SHARE_DAMAGED:
                    found.records = damaged(bytes(found.records), world.rng)

    return Injected("fetches", world.cluster.control.on(FetchRequest).edit(damage).remove)


def lost_answers(world: Surroundings) -> Injected:
    """Requests of a kind are carried out, and their answers lost."""
    kind = _kind(world)
    rule = world.cluster.control.on(kind, times=world.rng.randint(1, 5)).drop(handled=True)
    return Injected(kind.__name__, rule.remove)


def late_answers(world: Surroundings) -> Injected:
    """Requests of a kind are answered late."""
    kind = _kind(world)
    rule = world.cluster.control.on(kind).delay(world.rng.choice((200.0, 2_000.0, 9_000.0)), handled=True)
    return Injected(kind.__name__, rule.remove)


def cut_answers(world: Surroundings) -> Injected:
    """Requests of a kind end their connection, carried out or not."""
    kind, handled = _kind(world), world.rng.random() < 0.5
    rule: Rule = world.cluster.control.on(kind, times=world.rng.randint(1, 10)).cut(handled=handled)
    return Injected(f"{kind.__name__}, {'done' if handled else 'not done'}", rule.remove)


def refused_requests(world: Surroundings) -> Injected:
    """Some requests of a few kinds, or parts of them, are answered with errors that have nothing to do with them."""
    refusals = world.rng.sample(REFUSALS, 3)
    rules = [refusal.begin(world.cluster.control, world.rng, share=0.5) for refusal in refusals]
    return Injected(", ".join(refusal.request.__name__ for refusal in refusals), lambda: remove_all(rules))


def refused_fetches(world: Surroundings) -> Injected:
    """Many fetches are answered with errors of one sort: about sessions, about leaders, or about the records."""
    rule = world.rng.choice(FETCH_REFUSALS).begin(world.cluster.control, world.rng, share=0.5)
    return Injected("all brokers", rule.remove)


def refused_offsets(world: Surroundings) -> Injected:
    """Many commits and look-ups of offsets are answered with an error that has nothing to do with them, while one
    member more comes, so that there is something to look up."""
    lookups = LOOKUPS_REFUSED if world.rng.random() < 0.5 else POSITION_REFUSALS[0]
    rules = [each.begin(world.cluster.control, world.rng, share=0.6) for each in (COMMITS_REFUSED, lookups)]
    come(world)
    return Injected("commits and look-ups", lambda: remove_all(rules))


def refused_positions(world: Surroundings) -> Injected:
    """Brokers will not say where to go on, while members have reason to ask: leaders move, records are deleted in front
    of readers, members come and leave."""
    rules = [each.begin(world.cluster.control, world.rng, share=0.7) for each in POSITION_REFUSALS]

    def stir() -> None:
        partition, choice = some_partition(world), world.rng.random()
        if choice < 0.4:
            move_leader(world, partition)
        elif choice < 0.7:
            delete_records(world, partition)
        elif choice < 0.9 or len(world.members()) < 2:
            come(world)
        else:
            world.rng.choice(world.members()).leave()

    stop = again_and_again(world, stir)

    def heal() -> None:
        stop()
        remove_all(rules)

    return Injected("look-ups, listings and epochs", heal)


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
    return Injected(member.name, lambda: come(world))


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
            come(world)
        elif choice < 0.8:
            world.rng.choice(members).leave()
        else:
            world.kill_member(world.rng.choice(members))

    return Injected("every 0.2 to 2 s", again_and_again(world, change))


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
        refused_fetches,
        refused_offsets,
        refused_positions,
        throttled,
        member_kill,
        member_freeze,
        storm,
        wall_clock_steps,
    )
}


def _kind(world: Surroundings) -> type[Request[Message]]:
    return world.rng.choice(KINDS)
