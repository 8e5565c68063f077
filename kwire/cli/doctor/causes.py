"""Causes of a failed step: from the step and its error to what is wrong, in one sentence, and what to do.

Pure, except for probes that tell two causes apart, which are passed as `Look`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Protocol

from kwire.config import ConsumerConfig, Endpoint
from kwire.errors import (
    IllegalSaslStateError,
    KafkaError,
    NoTokenError,
    ProtocolError,
    SaslAuthenticationError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kwire.network.broker_connections import Stage
from kwire.network.connection_errors import took_too_long
from kwire.network.tls_errors import advice_of

KAFKAS_PORT = 9092


@dataclass(frozen=True, slots=True)
class Cause:
    """What is wrong, and what to do.

    Attributes:
        is_about_address: Whether the address itself is wrong, and not the server that listens there.
    """

    said: str
    advice: str
    is_about_address: bool = False


class Look(Protocol):
    """Probes of a port, which do not use the settings in doubt."""

    @property
    def config(self) -> ConsumerConfig: ...

    def shows_certificate(self) -> bool: ...

    def speaks_plain_kafka(self) -> bool: ...

    def speaks_http(self) -> bool: ...

    def mechanisms(self) -> list[str]: ...


def cause_of(stage: Stage, error: KafkaError, server: Endpoint, look: Look) -> Cause:
    """The cause of the failure of a step."""
    match stage:
        case Stage.DNS:
            return _unknown_name(error, server)
        case Stage.TCP:
            return _no_connection(error, server)
        case Stage.TLS:
            return _no_tls(error, server, look)
        case Stage.VERSIONS:
            return _no_api_versions(error, server, look)
        case Stage.LOGIN:
            return _no_login(error, server, look)


def no_answer(error: KafkaError, server: Endpoint, look: Look) -> Cause:
    """Why a broker that has said what it speaks does not answer the first request."""
    protocol, mechanisms = look.config.security_protocol, look.mechanisms()
    if mechanisms and not protocol.is_sasl:
        wanted = "SASL_SSL" if protocol.is_tls else "SASL_PLAINTEXT"
        return Cause(
            f"{server} wants a login, and security_protocol={protocol.value} has none",
            f"set security_protocol={wanted}, sasl_mechanism to one that it offers ({', '.join(mechanisms)}), and the "
            "credentials (sasl_username, sasl_password)",
        )
    return Cause(f"{server} answers no request: {error}", "look into the broker's log for this client's address")


def _unknown_name(error: KafkaError, server: Endpoint) -> Cause:
    return Cause(
        f"the name {server.host} cannot be resolved on this machine: {_reason(error, server)}",
        "correct the name in bootstrap_servers, or have DNS or /etc/hosts know it; a name of Docker or Kubernetes is "
        "known within its network alone",
        is_about_address=True,
    )


def _no_connection(error: KafkaError, server: Endpoint) -> Cause:
    if took_too_long(error):
        said = f"{server} does not answer at all: something on the way drops what is sent there, or no machine is there"
        return Cause(said, "open the port in the firewall or security group, or correct the address", True)
    reason = _reason(error, server)
    if "refused" not in reason:
        return Cause(f"{server} takes no connection: {reason}", "look at the network and the address", True)
    usual = "" if server.port == KAFKAS_PORT else f"; Kafka's usual port is {KAFKAS_PORT}"
    return Cause(
        f"nothing listens at {server}: the connection is refused",
        f"start the broker, or correct the port: each listener has its own (listeners in server.properties){usual}",
        is_about_address=True,
    )


def _no_tls(error: KafkaError, server: Endpoint, look: Look) -> Cause:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        told = _reason(error, server).removesuffix(f"; {advice_of(cause)}")
        return Cause(f"the certificate of {server} is {told.removeprefix('is ')}", advice_of(cause))
    protocol = look.config.security_protocol
    if look.speaks_plain_kafka():
        plain = "SASL_PLAINTEXT" if protocol.is_sasl else "PLAINTEXT"
        return Cause(
            f"{server} is a listener without TLS, and security_protocol={protocol.value} begins with TLS",
            f"set security_protocol={plain}, or take the port of the listener with TLS",
        )
    if "does not speak TLS" in str(error):
        return Cause(
            f"{server} speaks neither TLS nor Kafka's protocol: something else listens there",
            "correct the host and the port in bootstrap_servers",
        )
    return Cause(f"the TLS handshake with {server} fails: {_reason(error, server)}", _ABOUT_TLS)


_ABOUT_TLS = (
    "compare ssl_enabled_protocols and the certificates with the listener's settings; a listener with "
    "ssl.client.auth=required wants ssl_keystore_location"
)

_ABOUT_PORTS = "correct host and port in bootstrap_servers; a REST proxy, a registry and ZooKeeper have others"


def _no_api_versions(error: KafkaError, server: Endpoint, look: Look) -> Cause:
    protocol = look.config.security_protocol
    if not protocol.is_tls and look.shows_certificate():
        wanted = "SASL_SSL" if protocol.is_sasl else "SSL (or SASL_SSL, if it wants a login)"
        return Cause(
            f"{server} is a listener with TLS, and security_protocol={protocol.value} is without",
            f"set security_protocol={wanted}, and ssl_truststore_location if the authority is your own",
        )
    if isinstance(
        error, SslAuthenticationError
    ):  # with TLS 1.3 a client is refused after its side of the handshake is complete
        return Cause(f"{server} does not accept this client: {_reason(error, server)}", _ABOUT_TLS)
    if isinstance(error, ProtocolError):
        return Cause(f"what listens at {server} is not Kafka: {_reason(error, server)}", _ABOUT_PORTS)
    if took_too_long(error):
        if look.speaks_http():  # some wait for the end of a line, which no request of Kafka has
            return Cause(f"what listens at {server} is not Kafka: it is a web server", _ABOUT_PORTS)
        return Cause(
            f"{server} takes the connection and says nothing: it is no broker, or one that hangs, or a proxy whose "
            "broker is gone",
            "look at the broker's log and load, and at what stands between",
        )
    return Cause(
        f"{server} hangs up when it is asked what it speaks: it is no broker, one older than Kafka 0.10, or one that "
        "is going down",
        "correct the port, or look into the broker's log; kwire reads from Kafka 2.1 and newer",
    )


_ABOUT_TOKENS = (
    "look at sasl_oauthbearer_token_endpoint_url and the credentials for it, and whether this machine reaches it; see "
    "docs/security.md"
)


def _no_login(error: KafkaError, server: Endpoint, look: Look) -> Cause:
    reason = _reason(error, server)
    config = look.config
    match error:
        case UnsupportedSaslMechanismError():
            offered = ", ".join(look.mechanisms()) or "none"
            return Cause(
                f"{server} does not offer sasl_mechanism={config.sasl_mechanism.value}; it offers {offered}",
                "set sasl_mechanism to one of these, with credentials of that kind",
            )
        case IllegalSaslStateError():
            plain = "SSL" if config.security_protocol.is_tls else "PLAINTEXT"
            return Cause(
                f"{server} is a listener without logins, and security_protocol={config.security_protocol.value} "
                "begins with one",
                f"set security_protocol={plain}, or take the port of the listener with SASL",
            )
        case NoTokenError():
            return Cause(f"there is no token to log in with: {reason}", _ABOUT_TOKENS)
        case SaslAuthenticationError():
            return Cause(
                f"{server} {reason}",
                "correct user name and password; a user has to exist for this very mechanism "
                f"({config.sasl_mechanism.value}) at the brokers",
            )
        case _:
            return Cause(f"the login at {server} fails: {reason}", "look into the broker's log")


def _reason(error: KafkaError, server: Endpoint) -> str:
    """The text of the error without the broker in front, which the sentence names."""
    return str(error).removeprefix(f"broker {server}").lstrip(": ").partition("; is this a")[0]
