"""The system starts no more threads, while a consumer runs: what needs one is tried again, and the consumer lives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from kwire import Consumer
from kwire.config import ConsumerConfig, login_of
from kwire.network.addresses import Addresses, canonical_servers
from kwire.network.authentication import Authentication
from kwire.network.login.failures import TokenRequestError
from kwire.network.login.token_file import TokenFile
from kwire.network.login.token_login import TokenLogin, _has_changed
from kwire.network.worker_threads import NoWorkerThreadError, worker_thread_needed
from kwire.testing import Cluster
from kwire.testing.kafka.addresses import free_ports

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WAIT_S = 10.0
SAID = "can't start new thread"


async def starts_none(*_: object, **_options: object) -> None:
    """In place of `trio.to_thread.run_sync`, which passes on what Python says."""
    await trio.lowlevel.checkpoint()
    raise RuntimeError(SAID)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(trio.to_thread, "run_sync", starts_none)
    return monkeypatch


def error_of(ask: Callable[[], Awaitable[object]], kind: type[Exception]) -> str:
    async def run() -> str:
        with pytest.raises(kind) as caught:
            await ask()
        return str(caught.value)

    return trio.run(run)


def test_a_consumer_that_reconnects_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-up of the broker's name ended the network thread, and each poll asked to report a bug."""
    port = free_ports(1)[0]
    with (
        Cluster(topics={"orders": 1}, port=port, advertised=[("localhost", port)]) as cluster,
        Consumer[bytes, bytes](
            "orders", bootstrap_servers=f"localhost:{port}", auto_offset_reset="earliest"
        ) as consumer,
    ):
        cluster.produce("orders", b"one")
        assert consumer.poll(WAIT_S).values() == [b"one"]
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(trio.to_thread, "run_sync", starts_none)
            cluster.cut_connections()
            assert not consumer.poll(0.2)
            assert SAID in str(consumer.describe())
        cluster.produce("orders", b"two")
        assert consumer.poll(WAIT_S).values() == [b"two"]


@pytest.mark.usefixtures("no_threads")
def test_a_look_up_of_a_name_says_what_it_lacks() -> None:
    told = error_of(lambda: Addresses().of("broker.test", 9092), OSError)
    assert told == f"no thread can be started to look up 'broker.test': {SAID}"


def test_an_address_is_not_taken_for_its_canonical_name_then(no_threads: pytest.MonkeyPatch) -> None:
    """An address that leads to no name stands for itself: a login by Kerberos would name the wrong service."""
    (server,) = ConsumerConfig.of({"bootstrap_servers": "127.0.0.1:9092"}).bootstrap_servers
    no_threads.setattr(trio.socket, "getnameinfo", starts_none)
    assert SAID in error_of(lambda: canonical_servers([server]), NoWorkerThreadError)


@pytest.mark.usefixtures("no_threads")
def test_credentials_that_cannot_be_asked_for_end_the_connection_alone() -> None:
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "bootstrap_servers": "a:1"}
    provided = {**settings, "sasl_credentials_provider": lambda: ("me", "hunter2")}
    authentication = Authentication(ConsumerConfig.of(provided))
    assert SAID in error_of(authentication.login, OSError)


@pytest.mark.usefixtures("no_threads")
def test_a_token_that_cannot_be_asked_for_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a token")
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "bootstrap_servers": "a:1"}
    config = ConsumerConfig.of({**settings, "sasl_oauth_token_provider": lambda: "a token"})
    assert SAID in error_of(TokenLogin(config, login_of(config))._ask, TokenRequestError)
    assert trio.run(_has_changed, TokenFile(path, "the file")) is False


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="another"), worker_thread_needed("do something"):
        raise RuntimeError("another")
