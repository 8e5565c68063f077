"""The tampering proxy over TCP: transparent by default, and each order does what it says until it is healed."""

from __future__ import annotations

import random
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from kwire.errors import IllegalStateError
from kwire.testing.faults.proxies.stream import Stream
from kwire.testing.faults.proxies.tampering import TamperingProxy
from kwire.testing.faults.proxies.tamperings import (
    AnnounceLength,
    BitPlace,
    BlackHole,
    ChaosDialer,
    CutAnswer,
    DropFin,
    FlipBit,
    HalfOpen,
    HoldBack,
    Refuse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.testing.faults.proxies.kafka_like import (
        FETCH,
        METADATA,
        TIMEOUT_S,
        Client,
        FrameServer,
        answer,
        read_exactly,
        record_batch,
        request,
    )
else:
    from kafka_like import (
        FETCH,
        METADATA,
        TIMEOUT_S,
        Client,
        FrameServer,
        answer,
        read_exactly,
        record_batch,
        request,
    )

DOWN = frozenset({Stream.DOWNSTREAM})


@pytest.fixture
def server() -> Iterator[FrameServer]:
    with FrameServer() as server:
        yield server


@pytest.fixture
def proxy(server: FrameServer) -> Iterator[TamperingProxy]:
    with TamperingProxy(to=server.address) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: TamperingProxy) -> Iterator[Client]:
    with Client(proxy.address) as client:
        assert client.ask() == answer(1, b"body")
        yield client


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


# --- nothing ordered ------------------------------------------------------------------------------------------------


def test_megabytes_pass_unchanged_both_ways(proxy: TamperingProxy, client: Client) -> None:
    body = random.Random(1).randbytes(3_000_000)
    threading.Thread(target=client.sendall, args=(request(FETCH, 2, body),)).start()
    assert read_exactly(client, len(body) + 8) == answer(2, body)
    until(lambda: proxy.counts.downstream_bytes == len(answer(1, b"body")) + len(answer(2, body)))
    assert proxy.counts.upstream_bytes == len(request(METADATA, 1, b"body")) + len(request(FETCH, 2, body))
    assert (proxy.counts.connections, proxy.counts.open_connections) == (1, 1)


def test_what_cannot_be_read_passes_as_it_is_and_is_held_back_like_anything_else(server: FrameServer) -> None:
    with TamperingProxy(to=server.address, is_encrypted=True) as proxy, Client(proxy.address) as client:
        proxy.tamper(FlipBit(place=BitPlace.HEADER))
        assert client.ask() == answer(1, b"body")
        proxy.heal()
        proxy.tamper(HoldBack())
        client.sendall(request(METADATA, 2, b"later"))
        assert client.hears_nothing()
        proxy.heal()
        assert read_exactly(client, len(answer(2, b"later"))) == answer(2, b"later")


def test_the_servers_end_of_a_connection_reaches_the_client(server: FrameServer, client: Client) -> None:
    server.hang_up()
    assert client.has_ended()


def test_the_clients_half_close_lets_the_last_answer_through(client: Client) -> None:
    client.sendall(request(METADATA, 2, b"last"))
    client.shutdown(socket.SHUT_WR)
    assert read_exactly(client, len(answer(2, b"last"))) == answer(2, b"last")
    assert client.has_ended()


def test_a_reset_stays_a_reset(server: FrameServer, client: Client) -> None:
    server.hang_up(abruptly=True)
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_server_that_is_not_there_hangs_up(server: FrameServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = nobody.getsockname()[:2]
    with TamperingProxy(to=address) as proxy, Client(proxy.address) as client:
        assert client.has_ended()
        assert proxy.counts.failed_dials == 1
        proxy.lead_to(*server.address)
        with Client(proxy.address) as second:
            assert second.ask() == answer(1, b"body")


def test_clients_are_refused_until_it_is_known_where_to() -> None:
    with TamperingProxy() as proxy, pytest.raises(ConnectionRefusedError):
        Client(proxy.address)


def test_the_port_is_free_again_and_the_thread_gone() -> None:
    with TamperingProxy() as proxy:
        address = proxy.address
    with socket.create_server(address):
        assert "kwire-tampering" not in {thread.name for thread in threading.enumerate()}
        with pytest.raises(OSError, match="in use"):
            TamperingProxy(address[1]).start()


def test_it_is_started_once_and_asked_while_it_runs() -> None:
    proxy = TamperingProxy()
    with pytest.raises(IllegalStateError, match="when it is started"):
        _ = proxy.address
    with proxy, pytest.raises(IllegalStateError, match="started once"):
        proxy.start()
    with pytest.raises(IllegalStateError, match="does not run"):
        proxy.heal()


# --- strikes --------------------------------------------------------------------------------------------------------


def test_a_bit_of_the_second_fetch_is_flipped(proxy: TamperingProxy, client: Client) -> None:
    body = record_batch(b"r" * 100)
    proxy.tamper(FlipBit(api_key=FETCH, nth=2, place=BitPlace.PAYLOAD))
    assert client.ask(FETCH, 2, b"no batch") == answer(2, b"no batch")
    assert client.ask(FETCH, 3, body) == answer(3, body)
    assert client.ask(METADATA, 4, body) == answer(4, body)
    struck = client.ask(FETCH, 5, body)
    assert len(struck) == len(answer(5, body))
    assert sum((a ^ b).bit_count() for a, b in zip(struck, answer(5, body), strict=True)) == 1
    assert proxy.active == ()
    assert client.ask(FETCH, 6, body) == answer(6, body)
    assert proxy.counts.flipped_bits == 1


@pytest.mark.parametrize("length_bytes", [0, -1, 2**31 - 1])
def test_a_false_length_is_announced(proxy: TamperingProxy, client: Client, length_bytes: int) -> None:
    proxy.tamper(AnnounceLength(length_bytes=length_bytes))
    client.sendall(request(FETCH, 2, b"body"))
    assert read_exactly(client, 12) == length_bytes.to_bytes(4, signed=True) + answer(2, b"body")[4:]
    assert proxy.counts.false_lengths == 1


@pytest.mark.parametrize("after_bytes", [0, 3, 8, 11])
def test_an_answer_is_cut_and_the_connection_ends(proxy: TamperingProxy, client: Client, after_bytes: int) -> None:
    proxy.tamper(CutAnswer(api_key=FETCH, after_bytes=after_bytes))
    client.sendall(request(FETCH, 2, b"body"))
    assert read_exactly(client, after_bytes) == answer(2, b"body")[:after_bytes]
    assert client.has_ended()
    with Client(proxy.address) as again:
        assert again.ask(FETCH) == answer(1, b"body")


# --- conditions -----------------------------------------------------------------------------------------------------


def test_what_is_held_comes_when_it_is_lifted(proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(HoldBack())
    client.sendall(request(FETCH, 2, b"body"))
    assert client.hears_nothing()
    proxy.lift(HoldBack())
    assert read_exactly(client, 12) == answer(2, b"body")


def test_answers_alone_can_be_held(server: FrameServer, proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(HoldBack(DOWN))
    client.sendall(request(FETCH, 2, b"body"))
    client.shutdown(socket.SHUT_WR)
    assert server.ended.acquire(timeout=TIMEOUT_S)  # so the request has arrived
    assert client.hears_nothing()
    proxy.heal()
    assert read_exactly(client, 12) == answer(2, b"body")
    assert client.has_ended()


def test_a_half_open_connection_swallows_all_and_ends_when_healed(proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(HalfOpen())
    client.sendall(request(FETCH, 2, b"body"))
    assert client.hears_nothing()
    until(lambda: proxy.counts.swallowed_bytes == len(request(FETCH, 2, b"body")))
    proxy.heal()
    assert client.has_ended()
    with Client(proxy.address) as again:
        assert again.ask() == answer(1, b"body")


def test_a_half_open_connection_that_lost_nothing_goes_on(proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(HalfOpen())
    assert client.hears_nothing()
    proxy.heal()
    assert client.ask() == answer(1, b"body")


def test_a_half_open_connection_hears_of_no_end(server: FrameServer, proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(HalfOpen(DOWN))
    server.hang_up()
    assert client.hears_nothing()
    proxy.heal()
    assert client.has_ended()


def test_bytes_pass_and_the_end_does_not(server: FrameServer, proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(DropFin())
    assert client.ask() == answer(1, b"body")
    server.hang_up()
    assert client.hears_nothing()
    proxy.heal()
    assert client.has_ended()


def test_new_connections_are_refused_and_old_ones_go_on(proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(Refuse())
    with pytest.raises(ConnectionRefusedError):
        Client(proxy.address)
    assert client.ask() == answer(1, b"body")
    proxy.heal()
    with Client(proxy.address) as again:
        assert again.ask() == answer(1, b"body")


def test_new_connections_hear_nothing_and_old_ones_go_on(proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(BlackHole())
    with pytest.raises(TimeoutError):
        Client(proxy.address, timeout_s=0.1)
    assert client.ask() == answer(1, b"body")
    proxy.heal()
    with Client(proxy.address) as again:
        assert again.ask() == answer(1, b"body")


def test_to_refuse_is_stronger_than_a_black_hole(proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(BlackHole(), Refuse())
    with pytest.raises(ConnectionRefusedError):
        Client(proxy.address)
    proxy.lift(Refuse())
    with pytest.raises(TimeoutError):
        Client(proxy.address, timeout_s=0.1)


def test_chaos_ends_old_and_new_connections(proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(ChaosDialer(shortest_ms=10, longest_ms=20))
    with Client(proxy.address) as new:
        assert client.has_ended()
        assert new.has_ended()
    assert proxy.counts.ended_by_chaos == 2
    assert proxy.counts.open_connections == 0


def test_connections_outlive_chaos_that_was_healed(proxy: TamperingProxy, client: Client) -> None:
    proxy.tamper(ChaosDialer(shortest_ms=200, longest_ms=200))
    proxy.heal()
    ends_s = time.monotonic() + 0.2
    while time.monotonic() < ends_s:
        assert client.hears_nothing()
    assert client.ask() == answer(1, b"body")


def test_all_connections_are_broken_off(proxy: TamperingProxy, client: Client) -> None:
    assert proxy.hang_up() == 1
    assert client.has_ended()
    with Client(proxy.address) as again:
        again.ask()
        assert proxy.hang_up(abruptly=True) == 1
        with pytest.raises(ConnectionResetError):
            again.recv(1)


def test_orders_come_from_any_thread(proxy: TamperingProxy, client: Client) -> None:
    def order(number: int) -> None:
        strike = CutAnswer(api_key=99, nth=number, after_bytes=0)
        for _ in range(20):
            proxy.tamper(strike, Refuse())
            proxy.lift(Refuse())
            proxy.lift(strike)

    threads = [threading.Thread(target=order, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert proxy.active == ()
    assert client.ask() == answer(1, b"body")
    with Client(proxy.address) as again:
        assert again.ask() == answer(1, b"body")


@pytest.mark.slow
def test_a_silent_door_that_is_healed_lets_in_who_has_been_knocking(proxy: TamperingProxy) -> None:
    proxy.tamper(BlackHole())
    knocking = threading.Timer(0.05, proxy.heal)
    knocking.start()
    with Client(proxy.address) as client:  # its SYN is sent again after a second
        assert client.ask() == answer(1, b"body")
    knocking.join()
