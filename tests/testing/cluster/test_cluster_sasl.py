"""SASL: who does not authenticate gets nothing, who does is somebody, and everything comes in its order."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing.cluster.sasl.server import MECHANISMS, SaslServer
from kwire.testing.cluster.sasl.unsecured_jws import unsecured_jws
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.testing.cluster.request_context import RequestContext
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

VERSIONS = ApiVersionsRequest(client_software_name="k", client_software_version="1")
METADATA = MetadataRequest(topics=[])
SESSION_MS = 10_000


def cluster_with_users(
    settings: BrokerSettings | None = None, validate_token: Callable[[str], str] | None = None
) -> ClusterState:
    sasl = SaslServer({"ann": "secret", "bob": "other"}, validate_token=validate_token, random=Random(0))
    return ClusterState(settings=settings, sasl=sasl)


def handshake(mechanism: str = "PLAIN") -> SaslHandshakeRequest:
    return SaslHandshakeRequest(mechanism=mechanism)


def password(text: str, name: str = "ann") -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=f"\0{name}\0{text}".encode())


def token(text: str) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=f"n,,\x01auth=Bearer {text}\x01\x01".encode())


async def is_closed(client: MemoryClient) -> bool:
    """Whether nothing but the end comes."""
    try:
        await client.receive()
    except EOFError:
        return True
    return False


async def logged_in(cluster: ClusterState, nursery: trio.Nursery, name: str = "ann") -> MemoryClient:
    client = MemoryClient(cluster, nursery)
    await client.ask(handshake())
    assert (await client.ask(password({"ann": "secret", "bob": "other"}[name], name))).error_code == 0
    return client


# --- the order of things ------------------------------------------------------------------------------------------


@in_trio
async def test_the_right_password_opens_the_connection(nursery: trio.Nursery) -> None:
    cluster = cluster_with_users()
    principals: list[str] = []

    def see(_request: MetadataRequest, call: RequestContext) -> None:
        principals.append(call.principal)

    cluster.control.on(MetadataRequest).observe(see)
    client = MemoryClient(cluster, nursery)
    await client.ask(VERSIONS)
    agreed = await client.ask(handshake())
    assert (agreed.error_code, tuple(agreed.mechanisms)) == (0, MECHANISMS)
    answer = await client.ask(password("secret"))
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    await client.ask(METADATA)
    assert principals == ["User:ann"]


@in_trio
async def test_the_wrong_password_is_answered_after_a_while_and_then_the_connection_ends(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.ask(handshake())
    before_s = trio.current_time()
    answer = await client.ask(password("guess"))
    assert trio.current_time() - before_s == pytest.approx(0.1)
    assert (answer.error_code, answer.error_message) == (58, "Authentication failed: Invalid username or password")
    assert await is_closed(client)


@in_trio
async def test_a_mechanism_there_is_not_is_answered_with_those_there_are(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    answer = await client.ask(handshake("GSSAPI"))
    assert (answer.error_code, tuple(answer.mechanisms)) == (33, MECHANISMS)
    assert await is_closed(client)


@in_trio
async def test_without_authentication_the_connection_ends(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.send(METADATA)
    assert await is_closed(client)


@in_trio
async def test_authenticating_needs_a_handshake(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.send(password("secret"))
    assert await is_closed(client)


@in_trio
async def test_versions_are_told_once(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.ask(VERSIONS)
    await client.send(VERSIONS)
    assert await is_closed(client)


@in_trio
async def test_versions_that_were_not_told_may_be_asked_for_again(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    assert (await client.ask(ApiVersionsRequest())).error_code == ErrorCode.INVALID_REQUEST
    assert (await client.ask(VERSIONS)).error_code == 0
    assert (await client.ask(handshake())).error_code == 0


@in_trio
async def test_another_request_in_the_middle_of_the_exchange_is_the_last(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.ask(handshake())
    assert (await client.ask(handshake())).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await is_closed(client)


@in_trio
async def test_sasl_behind_its_end_is_refused_and_nothing_else_happens(nursery: trio.Nursery) -> None:
    client = await logged_in(cluster_with_users(), nursery)
    assert (await client.ask(handshake())).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await client.ask(password("guess"))).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await client.ask(METADATA)).error_code == 0


@in_trio
async def test_a_frame_too_large_for_a_stranger_closes_the_connection(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.stream.send_all((524_289).to_bytes(4, "big"))
    assert await is_closed(client)


@in_trio
async def test_after_a_handshake_of_version_0_tokens_are_bare_frames(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.ask(handshake(), 0)
    bare = b"\0ann\0secret"
    await client.stream.send_all(len(bare).to_bytes(4, "big") + bare)
    assert await client.stream.receive_some(4) == b"\0\0\0\0"
    assert (await client.ask(METADATA)).error_code == 0


@in_trio
async def test_a_bare_token_that_does_not_pass_is_not_answered(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.ask(handshake(), 0)
    await client.stream.send_all(b"\0\0\0\x0b\0ann\0guess!")
    assert await is_closed(client)


# --- tokens -------------------------------------------------------------------------------------------------------


@in_trio
async def test_a_token_lets_in_until_it_expires(nursery: trio.Nursery) -> None:
    cluster = cluster_with_users()
    client = MemoryClient(cluster, nursery)
    await client.ask(handshake("OAUTHBEARER"))
    now_s = cluster.wall_clock_ms() / 1000
    answer = await client.ask(token(unsecured_jws("eve", issued_at_s=now_s - 1, expires_at_s=now_s + 60)))
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 60_000)
    await trio.sleep(59)
    assert (await client.ask(METADATA)).error_code == 0
    await trio.sleep(2)
    await client.send(METADATA)
    assert await is_closed(client)


@in_trio
async def test_a_token_that_does_not_pass_is_challenged_and_fails_with_the_confirmation(nursery: trio.Nursery) -> None:
    cluster = cluster_with_users()
    client = MemoryClient(cluster, nursery)
    await client.ask(handshake("OAUTHBEARER"))
    now_s = cluster.wall_clock_ms() / 1000
    challenge = await client.ask(token(unsecured_jws("eve", issued_at_s=now_s - 9, expires_at_s=now_s - 1)))
    assert (challenge.error_code, challenge.auth_bytes) == (0, b'{"status":"invalid_token"}')
    answer = await client.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"))
    assert (answer.error_code, answer.error_message) == (58, '{"status":"invalid_token"}')
    assert await is_closed(client)


@in_trio
async def test_a_function_of_the_test_decides_about_tokens(nursery: trio.Nursery) -> None:
    cluster = cluster_with_users(validate_token={"opaque": "eve"}.__getitem__)
    client = MemoryClient(cluster, nursery)
    await client.ask(handshake("OAUTHBEARER"))
    assert (await client.ask(token("other"))).auth_bytes == b'{"status":"invalid_token"}'
    assert (await client.ask(token("opaque"))).error_code == 0
    assert (await client.ask(METADATA)).error_code == 0


# --- sessions that end (KIP-368) ----------------------------------------------------------------------------------


def with_sessions() -> ClusterState:
    return cluster_with_users(BrokerSettings(connections_max_reauth_ms=SESSION_MS))


@in_trio
async def test_a_session_ends_and_may_be_begun_again_before(nursery: trio.Nursery) -> None:
    client = await logged_in(with_sessions(), nursery)
    for _ in range(3):
        await trio.sleep(SESSION_MS * 0.9 / 1000)
        assert (await client.ask(METADATA)).error_code == 0
        assert (await client.ask(handshake())).error_code == 0
        assert (await client.ask(password("secret"))).session_lifetime_ms == SESSION_MS
    await trio.sleep(SESSION_MS * 1.1 / 1000)
    await client.send(METADATA)
    assert await is_closed(client)


@in_trio
async def test_a_session_that_is_over_may_still_be_begun_again(nursery: trio.Nursery) -> None:
    client = await logged_in(with_sessions(), nursery)
    await trio.sleep(SESSION_MS * 2 / 1000)
    assert (await client.ask(handshake())).error_code == 0
    assert (await client.ask(password("secret"))).error_code == 0
    assert (await client.ask(METADATA)).error_code == 0


@in_trio
async def test_nobody_becomes_somebody_else(nursery: trio.Nursery) -> None:
    client = await logged_in(with_sessions(), nursery)
    await trio.sleep(2)
    await client.ask(handshake())
    answer = await client.ask(password("other", "bob"))
    told = "Cannot change principals during re-authentication from User.ann: User.bob"
    assert (answer.error_code, answer.error_message) == (58, told)
    assert await is_closed(client)


@in_trio
async def test_another_mechanism_is_agreed_to_and_then_the_connection_ends(nursery: trio.Nursery) -> None:
    client = await logged_in(with_sessions(), nursery)
    await trio.sleep(2)
    assert (await client.ask(handshake("SCRAM-SHA-256"))).error_code == 0
    await client.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=ann,r=x"))
    assert await is_closed(client)


@in_trio
async def test_twice_within_a_second_is_refused(nursery: trio.Nursery) -> None:
    client = await logged_in(with_sessions(), nursery)
    await client.ask(handshake())
    await client.ask(password("secret"))
    assert (await client.ask(handshake())).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await client.ask(METADATA)).error_code == 0


@in_trio
async def test_nothing_else_goes_on_while_a_session_begins_again(nursery: trio.Nursery) -> None:
    client = await logged_in(with_sessions(), nursery)
    await client.ask(handshake())
    assert (await client.ask(METADATA)).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert await is_closed(client)


# --- users come and go --------------------------------------------------------------------------------------------


@in_trio
async def test_a_changed_password_counts_for_the_next_connection(nursery: trio.Nursery) -> None:
    cluster = cluster_with_users()
    before = await logged_in(cluster, nursery)
    assert cluster.sasl is not None
    cluster.sasl.set_password("ann", "new")
    assert (await before.ask(METADATA)).error_code == 0
    client = MemoryClient(cluster, nursery)
    await client.ask(handshake())
    assert (await client.ask(password("secret"))).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_no_password_is_in_what_is_printed() -> None:
    assert repr(cluster_with_users().sasl) == (
        "<SaslServer: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER for ann, bob>"
    )
