"""`Consumer.describe()`: set-ups in which no records come. Each is named, in words and as data."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from confluent_kafka import Producer

from kwire import Consumer, RebalanceConsumer, RebalanceListener, TopicPartition
from kwire.clock import Deadline, monotonic_ms
from kwire.description.consumer_description import ConsumerDescription
from kwire.description.values import Cause, CauseKind
from kwire.errors import (
    FencedInstanceIdError,
    GroupAuthorizationError,
    InternalError,
    KafkaError,
    NoOffsetForPartitionError,
    SaslAuthenticationError,
)
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.testing import Cluster
from tools.describe_docs import PAGE, page

TP = TopicPartition("orders", 0)
PATIENCE_MS = 30_000.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        running.create_topic("orders", replication=1)  # without its broker it has no leader
        yield running


@pytest.fixture
def open_consumer(cluster: Cluster) -> Iterator[Callable[..., Consumer[bytes, bytes]]]:
    opened: list[Consumer[bytes, bytes]] = []

    def open_one(*topics: str, **settings: object) -> Consumer[bytes, bytes]:
        config: dict[str, object] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "billing",
            "auto_offset_reset": "earliest",
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 20,
            "fetch_max_wait_ms": 20,
            "retry_backoff_ms": 10,
            "retry_backoff_max_ms": 20,
        }
        opened.append(Consumer(*topics, config=config | settings))
        return opened[-1]

    yield open_one
    for consumer in opened:
        consumer.close(0.5)


def poll_until(consumer: Consumer[bytes, bytes], is_so: Callable[[ConsumerDescription], bool]) -> ConsumerDescription:
    deadline = Deadline.after(PATIENCE_MS)
    while not is_so(found := consumer.describe()):
        assert not deadline.expired, f"it never came to this:\n{found}"
        consumer.poll(0.01)
    return found


def poll_and_ignore(
    consumer: Consumer[bytes, bytes], is_so: Callable[[ConsumerDescription], bool]
) -> ConsumerDescription:
    """What polls raise is not what this is about."""
    while True:
        with suppress(GroupAuthorizationError):
            return poll_until(consumer, is_so)


def poll_and_ignore_until_cause(consumer: Consumer[bytes, bytes], kind: CauseKind) -> tuple[ConsumerDescription, Cause]:
    found = poll_and_ignore(consumer, lambda description: kind in kinds(description))
    return found, next(each for each in found.all_causes() if each.kind is kind)


def poll_until_cause(consumer: Consumer[bytes, bytes], kind: CauseKind) -> tuple[ConsumerDescription, Cause]:
    """Poll until this is a cause, which then is in the page as well."""
    found = poll_until(consumer, lambda description: kind in kinds(description))
    cause = next(each for each in found.all_causes() if each.kind is kind)
    assert cause.text in str(found)
    return found, cause


def poll_until_raised(consumer: Consumer[bytes, bytes], error: type[KafkaError]) -> None:
    deadline = Deadline.after(PATIENCE_MS)
    while not deadline.expired:
        try:
            consumer.poll(0.01)
        except error:
            return
    pytest.fail(f"no {error.__name__} was raised")


def kinds(description: ConsumerDescription) -> set[CauseKind]:
    return {cause.kind for cause in description.all_causes()}


def reads(description: ConsumerDescription) -> bool:
    return any(each.is_fetch_in_flight for each in description.partitions)


def test_a_consumer_that_reads_says_where_it_is(
    cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]]
) -> None:
    cluster.produce("orders", b"1", b"2")
    consumer = open_consumer("orders")
    found = poll_until(consumer, lambda it: kinds(it) == {CauseKind.AT_END} and reads(it))
    (partition,) = found.partitions
    assert (partition.position, partition.lag, partition.state) == (2, 0, "FETCHING")
    assert partition.leader == str(consumer.partitions_for("orders")[0].leader)
    assert found.group is not None
    assert found.group.is_coordinator_connected
    assert (found.group.state, found.group.generation) == ("STABLE", consumer.group_metadata().generation_id)
    consumer.commit_sync()
    assert consumer.describe().partitions[0].committed == 2


def test_as_data_it_is_what_json_has(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    consumer = open_consumer("orders")
    found, _ = poll_until_cause(consumer, CauseKind.AT_END)
    data = json.loads(json.dumps(found.as_dict()))
    assert data["group"]["group_id"] == "billing"
    assert data["partitions"][0]["causes"][-1]["kind"] == "at_end"


def test_nothing_subscribed(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    assert kinds(open_consumer().describe()) == {CauseKind.NOT_SUBSCRIBED}


def test_not_polled(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    found = open_consumer("orders").describe()
    assert kinds(found) == {CauseKind.NOT_POLLED}
    assert found.last_poll_s is None


def test_paused_by_the_user(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    consumer = open_consumer("orders")
    poll_until_cause(consumer, CauseKind.AT_END)
    consumer.pause([TP])
    found, _ = poll_until_cause(consumer, CauseKind.USER_PAUSED)
    assert "paused by the user" in str(found)


def test_an_open_transaction(cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    """There is something new, and nobody may see it yet."""
    cluster.produce("orders", b"0")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "billing", "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"1")
    producer.flush()
    consumer = open_consumer("orders", isolation_level="read_committed")
    found, cause = poll_until_cause(consumer, CauseKind.OPEN_TRANSACTION)
    assert cause.text == "the records from offset 1 on wait for a transaction to end"
    (partition,) = found.partitions
    assert (partition.lag, partition.last_stable_offset, partition.high_watermark) == (0, 1, 2)
    producer.commit_transaction()
    poll_until_cause(consumer, CauseKind.AT_END)


def test_no_leader(cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    consumer = open_consumer("orders")
    poll_until_cause(consumer, CauseKind.AT_END)
    cluster.kill_broker(cluster.leader("orders"))
    found, _ = poll_until_cause(consumer, CauseKind.NO_LEADER)
    assert CauseKind.AT_END not in kinds(found), "nobody can tell whether there is anything new"
    assert found.partitions[0].leader is None
    assert not found.partitions[0].is_fetch_in_flight


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_permission_of_the_group_is_taken_away(
    cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]], protocol: str
) -> None:
    """With the classic protocol nothing was said of it: the member was STABLE, and at the end of its partitions."""
    cluster.configure_group("billing", {"consumer.heartbeat.interval.ms": "50"})
    own = {"heartbeat_interval_ms": 50} if protocol == "classic" else {}
    consumer = open_consumer("orders", group_protocol=protocol, **own)
    poll_until_cause(consumer, CauseKind.AT_END)
    cluster.deny(group="billing")
    _, cause = poll_and_ignore_until_cause(consumer, CauseKind.AUTHORIZATION)
    assert "billing" in str(cause.error)
    told = []
    for _ in range(10):  # each tries again, and is refused
        with suppress(GroupAuthorizationError):
            consumer.poll(0.02)
        told.append((bool(consumer.healthy()), CauseKind.AUTHORIZATION in kinds(consumer.describe())))
    assert told == [(False, True)] * 10
    cluster.allow(group="billing")
    poll_and_ignore(consumer, lambda it: CauseKind.AUTHORIZATION not in kinds(it))
    assert consumer.healthy()


def test_a_group_that_may_not_be_used_at_all(
    cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]]
) -> None:
    cluster.deny(group="billing")
    consumer = open_consumer("orders")
    _, cause = poll_and_ignore_until_cause(consumer, CauseKind.AUTHORIZATION)
    assert "coordinator of group billing" in cause.text
    cluster.allow(group="billing")
    poll_and_ignore(consumer, lambda it: kinds(it) == {CauseKind.AT_END})


def test_a_frozen_broker(cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    """Whether there is anything new was known before it froze, and is not known now."""
    consumer = open_consumer("orders")
    poll_until_cause(consumer, CauseKind.AT_END)
    cluster.control.on(FetchRequest).drop()
    found, cause = poll_until_cause(consumer, CauseKind.FETCH_OVERDUE)
    assert CauseKind.AT_END not in kinds(found)
    assert cause.for_s is not None
    assert found.partitions[0].is_fetch_in_flight


def test_no_coordinator(cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    cluster.control.on(FindCoordinatorRequest).drop()
    found, cause = poll_until_cause(open_consumer("orders"), CauseKind.NO_COORDINATOR)
    assert cause.for_s is not None
    assert found.group is not None
    assert found.group.coordinator is None


def test_a_static_member_that_another_one_has_replaced(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    first, second = (open_consumer(group_instance_id="desk-1", heartbeat_interval_ms=20) for _ in range(2))
    first.subscribe(["orders"])
    poll_until_cause(first, CauseKind.AT_END)
    second.subscribe(["orders"])
    poll_until_cause(second, CauseKind.AT_END)
    poll_until_raised(first, FencedInstanceIdError)
    found = first.describe()
    assert CauseKind.FENCED in kinds(found)
    assert "the group does not take this member" in str(found)


@pytest.mark.parametrize(
    ("protocol", "heartbeat", "answer"),
    [
        ("classic", HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)),
        (
            "consumer",
            ConsumerGroupHeartbeatRequest,
            ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH),
        ),
    ],
)
def test_a_member_whose_epoch_is_stale(
    cluster: Cluster,
    open_consumer: Callable[..., Consumer[bytes, bytes]],
    protocol: str,
    heartbeat: type[HeartbeatRequest] | type[ConsumerGroupHeartbeatRequest],
    answer: HeartbeatResponse | ConsumerGroupHeartbeatResponse,
) -> None:
    """It does not poll, so it is not told what it has lost, and does not join again."""
    cluster.configure_group("billing", {"consumer.heartbeat.interval.ms": "20"})
    quick = {"heartbeat_interval_ms": 20} if protocol == "classic" else {}
    consumer = open_consumer("orders", group_protocol=protocol, **quick)
    poll_until_cause(consumer, CauseKind.AT_END)
    rule = cluster.control.on(heartbeat).answer(answer)
    deadline = Deadline.after(PATIENCE_MS)
    while CauseKind.MEMBERSHIP_LOST not in kinds(found := consumer.describe()):
        assert not deadline.expired, str(found)
    rule.remove()
    assert "the group has gone on without this member" in str(found)
    assert found.group is not None
    assert found.group.generation is None
    poll_until_cause(consumer, CauseKind.AT_END)


def test_a_topic_that_does_not_exist(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    consumer = open_consumer("ordres", allow_auto_create_topics=False)
    found, cause = poll_until_cause(consumer, CauseKind.UNKNOWN_TOPIC)
    assert "ordres" in cause.text
    assert cause.for_s is not None
    assert "topic 'ordres' does not exist" in str(found)


def test_no_committed_offset_and_no_reset_policy(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    consumer = open_consumer(auto_offset_reset="none")
    consumer.assign([TP])
    poll_until_raised(consumer, NoOffsetForPartitionError)
    found = consumer.describe()
    assert CauseKind.NO_OFFSET in kinds(found)
    assert "no position to go on at" in str(found)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_own_listener_has_not_ended(open_consumer: Callable[..., Consumer[bytes, bytes]], protocol: str) -> None:
    """Asked by another thread, while the one that polls is in the callback."""
    runs, may_end = threading.Event(), threading.Event()

    class Slow(RebalanceListener):
        def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
            runs.set()
            may_end.wait(PATIENCE_MS / 1000.0)

    consumer = open_consumer(group_protocol=protocol)
    consumer.subscribe(["orders"], listener=Slow())
    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(poll_until, consumer, lambda _: runs.is_set())
            assert runs.wait(PATIENCE_MS / 1000.0)
            found = consumer.describe()
        finally:
            may_end.set()
    assert {CauseKind.CALLBACK_RUNS, CauseKind.CALLBACK_PENDING} <= kinds(found)
    assert "on_partitions_assigned of the rebalance listener runs" in str(found)


def test_another_member_has_not_given_back_what_it_has(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    """The first one does not poll, so it does not join again, and the second one waits for it."""
    first, second = open_consumer("orders"), open_consumer("orders")
    poll_until_cause(first, CauseKind.AT_END)
    found, cause = poll_until_cause(second, CauseKind.JOINING)
    assert "when all other members have joined" in cause.text
    assert cause.for_s is not None or found.group is not None


def test_a_coordinator_that_cannot_be_reached_is_nobody_elses_fault() -> None:
    """The other members were said to be waited for, before the first JoinGroup was sent."""
    with Cluster(topics={"orders": 1}, advertised=[("no.such.host.invalid", 9092)]) as cluster:
        servers = ",".join(f"{host}:{port}" for host, port in cluster.client_addresses)
        consumer: Consumer[bytes, bytes] = Consumer("orders", bootstrap_servers=servers, group_id="billing")
        texts: set[str] = set()

        def has_tried(description: ConsumerDescription) -> bool:
            texts.update(cause.text for cause in description.all_causes() if cause.kind is CauseKind.JOINING)
            return any("connection to the coordinator, no.such.host.invalid:9092" in text for text in texts)

        poll_until(consumer, has_tried)
        assert not [text for text in texts if "other members" in text]
        consumer.close(0.0)


def test_a_broker_that_is_down(cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    consumer = open_consumer("orders")
    poll_until_cause(consumer, CauseKind.AT_END)
    dead = cluster.leader("orders")
    host, port = cluster.client_addresses[dead]
    cluster.kill_broker(dead)
    _, cause = poll_until_cause(consumer, CauseKind.BROKER_DOWN)
    assert cause.address == f"{host}:{port}"
    assert cause.error
    assert cause.for_s is not None
    cluster.start_broker(dead)
    poll_until(consumer, lambda it: CauseKind.BROKER_DOWN not in kinds(it))


def test_a_broker_that_holds_the_client_back_by_a_quota(
    cluster: Cluster, open_consumer: Callable[..., Consumer[bytes, bytes]]
) -> None:
    """That there is nothing new was said of partitions that nobody could ask about."""
    consumer = open_consumer("orders")
    poll_until_cause(consumer, CauseKind.AT_END)
    cluster.throttle(FetchRequest, 30_000)
    found, cause = poll_until_cause(consumer, CauseKind.THROTTLED)
    assert "holds this client back, by a quota" in cause.text
    assert cause.next_try_in_s is not None
    assert cause.next_try_in_s > 20
    assert CauseKind.AT_END not in kinds(found)
    late = poll_until(
        consumer,
        lambda it: any(c.kind is CauseKind.THROTTLED and (c.next_try_in_s or 30) < 27 for c in it.all_causes()),
    )
    assert CauseKind.FETCH_OVERDUE not in kinds(late)  # it is kwire that waits
    cluster.throttle(FetchRequest, 0)
    consumer.close(0.0)


def test_a_login_that_is_refused() -> None:
    with Cluster(security_protocol="SASL_PLAINTEXT", users={"alice": "secret"}) as cluster:
        config = {**cluster.client_config("alice"), "sasl.password": "hunter2", "group.id": "billing"}
        consumer: Consumer[bytes, bytes]
        with Consumer("orders", config=config) as consumer:
            poll_until_raised(consumer, SaslAuthenticationError)
            found = consumer.describe()
    assert CauseKind.AUTHENTICATION in kinds(found)
    assert "do not accept each other" in str(found)
    assert "hunter2" not in str(found)


def test_a_network_thread_that_does_not_answer_is_said(
    open_consumer: Callable[..., Consumer[bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = open_consumer("orders")
    poll_until_cause(consumer, CauseKind.AT_END)
    with monkeypatch.context() as patched:
        patched.setattr("kwire.consumer.describing.ANSWER_MS", 1.0)
        patched.setattr(consumer._session.link.mailbox, "drain", list)
        found = consumer.describe()
    assert CauseKind.NETWORK_THREAD_BUSY in kinds(found)
    assert found.subscription is not None
    assert found.subscription.topics == ("orders",)


def test_a_network_thread_that_has_died_is_said(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    consumer = open_consumer("orders")
    poll_until_cause(consumer, CauseKind.AT_END)
    consumer._session.link.mailbox.fail(InternalError("it has died"))
    began_ms = monotonic_ms()
    found = consumer.describe()
    assert monotonic_ms() - began_ms < 500.0
    assert CauseKind.NETWORK_THREAD_DEAD in kinds(found)
    assert [each.topic for each in found.partitions] == ["orders"]
    assert "it has died" in str(found)


def test_the_examples_of_the_page_are_true() -> None:
    """`python -m tools.describe_docs` writes them."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_each_cause_is_explained_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    in_healthy_alone = {CauseKind.POLL_OVERDUE, CauseKind.HEARTBEAT_OVERDUE, CauseKind.LAG, CauseKind.ENDED}
    assert [kind for kind in CauseKind if f"`{kind.value}`" not in text and kind not in in_healthy_alone] == []


def test_a_closed_consumer_says_so(open_consumer: Callable[..., Consumer[bytes, bytes]]) -> None:
    consumer = open_consumer("orders")
    consumer.close()
    assert kinds(consumer.describe()) == {CauseKind.CLOSED}


def test_a_group_has_a_name_as_long_as_the_protocol_allows(cluster: Cluster) -> None:
    """The client id is made of it, and had no room any more: no broker could be reached."""
    cluster.produce("orders", b"0")
    servers = cluster.bootstrap_servers
    with Consumer("orders", bootstrap_servers=servers, group_id="g" * 32_767, auto_offset_reset="earliest") as consumer:
        assert len(consumer.poll(10.0)) == 1
        assert len(consumer.describe().client_id) < 300
