"""TLS in front of the brokers: the same protocol inside, and nothing for clients that do not speak it."""

from __future__ import annotations

import socket
import ssl

from kwire.conformance.client import BrokerAddress, RawConnection
from kwire.protocol.framing import Framing
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing import Cluster

TIMEOUT_S = 10.0


def anonymous(protocol: int) -> ssl.SSLContext:
    """TLS that needs no certificate; good for nothing but tests."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
    return context


def test_a_client_that_speaks_tls_is_answered() -> None:
    with Cluster(tls=anonymous(ssl.PROTOCOL_TLS_SERVER), topics={"orders": 1}) as cluster:
        address = BrokerAddress.parse(cluster.bootstrap_servers)
        framing = Framing("test")
        with (
            socket.create_connection(address, TIMEOUT_S) as plain,
            anonymous(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(plain) as wrapped,
        ):
            wrapped.sendall(framing.send(MetadataRequest(topics=None), 9))
            answers = framing.received(wrapped.recv_into(framing.writable_buffer()))
    response = answers[0].response
    assert isinstance(response, MetadataResponse)
    assert [topic.name for topic in response.topics] == ["orders"]


def test_a_client_that_does_not_is_sent_away_and_others_are_served() -> None:
    with Cluster(tls=anonymous(ssl.PROTOCOL_TLS_SERVER)) as cluster:
        address = BrokerAddress.parse(cluster.bootstrap_servers)
        with RawConnection(address, TIMEOUT_S) as connection:
            connection.send_bytes(Framing("test").send(MetadataRequest(topics=None), 9))
            assert connection.closes_within(TIMEOUT_S)
        with (
            socket.create_connection(address, TIMEOUT_S) as plain,
            anonymous(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(plain) as wrapped,
        ):
            assert wrapped.version() == "TLSv1.2"
