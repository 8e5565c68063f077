"""SASL PLAIN: who does not authenticate gets nothing, who does is somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import ClusterState

if TYPE_CHECKING:
    from kwire.testing.cluster.request_context import RequestContext
    from tests.testing.cluster.in_memory import MemoryClient, in_trio
else:
    from in_memory import MemoryClient, in_trio

PLAIN = SaslHandshakeRequest(mechanism="PLAIN")


def cluster_with_users() -> ClusterState:
    return ClusterState(settings=BrokerSettings(sasl_users=(("ann", "secret"),)))


def password(text: str) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=f"\0ann\0{text}".encode())


@in_trio
async def test_the_right_password_opens_the_connection(nursery: trio.Nursery) -> None:
    cluster = cluster_with_users()
    principals: list[str] = []

    def see(_request: MetadataRequest, call: RequestContext) -> None:
        principals.append(call.principal)

    cluster.control.on(MetadataRequest).observe(see)
    client = MemoryClient(cluster, nursery)
    await client.ask(ApiVersionsRequest(client_software_name="k", client_software_version="1"))
    assert (await client.ask(PLAIN)).error_code == 0
    assert (await client.ask(password("secret"))).error_code == 0
    await client.ask(MetadataRequest(topics=[]))
    assert principals == ["User:ann"]


@in_trio
async def test_the_wrong_password_is_answered_and_then_the_connection_ends(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    await client.ask(PLAIN)
    answer = await client.ask(password("guess"))
    assert (answer.error_code, answer.error_message) == (58, "Authentication failed: Invalid username or password")
    with pytest.raises(EOFError):
        await client.ask(PLAIN)


@in_trio
async def test_a_mechanism_there_is_not_is_answered_with_those_there_are(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    answer = await client.ask(SaslHandshakeRequest(mechanism="GSSAPI"))
    assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN"])
    with pytest.raises(EOFError):
        await client.ask(PLAIN)


@in_trio
async def test_without_authentication_the_connection_ends(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    with pytest.raises(EOFError):
        await client.ask(MetadataRequest(topics=[]))


@in_trio
async def test_authenticating_needs_a_handshake(nursery: trio.Nursery) -> None:
    client = MemoryClient(cluster_with_users(), nursery)
    assert (await client.ask(password("secret"))).error_code == 34
