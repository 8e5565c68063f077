"""Probes that tell causes apart: they find out what a port speaks, whatever the client's settings say."""

from __future__ import annotations

import socket
from dataclasses import replace

from kwire.config import Endpoint, SecurityProtocol
from kwire.errors import KafkaError
from kwire.network.broker_client import BrokerClient
from kwire.network.broker_connections import ConnectionAttempt
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest

LOOK_TIMEOUT_S = 3.0
HTTP = b"HTTP/"


class Probes:
    """Probes of one port. Each probe is a connection of its own, and changes nothing."""

    def __init__(self, client: BrokerClient, endpoint: Endpoint) -> None:
        self.config = client.config
        self._client = client
        self._endpoint = endpoint

    def shows_certificate(self) -> bool:
        """Whether the port speaks TLS."""
        try:
            return self._client.certificate(self._endpoint) is not None
        except KafkaError:
            return False

    def speaks_plain_kafka(self) -> bool:
        """Whether a broker answers at the port without TLS."""
        config = replace(self.config, security_protocol=SecurityProtocol.PLAINTEXT)
        try:
            with BrokerClient(config, LOOK_TIMEOUT_S) as client:
                client.reach(self._endpoint, ConnectionAttempt())
        except KafkaError:
            return False
        return True

    def speaks_http(self) -> bool:
        """Whether a web server answers at the port, without TLS."""
        try:
            with socket.create_connection(self._endpoint, min(LOOK_TIMEOUT_S, self._client.timeout_s)) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return connection.recv(len(HTTP), socket.MSG_WAITALL) == HTTP
        except OSError:
            return False

    def mechanisms(self) -> list[str]:
        """The SASL mechanisms of the listener; none if it has no SASL, or does not answer."""
        is_tls = self.config.security_protocol.is_tls
        protocol = SecurityProtocol.SSL if is_tls else SecurityProtocol.PLAINTEXT
        try:
            with BrokerClient(replace(self.config, security_protocol=protocol), LOOK_TIMEOUT_S) as client:
                answer = client.ask(SaslHandshakeRequest(mechanism="?"), self._endpoint, min_version=1)
        except KafkaError:
            return []
        return list(answer.mechanisms)
