"""The in-process cluster says to each SASL conversation what a real broker says to it, up to closing the connection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from kwire.conformance.client import BrokerAddress, ClientConnection
from kwire.errors import DisconnectError
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.schema import Message, Request
from kwire.testing import Cluster
from kwire.testing.cluster.sasl.unsecured_jws import unsecured_jws
from kwire.testing.kafka import KafkaCluster, Security

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.kafkas import SECURED_USERS, Side
else:
    from kafkas import SECURED_USERS, Side

pytestmark = [pytest.mark.only(Side.KAFKA, reason="compares both by itself"), pytest.mark.slow]

TIMEOUT_S = 10.0
SESSION_MS = 1_500
SESSION = "connections.max.reauth.ms"

Step = tuple[Request[Message], int] | bytes | float
"""A request in a version; a bare frame; or seconds to wait, which is what this is about: real brokers have no other
clock than everybody's."""

METADATA, BEAT = (MetadataRequest(topics=[]), 13), (HeartbeatRequest(group_id="g"), 4)
VERSIONS = (ApiVersionsRequest(client_software_name="k", client_software_version="1"), 4)
NO_NAME = (ApiVersionsRequest(), 4)


def hands(mechanism: str, version: int = 1) -> Step:
    return (SaslHandshakeRequest(mechanism=mechanism), version)


def says(data: str) -> Step:
    return (SaslAuthenticateRequest(auth_bytes=data.encode()), 2)


def bare(data: str) -> bytes:
    return len(data.encode()).to_bytes(4, "big") + data.encode()


ALICE, BOB = says("\0alice\0alice-secret"), says("\0bob\0bob-secret")
PLAIN, TOKENS, SCRAM = hands("PLAIN"), hands("OAUTHBEARER"), hands("SCRAM-SHA-256")
NOW_S = time.time()
OLD = unsecured_jws("eve", issued_at_s=NOW_S - 100, expires_at_s=NOW_S - 50)

CONVERSATIONS: dict[str, Sequence[Step]] = {
    "no login": [METADATA],
    "no handshake": [ALICE],
    "versions twice": [VERSIONS, VERSIONS],
    "versions without a name, then with": [NO_NAME, VERSIONS, PLAIN, ALICE, METADATA],
    "versions, then another request": [VERSIONS, METADATA],
    "unknown mechanism": [hands("GSSAPI"), PLAIN],
    "handshake twice": [PLAIN, PLAIN, ALICE],
    "versions in the exchange": [PLAIN, VERSIONS, ALICE],
    "heartbeat in the exchange": [PLAIN, BEAT, ALICE],
    "login by PLAIN": [PLAIN, ALICE, METADATA],
    "wrong password": [PLAIN, says("\0alice\0guess"), ALICE],
    "unknown user": [PLAIN, says("\0eve\0guess")],
    "no name": [PLAIN, says("\0\0guess")],
    "no password": [PLAIN, says("\0alice\0")],
    "two parts": [PLAIN, says("alice\0alice-secret")],
    "for somebody else": [PLAIN, says("bob\0alice\0alice-secret")],
    "SCRAM, unknown user": [SCRAM, says("n,,n=eve,r=abc")],
    "SCRAM, with channel binding": [SCRAM, says("y,,n=alice,r=abc")],
    "SCRAM, for somebody else": [SCRAM, says("n,a=bob,n=alice,r=abc")],
    "SCRAM, nonsense": [SCRAM, says("hello")],
    "token too old": [TOKENS, says(f"n,,\x01auth=Bearer {OLD}\x01\x01"), says("\x01"), ALICE],
    "token that is none": [TOKENS, says("n,,\x01auth=Bearer nonsense\x01\x01"), says("\x01")],
    "no token": [TOKENS, says("n,,\x01\x01")],
    "confirmation of nothing": [TOKENS, says("\x01")],
    "bare token": [hands("PLAIN", 0), bare("\0alice\0alice-secret"), METADATA],
    "bare token, wrong": [hands("PLAIN", 0), bare("\0alice\0guess")],
    "frame too large": [(524_289).to_bytes(4, "big")],
}

SESSIONS: dict[str, Sequence[Step]] = {
    "again at once, and once more": [PLAIN, ALICE, PLAIN, ALICE, PLAIN, METADATA],
    "again by another mechanism": [PLAIN, ALICE, SCRAM, says("n,,n=alice,r=abc")],
    "as somebody else": [PLAIN, ALICE, PLAIN, BOB],
    "another request in between": [PLAIN, ALICE, PLAIN, BEAT],
    "with a wrong password": [PLAIN, ALICE, PLAIN, says("\0alice\0guess")],
    "too late": [PLAIN, ALICE, 2.0, METADATA],
    "late, but again": [PLAIN, ALICE, 2.0, PLAIN, ALICE, METADATA],
}


@pytest.fixture(scope="module")
def with_sessions() -> Iterator[KafkaCluster]:
    with KafkaCluster(settings={SESSION: str(SESSION_MS)}, security=Security(users=SECURED_USERS)) as kafka:
        yield kafka


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversations(name: str, secured_kafka: KafkaCluster) -> None:
    with Cluster(users=SECURED_USERS) as fake:
        steps = CONVERSATIONS[name]
        assert told(fake.bootstrap_servers, steps) == told(secured_kafka.bootstrap("SASL_PLAINTEXT"), steps)


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions(name: str, with_sessions: KafkaCluster) -> None:
    with Cluster(users=SECURED_USERS, settings={SESSION: SESSION_MS}) as fake:
        steps = SESSIONS[name]
        assert told(fake.bootstrap_servers, steps) == told(with_sessions.bootstrap("SASL_PLAINTEXT"), steps)


def told(bootstrap: str, steps: Sequence[Step]) -> list[object]:
    """What comes back, step by step, until the connection closes."""
    answers: list[object] = []
    with ClientConnection(BrokerAddress.parse(bootstrap), TIMEOUT_S) as connection:
        try:
            answers.extend(taken(connection, step) for step in steps)
        except DisconnectError:
            answers.append("closed")
    return answers


def taken(connection: ClientConnection, step: Step) -> object:
    if isinstance(step, float):
        time.sleep(step)
        return "waited"
    if isinstance(step, bytes):
        connection.send_bytes(step)
        return connection.read_frame()
    return gist(connection.ask(*step))


def gist(answer: Message) -> object:
    """What has to be the same; mechanisms come in any order."""
    names = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")
    return (
        type(answer).__name__,
        *(getattr(answer, name, None) for name in names),
        sorted(getattr(answer, "mechanisms", [])),
    )
