"""Fixtures of the tests against Kafka: one broker for the whole run, topics with names of their own, a producer.

Each test runs twice: against a real Kafka, and against the one that `kwire.testing` has in this process. Whatever only
one of them can do is marked with `only` and the reason; `--kafka fake` or `--kafka real` runs one half. `--kafka kfake`
has kfake in the place of the real one, for those tests that need no other than the shared one.

The producer is librdkafka's: what kwire reads here was written by somebody else. A Kafka that cannot start fails the
tests; none is skipped. With KWIRE_BOOTSTRAP_SERVERS set (`eval "$(scripts/kafka env)"`), the tests use that one.
"""

from __future__ import annotations

import os
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from kwire.testing.kafka import KafkaCluster, Security
from kwire.testing.kfake import KfakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.integration.kafkas import (
        OWN_KAFKAS,
        QUICK_GROUPS,
        SECURED_USERS,
        GivenKafka,
        SharedKafka,
        Side,
        StartKafka,
    )
else:
    from kafkas import OWN_KAFKAS, QUICK_GROUPS, SECURED_USERS, GivenKafka, Side

HERE = Path(__file__).parent
TIMEOUT_S = 30.0


class MakeTopic(Protocol):
    """Makes a topic and answers its name, once every partition has a leader."""

    def __call__(
        self, partitions: int = 1, *, replication_factor: int = 1, config: Mapping[str, str] | None = None
    ) -> str: ...


class GrowTopic(Protocol):
    """Gives a topic more partitions, and returns once every one of them has a leader.

    A broker hears of what the controller has done a little later than the client that asked for it. Until then a
    producer of librdkafka refuses records for a new partition.
    """

    def __call__(self, name: str, partitions: int) -> None: ...


class Produce(Protocol):
    """Writes records and waits for them; answers (partition, offset) of each, in order.

    The sequences run along `values`; a missing one means none. `config` holds further settings of the producer, in
    Kafka's dotted names.
    """

    def __call__(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
        timestamps_ms: Sequence[int] | None = None,
        partition: int | None = None,
        compression: str = "none",
        config: Mapping[str, str | int] | None = None,
    ) -> list[tuple[int, int]]: ...


# --- which Kafka --------------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Once for each Kafka, or for the only one that will do."""
    if "side" in metafunc.fixturenames:
        only = only_side(metafunc.definition)
        sides = tuple(Side) if only is None else (only,)
        metafunc.parametrize("side", sides, ids=[side.value for side in sides], indirect=True, scope="session")


def only_side(item: pytest.Item) -> Side | None:
    """What its mark says: `only(side, reason=...)`."""
    mark = item.get_closest_marker("only")
    if mark is None:
        return None
    assert mark.kwargs["reason"], f"{item.nodeid}: why?"
    return Side(*mark.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what lies in this folder, and leaves out what needs a Kafka that is not wanted, wherever it lies."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.integration)
    kafka = config.getoption("--kafka")
    wanted = {"real": Side.KAFKA, "kfake": Side.KAFKA, "fake": Side.FAKE, "both": None}[kafka]
    others = [item for item in items if wanted is not None and side_of(item) not in {None, wanted}]
    if kafka == "kfake":
        others += [item for item in items if side_of(item) is wanted and not wants_just_the_shared_one(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def side_of(item: pytest.Item) -> Side | None:
    """Which Kafka it needs. None: it needs none."""
    if HERE not in item.path.parents:
        return Side.KAFKA if item.get_closest_marker("integration") else None
    chosen = (
        item.callspec.params.get("side") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    )
    return chosen if isinstance(chosen, Side) else only_side(item)


def wants_just_the_shared_one(item: pytest.Item) -> bool:
    """Whether any Kafka will do that runs already: it is not stopped, and no users or settings are wanted."""
    names = item.fixturenames if isinstance(item, pytest.Function) and HERE in item.path.parents else []
    # Modules with a Kafka of their own: their fixture `kafka` does not ask for the side, or they have `watched`.
    return {"kafka", "side"} <= set(names) and not {"start_kafka", "secured_kafka", "watched"}.intersection(names)


@pytest.fixture(scope="session")
def side(request: pytest.FixtureRequest) -> Side:
    """Which Kafka this is about."""
    assert isinstance(request.param, Side)
    return request.param


@pytest.fixture(scope="session")
def kafka(side: Side, request: pytest.FixtureRequest) -> SharedKafka:
    """One broker for the whole run: a run that goes from the one to the other and back keeps both."""
    shared: SharedKafka = request.getfixturevalue({Side.KAFKA: "real_kafka", Side.FAKE: "fake_kafka"}[side])
    return shared


@pytest.fixture(scope="session")
def real_kafka(pytestconfig: pytest.Config) -> Iterator[SharedKafka]:
    if servers := os.environ.get("KWIRE_BOOTSTRAP_SERVERS"):
        yield GivenKafka(servers)
        return
    if pytestconfig.getoption("--kafka") == "kfake":
        with KfakeCluster(settings=QUICK_GROUPS) as kfake:
            yield GivenKafka(kfake.bootstrap_servers)
        return
    with OWN_KAFKAS[Side.KAFKA]() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def fake_kafka() -> Iterator[SharedKafka]:
    with OWN_KAFKAS[Side.FAKE]() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured_kafka() -> Iterator[KafkaCluster]:
    """A real broker for the whole run, with a listener for each security protocol and the users of `SECURED_USERS`.

    `secured_kafka.bootstrap("SASL_SSL")` says where; `bootstrap_servers` is its plain listener, for producers. Tests
    that take it are marked `only(Side.KAFKA, reason=...)`.
    """
    settings = {name: str(value) for name, value in QUICK_GROUPS.items()}
    with KafkaCluster(settings=settings, security=Security(users=SECURED_USERS)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def start_kafka(side: Side) -> StartKafka:
    """For tests that stop brokers, or want settings of their own."""
    return OWN_KAFKAS[side]


# --- topics and records -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def admin(kafka: SharedKafka) -> AdminClient:
    """librdkafka's admin client."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture(scope="session")
def topic(admin: AdminClient) -> Iterator[MakeTopic]:
    """A factory of topics; see `MakeTopic`. They are removed when the tests are over."""
    made: list[str] = []
    prefix = f"kwire-{uuid4().hex[:8]}"  # a Kafka that was there before may hold topics of earlier runs
    numbers = count()

    def make(partitions: int = 1, *, replication_factor: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"{prefix}-{next(numbers)}"
        wanted = NewTopic(name, partitions, replication_factor, config=dict(config or {}))
        admin.create_topics([wanted])[name].result(TIMEOUT_S)
        made.append(name)
        wait_for_leaders(admin, name, partitions)
        return name

    yield make
    for removal in admin.delete_topics(made).values() if made else ():
        removal.result(TIMEOUT_S)


@pytest.fixture(scope="session")
def grow(admin: AdminClient) -> GrowTopic:
    """See `GrowTopic`."""

    def grow(name: str, partitions: int) -> None:
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(TIMEOUT_S)
        wait_for_leaders(admin, name, partitions)

    return grow


def wait_for_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
    """A topic is made before its partitions have leaders; a client asking meanwhile would see errors of that moment."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        known = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        if len(known) == partitions and all(partition.leader >= 0 for partition in known.values()):
            return
        assert time.monotonic() < deadline_s, f"{topic}: no leaders after {TIMEOUT_S} s: {known}"
        time.sleep(0.01)


def note_place(
    places: list[tuple[int, int]], index: int, error: KafkaError | None, message: Message[bytes, bytes]
) -> None:
    """Runs within the producer's `poll` or `flush`, which raise what is raised here."""
    partition, offset = message.partition(), message.offset()
    if error is not None or partition is None or offset is None:
        raise KafkaException(error)
    places[index] = (partition, offset)


@pytest.fixture(scope="session")
def produce(kafka: SharedKafka) -> Produce:
    """Writes records with librdkafka; see `Produce`."""

    def write(
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
        timestamps_ms: Sequence[int] | None = None,
        partition: int | None = None,
        compression: str = "none",
        config: Mapping[str, str | int] | None = None,
    ) -> list[tuple[int, int]]:
        servers = {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": compression, "linger.ms": 5}
        in_order = {"max.in.flight": 1}  # also where a new topic's leader is not known yet, and a request is repeated
        producer = Producer({"log_level": 0, **servers, **in_order, **(config or {})})
        places: list[tuple[int, int]] = [(-1, -1)] * len(values)
        no_partition = -1  # librdkafka's: the partitioner chooses
        no_timestamp = 0  # librdkafka's: now

        for i, value in enumerate(values):
            producer.produce(
                topic,
                value,
                keys[i] if keys is not None else None,
                partition=no_partition if partition is None else partition,
                timestamp=no_timestamp if timestamps_ms is None else timestamps_ms[i],
                headers=list(headers[i]) if headers is not None else None,
                on_delivery=partial(note_place, places, i),
            )
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0, f"{topic}: records not acknowledged within {TIMEOUT_S} s"
        return places

    return write
