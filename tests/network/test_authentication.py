"""Logging in on a connection, and logging in again: who says what when, in virtual time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import (
    BootstrapError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kwire.network.authentication import EARLIEST, LATEST, MIN_PAUSE_MS, Authentication, renew_after_ms
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.metadata import MetadataResponse
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.config import Login
    from tests.network.conftest import InVirtualTime, MakeRig, MemoryNetwork, MemoryStream, Peer

ADDRESS = ("broker", 9092)
HOUR_MS = 3_600_000
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "secret",
}


class SaslBroker:
    """A broker that wants a login by PLAIN, keeps it for a while, and ends the connection over anything else.

    Attributes:
        asked: When which request came, by name.
        answers_after_s: How long it takes for all but logins.
        is_deaf: It answers no login any more.
        takes_renewals: Whether it takes another login on a connection.
    """

    def __init__(self, peer: type[Peer], offering: Callable[[], ApiVersionsResponse], *, lifetime_ms: int = 0) -> None:
        self.password = "secret"
        self.asked: list[tuple[float, str]] = []
        self.connections = 0
        self.answers_after_s = 0.0
        self.is_deaf = False
        self.takes_renewals = True
        self._peer = peer
        self._offering = offering
        self._lifetime_ms = lifetime_ms

    async def __call__(self, stream: MemoryStream) -> None:
        self.connections += 1
        peer = self._peer(stream)
        ends_at_s, is_known, is_login = 0.0, False, False
        while (received := await peer.next_request()) is not None:
            request, version, header = received
            self.asked.append((trio.current_time(), type(request).__name__.removesuffix("Request")))
            is_expired = bool(self._lifetime_ms) and trio.current_time() > ends_at_s
            match request:
                case ApiVersionsRequest():
                    await peer.answer(header, version, self._offering())
                case SaslHandshakeRequest() if is_known and not self.takes_renewals:
                    refused = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE.value, mechanisms=[])
                    await peer.answer(header, version, refused)
                case SaslHandshakeRequest():
                    is_login, known = True, request.mechanism == "PLAIN"
                    code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
                    answer = SaslHandshakeResponse(error_code=code.value, mechanisms=["PLAIN", "GSSAPI"])
                    await peer.answer(header, version, answer)
                case SaslAuthenticateRequest() if is_login and not self.is_deaf:
                    is_login, is_known = False, request.auth_bytes == b"\0alice\0" + self.password.encode()
                    ends_at_s = trio.current_time() + self._lifetime_ms / 1000
                    await peer.answer(header, version, self._judged(is_known))
                    if not is_known:
                        return
                case SaslAuthenticateRequest():
                    await trio.sleep_forever()
                case _ if is_known and not is_expired and not is_login:
                    await trio.sleep(self.answers_after_s)
                    await peer.answer(header, version, MetadataResponse())
                case _:
                    return

    def _judged(self, is_known: bool) -> SaslAuthenticateResponse:
        if is_known:
            return SaslAuthenticateResponse(session_lifetime_ms=self._lifetime_ms)
        code = ErrorCode.SASL_AUTHENTICATION_FAILED.value
        return SaslAuthenticateResponse(error_code=code, error_message="Invalid username or password")

    def times_of(self, name: str) -> list[float]:
        return [at_s for at_s, asked in self.asked if asked == name]


@pytest.fixture
def broker(peer: type[Peer], offer: Callable[[], ApiVersionsResponse], network: MemoryNetwork) -> SaslBroker:
    """One that a login is good for as long as the connection lives."""
    network.hosts[ADDRESS] = broker = SaslBroker(peer, offer)
    return broker


@pytest.fixture
def hourly(peer: type[Peer], offer: Callable[[], ApiVersionsResponse], network: MemoryNetwork) -> SaslBroker:
    """One that wants another login each hour."""
    network.hosts[ADDRESS] = broker = SaslBroker(peer, offer, lifetime_ms=HOUR_MS)
    return broker


def test_the_login_comes_behind_the_versions_and_in_front_of_every_request(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, broker: SaslBroker
) -> None:
    async def scenario() -> None:
        rig = make_rig(network, "broker:9092", **LOGIN)
        async with rig.running():
            assert isinstance((await rig.send().wait()).answer, MetadataResponse)

    in_virtual_time(scenario)
    assert [name for _, name in broker.asked] == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata"]


def test_a_wrong_password_fails_what_waits_with_what_the_broker_says_and_who_it_was(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, broker: SaslBroker
) -> None:
    broker.password = "another"

    async def scenario() -> Exception | None:
        rig = make_rig(network, "broker:9092", **LOGIN)
        async with rig.running():
            return (await rig.send().wait()).error

    error = in_virtual_time(scenario)
    assert isinstance(error, SaslAuthenticationError)
    assert "refuses the login of alice by PLAIN: Invalid username or password" in str(error)
    assert "secret" not in repr(error)


def test_a_wrong_password_is_tried_less_and_less_often(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, broker: SaslBroker
) -> None:
    broker.password = "another"

    async def scenario() -> None:
        rig = make_rig(network, "broker:9092", **LOGIN)
        async with rig.running():
            while trio.current_time() < 600:
                await rig.send().wait()

    in_virtual_time(scenario)
    logins = broker.times_of("SaslAuthenticate")
    assert len(logins) < 80
    assert min(later - earlier for earlier, later in itertools.pairwise(logins[10:])) >= 8


def test_a_mechanism_that_the_broker_does_not_have_is_told_with_those_it_has(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, broker: SaslBroker
) -> None:
    async def scenario() -> Exception | None:
        rig = make_rig(network, "broker:9092", **{**LOGIN, "sasl_mechanism": "SCRAM-SHA-512"})
        async with rig.running():
            return (await rig.send().wait()).error

    error = in_virtual_time(scenario)
    assert isinstance(error, UnsupportedSaslMechanismError)
    assert str(error).endswith("does not offer sasl_mechanism=SCRAM-SHA-512; it offers: PLAIN, GSSAPI")


def test_a_client_without_login_is_told_that_the_listener_may_want_one(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, broker: SaslBroker
) -> None:
    async def scenario() -> Exception | None:
        rig = make_rig(network, "broker:9092")
        async with rig.running():
            outcome = await rig.send().wait()
            await trio.sleep(1)
            assert isinstance(rig.client.bootstrap_error, BootstrapError)
            return outcome.error

    error = in_virtual_time(scenario)
    assert "does it expect a login (security_protocol SASL_PLAINTEXT or SASL_SSL)?" in str(error)


def test_a_session_of_an_hour_is_renewed_in_time_for_a_day_on_the_same_connection(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, hourly: SaslBroker
) -> None:
    async def scenario() -> None:
        rig = make_rig(network, "broker:9092", **LOGIN)
        with trio.fail_after(100_000):
            async with rig.running():
                while trio.current_time() < 86_400:
                    assert (await rig.send().wait()).error is None
                    await trio.sleep(20)

    trio.run(scenario, clock=trio.testing.MockClock(autojump_threshold=0))
    logins = hourly.times_of("SaslAuthenticate")
    pauses_s = [later - earlier for earlier, later in itertools.pairwise(logins)]
    assert hourly.connections == 1
    assert len(pauses_s) >= 24
    assert all(EARLIEST * 3_600 <= pause_s <= LATEST * 3_600 + 1 for pause_s in pauses_s)


def test_nothing_comes_between_the_steps_of_a_renewal_and_what_was_sent_before_is_answered_first(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, hourly: SaslBroker
) -> None:
    async def scenario() -> list[object]:
        rig = make_rig(network, "broker:9092", **LOGIN, request_timeout_ms=120_000)
        async with rig.running():
            await rig.send().wait()
            hourly.answers_after_s = 20
            outcomes = []
            while len(hourly.times_of("SaslHandshake")) < 2:
                outcomes.append(rig.send())
                await trio.sleep(15)
                outcomes.append(rig.send())
                await trio.sleep(30)
            return [(await outcome.wait()).error for outcome in outcomes]

    errors = in_virtual_time(scenario)
    names = [name for _, name in hourly.asked]
    renewal = names.index("SaslHandshake", 2)
    assert set(errors) == {None}
    assert hourly.connections == 1
    assert names[renewal + 1] == "SaslAuthenticate"


def test_requests_go_on_while_the_users_code_is_asked_for_the_credentials_of_a_renewal(
    in_virtual_time: InVirtualTime,
    network: MemoryNetwork,
    make_rig: MakeRig,
    hourly: SaslBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once = Authentication.login

    async def slowly(authentication: Authentication) -> Login:
        if trio.current_time() > 60:
            await trio.sleep(60)
        return await at_once(authentication)

    monkeypatch.setattr(Authentication, "login", slowly)

    async def scenario() -> None:
        rig = make_rig(network, "broker:9092", **LOGIN)
        async with rig.running():
            while trio.current_time() < 3_550:
                sent_at_s = trio.current_time()
                assert (await rig.send().wait()).error is None
                assert trio.current_time() - sent_at_s < 1
                await trio.sleep(10)

    in_virtual_time(scenario)
    assert len(hourly.times_of("SaslAuthenticate")) == 2
    assert hourly.connections == 1


def test_a_renewal_that_is_refused_ends_the_connection_and_says_so(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, hourly: SaslBroker
) -> None:
    async def scenario() -> Exception | None:
        rig = make_rig(network, "broker:9092", **LOGIN)
        async with rig.running():
            await rig.send().wait()
            hourly.password = "changed"
            await trio.sleep(LATEST * 3_600 + 1)
            return (await rig.send().wait()).error

    assert isinstance(in_virtual_time(scenario), SaslAuthenticationError)


def test_a_broker_that_takes_no_other_login_so_soon_is_dialled_again(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, hourly: SaslBroker
) -> None:
    """Kafka takes none within a second. Once, that was told as a listener without SASL, and raised."""
    hourly.takes_renewals = False

    async def scenario() -> list[Exception | None]:
        rig = make_rig(network, "broker:9092", **LOGIN)
        async with rig.running():
            await rig.send().wait()
            await trio.sleep(LATEST * 3_600 + 1)
            return [(await rig.send().wait()).error for _ in range(2)]

    assert in_virtual_time(scenario)[-1] is None
    assert hourly.connections == 2


def test_a_renewal_that_is_not_answered_is_given_up_and_the_broker_dialled_again(
    in_virtual_time: InVirtualTime, network: MemoryNetwork, make_rig: MakeRig, hourly: SaslBroker
) -> None:
    async def scenario() -> None:
        rig = make_rig(network, "broker:9092", **LOGIN, request_timeout_ms=5_000)
        with trio.fail_after(10_000):
            async with rig.running():
                await rig.send().wait()
                hourly.is_deaf = True
                await trio.sleep(LATEST * 3_600 + 1)
                waiting = rig.send(timeout_ms=60_000)
                await trio.sleep(6)
                hourly.is_deaf = False
                await waiting.wait()
                assert (await rig.send(timeout_ms=60_000).wait()).error is None

    trio.run(scenario, clock=trio.testing.MockClock(autojump_threshold=0))
    assert hourly.connections >= 2


@given(
    lifetime_ms=st.floats(1, 1e9),
    longest_wait_ms=st.floats(0, 1e9),
    chance=st.floats(0, 1),
)
def test_a_session_is_renewed_before_its_end_with_room_for_the_longest_answer_if_there_is_any(
    lifetime_ms: float, longest_wait_ms: float, chance: float
) -> None:
    after_ms = renew_after_ms(lifetime_ms, longest_wait_ms, chance)

    assert after_ms <= max(MIN_PAUSE_MS, lifetime_ms * LATEST)
    assert after_ms >= min(lifetime_ms * 0.5, lifetime_ms * EARLIEST)
    if longest_wait_ms < lifetime_ms / 2 and after_ms > MIN_PAUSE_MS:
        assert after_ms + longest_wait_ms <= lifetime_ms * (1 + 1e-9)
