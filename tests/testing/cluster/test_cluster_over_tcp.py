"""Cluster: it listens, comes and goes with its `with`, and its brokers do too."""

from __future__ import annotations

import math
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.conformance.client import BrokerAddress, ClientConnection
from kwire.errors import DisconnectError, IllegalStateError, InvalidArgumentError
from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.schema import Request
from kwire.testing import Cluster, NewRecord
from kwire.testing.cluster.settings import BrokerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.testing.cluster.request_context import RequestContext

TIMEOUT_S = 10.0


def addresses(cluster: Cluster) -> list[BrokerAddress]:
    return [BrokerAddress.parse(text) for text in cluster.bootstrap_servers.split(",")]


def brokers_seen(address: BrokerAddress) -> list[int]:
    with ClientConnection(address, TIMEOUT_S) as connection:
        return [broker.node_id for broker in connection.ask(MetadataRequest(topics=[]), 9).brokers]


def refuses(address: BrokerAddress) -> bool:
    try:
        socket.create_connection(address, TIMEOUT_S).close()
    except ConnectionRefusedError:
        return True
    return False


def running() -> set[threading.Thread]:
    """The threads of clusters; other tests may have one that goes on."""
    return {thread for thread in threading.enumerate() if thread.name == "kwire-testing-cluster"}


def test_every_broker_listens_while_the_cluster_runs() -> None:
    before = running()
    with Cluster(brokers=3) as cluster:
        where = addresses(cluster)
        assert [brokers_seen(address) for address in where] == [[0, 1, 2]] * 3
        assert len(running() - before) == 1
    assert all(refuses(address) for address in where)
    assert running() <= before


def test_a_killed_broker_refuses_connections_and_comes_back_at_its_address() -> None:
    with Cluster(brokers=2) as cluster:
        survivor, victim = addresses(cluster)
        with ClientConnection(victim, TIMEOUT_S) as connection:
            connection.ask(MetadataRequest(topics=[]), 9)
            cluster.kill_broker(1)
            with pytest.raises(DisconnectError):
                connection.ask(MetadataRequest(topics=[]), 9)
        assert brokers_seen(survivor) == [0]
        assert refuses(victim)
        cluster.start_broker(1)
        assert brokers_seen(survivor) == [0, 1]
        assert brokers_seen(victim) == [0, 1]


def test_a_broker_may_tell_clients_of_a_proxy_and_keeps_its_own_port() -> None:
    with Cluster(brokers=2, advertised=[("proxy", 1), ("proxy", 2)]) as cluster:
        assert cluster.bootstrap_servers == "proxy:1,proxy:2"
        cluster.kill_broker(1)
        cluster.start_broker(1)
        for own in cluster.client_addresses:
            with ClientConnection(BrokerAddress(*own), TIMEOUT_S) as connection:
                brokers = connection.ask(MetadataRequest(topics=[]), 9).brokers
            assert [(broker.host, broker.port) for broker in brokers] == [("proxy", 1), ("proxy", 2)]
    with pytest.raises(InvalidArgumentError, match="2 addresses, not 1"):
        Cluster(brokers=2, advertised=[("proxy", 1)])


def test_records_and_topics_are_there_from_the_start() -> None:
    with Cluster(brokers=3, topics={"orders": 2}) as cluster:
        cluster.create_topic("payments", partitions=4)
        assert cluster.produce("orders", b"1", b"2", partition=1) == 0
        assert cluster.produce("orders", b"3", partition=1) == 2
        assert (cluster.end_offset("orders", 0), cluster.end_offset("orders", 1)) == (0, 3)
        with pytest.raises(InvalidArgumentError, match="there is no topic 'nope'"):
            cluster.produce("nope", b"1")


def test_a_port_that_is_taken_is_an_error_of_start_and_nothing_is_left() -> None:
    before = running()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        Cluster(port=taken.getsockname()[1]).start()
    assert running() <= before


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_topics_that_cannot_be_made_are_an_error_of_start_and_no_port_is_left() -> None:
    cluster = Cluster(topics={"bad name": 1})
    with pytest.raises(InvalidArgumentError, match="bad name"):
        cluster.start()
    for host, port in cluster.client_addresses:
        with socket.socket() as other:
            other.bind((host, port))
    cluster.stop()


def test_ports_that_there_are_not_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="2 brokers need ports up to 65536"):
        Cluster(2, port=65_535)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"brokers": "3"}, "brokers is how many, at least 1; not '3'"),
        ({"brokers": 1.5}, "brokers is how many, at least 1; not 1.5"),
        ({"brokers": 0}, "brokers is how many, at least 1; not 0"),
        ({"topics": ["orders"]}, r"topics are names and numbers of partitions, .*; not \['orders'\]"),
        ({"port": -5}, "port is from 1 to 65535, or 0 for any that is free; not -5"),
    ],
)
def test_what_makes_no_cluster_is_refused(arguments: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        Cluster(**arguments)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (NewRecord("value"), "the value of a NewRecord is bytes or None, not str"),  # type: ignore[arg-type]
        (NewRecord(b"value", "key"), "the key of a NewRecord is bytes or None, not str"),  # type: ignore[arg-type]
        (NewRecord(b"value", headers={"a": b"x"}), r"headers are pairs, \(\(.*; not {'a'"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_record_is_refused(record: NewRecord, why: str) -> None:
    with Cluster(topics={"orders": 1}) as cluster, pytest.raises(InvalidArgumentError, match=why):
        cluster.produce("orders", record)


@pytest.mark.parametrize(
    "request_type", ["Fetch", str, MetadataRequest(topics=[]), Request], ids=["name", "type", "request", "any"]
)
def test_a_rule_about_no_type_of_requests_is_refused(request_type: object) -> None:
    """It matched none, and a test passed without its fault."""
    with Cluster() as cluster:
        rules: list[Callable[..., object]] = [cluster.control.on, partial(cluster.throttle, throttle_ms=1)]
        for rule in rules:
            with pytest.raises(InvalidArgumentError, match="name a type of requests, such as FetchRequest; not"):
                rule(request_type)
        with pytest.raises(InvalidArgumentError, match="at least once; not 0"):
            cluster.control.on(MetadataRequest, times=0)
        with pytest.raises(InvalidArgumentError, match="a throttle time is 0 ms or more, not -5"):
            cluster.throttle(MetadataRequest, -5)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (lambda on: on(MetadataRequest).delay(-1), "number of milliseconds, 0 or more; not -1"),
        (lambda on: on(MetadataRequest).delay(math.nan), "number of milliseconds, 0 or more; not nan"),
        (lambda on: on(MetadataRequest).delay("1"), "number of milliseconds, 0 or more; not '1'"),
        (lambda on: on(MetadataRequest).edit(None), "change is a function, not None"),
        (lambda on: on(MetadataRequest).corrupt(b""), "change is a function, not b''"),
        (lambda on: on(MetadataRequest).write(()), r"pieces is a function, not \(\)"),
        (lambda on: on(MetadataRequest).observe(3), "see is a function, not 3"),
        (lambda on: on(MetadataRequest).answer(None), "answer is a function, not None"),
        (lambda on: on(MetadataRequest).answer(MetadataResponse), "answer is a function, not <class"),
        (
            lambda on: on(MetadataRequest).answer(FetchResponse()),
            "MetadataRequest is answered by MetadataResponse, not",
        ),
        (lambda on: on(MetadataRequest, where=3), "where is a function, not 3"),
        (lambda on: on(MetadataRequest, times=1.5), "at least once; not 1.5"),
    ],
)
def test_a_rule_that_could_not_fire_is_refused_where_it_is_made(
    rule: Callable[[Callable[..., object]], object], why: str
) -> None:
    """It failed when a request came, with an error that did not name the rule, or passed without its fault."""
    with Cluster() as cluster, pytest.raises(InvalidArgumentError, match=why):
        rule(cluster.control.on)


def test_a_cluster_that_is_not_started_has_no_address() -> None:
    with pytest.raises(IllegalStateError, match="no ports yet"):
        _ = Cluster().bootstrap_servers


@pytest.mark.parametrize(("policy", "start"), [("delete", 1), ("compact,delete", 1), ("compact", 0)])
def test_what_is_too_old_goes_when_a_test_says_so(policy: str, start: int) -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders", config={"retention.ms": "1000", "cleanup.policy": policy})
        cluster.produce("orders", NewRecord(b"old", b"a", timestamp_ms=1_000))
        cluster.produce("orders", NewRecord(b"new", b"b"))
        assert cluster.retain("orders") == start


def test_what_is_asked_of_a_cluster_that_does_not_run_is_refused() -> None:
    cluster = Cluster()
    with pytest.raises(IllegalStateError, match="does not run"):
        cluster.create_topic("orders")
    with cluster:
        cluster.create_topic("orders")
    cluster.stop()
    with pytest.raises(IllegalStateError, match="does not run"):
        cluster.leader("orders")
    with pytest.raises(IllegalStateError, match="started once"):
        cluster.start()


def test_a_setting_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no setting 'no.such.thing'"):
        Cluster(settings={"no.such.thing": 1})


def test_the_value_of_a_setting_may_be_text_as_in_kafkas_files() -> None:
    settings = BrokerSettings.of({"num.partitions": "3", "auto.create.topics.enable": "false"})
    assert (settings.num_partitions, settings.auto_create_topics_enable) == (3, False)


def test_a_bug_of_the_cluster_is_raised_at_the_end() -> None:
    cluster = Cluster()
    with pytest.raises(ZeroDivisionError), cluster:
        cluster._state.failures.append(ZeroDivisionError())


def test_a_task_of_trio_may_use_it() -> None:
    """trio refused: the caller was a task, though of another run than the cluster's."""

    async def main() -> None:
        with Cluster(topics={"orders": 1}) as cluster:
            assert cluster.produce("orders", b"an order") == 0
            cluster.kill_broker(0)
            assert refuses(addresses(cluster)[0])
            cluster.start_broker(0)
            with pytest.raises(InvalidArgumentError, match="there is no topic 'prices'"):
                cluster.end_offset("prices")

    trio.run(main)


def test_a_rule_s_function_may_use_it() -> None:
    """That a broker dies when a certain request comes is what rules are for."""
    with Cluster(2, topics={"orders": 1}) as cluster:
        first, second = addresses(cluster)

        def see(_request: MetadataRequest, context: RequestContext) -> None:
            cluster.produce("orders", b"an order")
            cluster.kill_broker(context.broker.node_id)

        cluster.control.on(MetadataRequest, times=1).observe(see)
        with pytest.raises(DisconnectError):
            brokers_seen(first)
        assert (cluster.end_offset("orders"), brokers_seen(second)) == (1, [1])


def test_a_cluster_that_ends_meanwhile_is_told_as_one_that_does_not_run() -> None:
    cluster = Cluster()
    cluster.start()
    token = cluster._token
    cluster.stop()
    cluster._token = token  # as another thread saw it, just before
    with pytest.raises(IllegalStateError, match="does not run any more"):
        cluster.create_topic("orders")


def test_what_a_rule_s_function_finds_wrong_is_raised_at_the_end() -> None:
    def see(_request: MetadataRequest, _context: RequestContext) -> None:
        raise AssertionError("what the test found")

    def ask_twice(cluster: Cluster) -> None:
        cluster.control.on(MetadataRequest, times=1).observe(see)
        with pytest.raises(DisconnectError):
            brokers_seen(addresses(cluster)[0])
        assert brokers_seen(addresses(cluster)[0]) == [0]

    cluster = Cluster()
    with pytest.raises(AssertionError, match="what the test found"), cluster:
        ask_twice(cluster)


def test_a_cluster_that_has_broken_down_says_so_at_the_end() -> None:
    def breaks_down(_now_ms: float) -> float:
        raise ZeroDivisionError

    cluster = Cluster()
    with pytest.raises(IllegalStateError, match="the cluster has failed"), cluster:
        cluster._do(lambda: cluster._state.timers.add(breaks_down))


def test_the_same_seed_gives_the_same_ids() -> None:
    ids = []
    for seed in (1, 1, 2):
        with (
            Cluster(topics={"orders": 1}, seed=seed) as cluster,
            ClientConnection(addresses(cluster)[0], TIMEOUT_S) as client,
        ):
            answer = client.ask(MetadataRequest(topics=None), 13)
            ids.append((answer.cluster_id, answer.topics[0].topic_id))
    assert ids[0] == ids[1] != ids[2]
