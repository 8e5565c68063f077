"""GSSAPI with real tickets: a realm of MIT's on this machine, and a server of the same library on the other side."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

from kwire.config.login import Login
from kwire.errors import ConfigError, DisconnectError, SaslAuthenticationError
from kwire.network.gssapi import GssapiExchange
from tools.fuzz.mutations import mutate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.network.kerberos_realm import KerberosRealm, missing
else:
    from kerberos_realm import KerberosRealm, missing

needs_kerberos = pytest.mark.skipif(missing() is not None, reason=f"needs {missing()}")
pytestmark = pytest.mark.slow

ANY_LAYER = bytes([7, 0, 255, 255])
ONLY_ENCRYPTED = bytes([4, 0, 255, 255])


class Service:
    """The broker's side, as Java's GssKrb5Server has it: tokens, then the offer of layers, then what was chosen."""

    def __init__(self, keytab: Path, offer: bytes = ANY_LAYER) -> None:
        import gssapi

        credentials = gssapi.Credentials(usage="accept", store={"keytab": str(keytab)})
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        self._offer = offer
        self._has_offered = False
        self.chosen: bytes | None = None

    def answer(self, message: bytes) -> bytes:
        if not self._context.complete:
            token: bytes | None = self._context.step(message)
            return token or b""
        if not self._has_offered:
            assert message == b""
            self._has_offered = True
            wrapped: bytes = self._context.wrap(self._offer, False).message
            return wrapped
        self.chosen = self._context.unwrap(message).message
        return b""


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    with pytest.MonkeyPatch.context() as patch, KerberosRealm(tmp_path_factory.mktemp("realm")) as realm:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        yield realm


@pytest.fixture(scope="module")
def broker(realm: KerberosRealm) -> Path:
    """The broker's keytab."""
    return realm.principal("kafka/localhost")


@pytest.fixture(scope="module")
def alice(realm: KerberosRealm) -> Login:
    return Login(principal="alice", keytab=str(realm.principal("alice")))


def talk(exchange: GssapiExchange, service: Service) -> None:
    message: bytes | None = exchange.first()
    while message is not None:
        message = exchange.answer(service.answer(message))


@needs_kerberos
def test_a_keytab_logs_in_as_its_principal_and_chooses_no_layer(broker: Path, alice: Login) -> None:
    for _ in range(2):  # the second time with the ticket of the first
        exchange, service = GssapiExchange(alice, "localhost"), Service(broker)
        assert exchange.does_io
        before = exchange.is_complete
        talk(exchange, service)
        assert (before, exchange.is_complete) == (False, True)
        assert service.chosen == b"\x01\x00\x00\x00alice@KWIRE.TEST"


@needs_kerberos
def test_without_a_keytab_the_users_own_ticket_is_used_until_it_expires(realm: KerberosRealm, broker: Path) -> None:
    with pytest.raises(SaslAuthenticationError, match="get a ticket with kinit, or name principal and keyTab"):
        GssapiExchange(Login(), "localhost").first()
    realm.kinit("carol", realm.principal("carol"))
    exchange, service = GssapiExchange(Login(), "localhost"), Service(broker)
    talk(exchange, service)
    assert exchange.is_complete
    assert service.chosen is not None
    assert service.chosen.endswith(b"carol@KWIRE.TEST")
    with pytest.raises(SaslAuthenticationError, match=r"dave.*; get a ticket of that principal"):
        GssapiExchange(Login(principal="dave"), "localhost").first()


@needs_kerberos
@pytest.mark.parametrize(
    ("host", "service_name", "advice"),
    [
        ("127.0.0.1", "kafka", "127.0.0.1 is an address, and Kerberos knows brokers by names"),
        ("localhost", "other", "has to be registered under the name that the broker is reached by"),
    ],
)
def test_a_service_that_nobody_has_registered(alice: Login, host: str, service_name: str, advice: str) -> None:
    login = Login(principal=alice.principal, keytab=alice.keytab, service_name=service_name)
    with pytest.raises(SaslAuthenticationError, match=f"login at {service_name}/{host} fails: Server .*{advice}"):
        GssapiExchange(login, host).first()


@needs_kerberos
@pytest.mark.parametrize("is_there", [True, False])
def test_a_keytab_that_does_not_help(alice: Login, is_there: bool, tmp_path: Path) -> None:
    login = Login(principal="mallory", keytab=alice.keytab if is_there else str(tmp_path / "none"))
    with pytest.raises(SaslAuthenticationError, match=r"keyTab=.* has to be readable and have a key of mallory"):
        GssapiExchange(login, "localhost").first()


@needs_kerberos
def test_a_key_distribution_center_that_is_down_is_asked_again_later(realm: KerberosRealm, broker: Path) -> None:
    login = Login(principal="erin", keytab=str(realm.principal("erin")))
    realm.stop()
    try:
        with pytest.raises(DisconnectError, match="Cannot contact any KDC for realm"):
            GssapiExchange(login, "localhost").first()
    finally:
        realm.start()
    GssapiExchange(login, "localhost").first()


@needs_kerberos
def test_a_service_with_another_key_is_not_believed(realm: KerberosRealm, broker: Path, alice: Login) -> None:
    """Somebody who took the broker's place cannot read the ticket; what they answer by guessing is refused."""
    exchange = GssapiExchange(alice, "localhost")
    exchange.first()
    with pytest.raises(SaslAuthenticationError, match="login at kafka/localhost fails"):
        exchange.answer(b"\x60\x10\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x02\x00\x00\x00\x00")
    other, service = GssapiExchange(alice, "localhost"), Service(broker)
    stale = service.answer(other.first())  # what the real one has said to another client
    exchange = GssapiExchange(alice, "localhost")
    exchange.first()
    with pytest.raises(SaslAuthenticationError, match="login at kafka/localhost fails"):
        exchange.answer(stale)
    assert not exchange.is_complete


@needs_kerberos
@pytest.mark.parametrize("offer", [ONLY_ENCRYPTED, b"", b"\x01\x00\x00", b"\x01\x00\x00\x00\x00"])
def test_a_broker_that_offers_no_connection_in_the_clear_is_refused(broker: Path, alice: Login, offer: bytes) -> None:
    exchange = GssapiExchange(alice, "localhost")
    with pytest.raises(SaslAuthenticationError, match="signed or encrypted by Kerberos"):
        talk(exchange, Service(broker, offer))
    assert not exchange.is_complete


@needs_kerberos
def test_damaged_answers_of_the_broker_are_refused(broker: Path, alice: Login) -> None:
    rng = random.Random(22)
    for number in range(200):
        exchange, service = GssapiExchange(alice, "localhost"), Service(broker)
        answer = service.answer(exchange.first())
        if number % 2:
            message = exchange.answer(answer)
            assert message is not None
            answer = service.answer(message)
        damaged, _ = mutate(answer, answer[::-1], rng)
        if damaged == answer:
            continue
        with pytest.raises(SaslAuthenticationError, match="GSSAPI: "):
            exchange.answer(damaged)
        assert not exchange.is_complete


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"needs the package gssapi: pip install 'kwire\[gssapi\]'"):
        GssapiExchange(Login(), "localhost")
