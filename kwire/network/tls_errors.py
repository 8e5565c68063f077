"""What TLS says when it fails -> what that means, which certificate is concerned, and what to do."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from kwire.errors import DisconnectError, KafkaError, SslAuthenticationError
from kwire.model import Node
from kwire.network.certificates import describe

_TRUST = "give the authority that issued it by ssl_truststore_location or ssl_truststore_certificates"
_NAME = (
    "reach the broker by a name that its certificate has (advertised.listeners), or, if any name will do, set "
    "ssl_endpoint_identification_algorithm to none"
)
# What to do, by OpenSSL's codes (X509_V_ERR_...).
_ADVICE: Mapping[int, str] = {
    2: _TRUST,
    18: _TRUST,
    19: _TRUST,
    20: _TRUST,
    21: _TRUST,
    9: "look at this machine's clock, or wait",
    10: "the broker needs a new one; look at this machine's clock as well",
    62: _NAME,
    64: _NAME,
}
_UNRECOGNIZED = "the broker, or a proxy in front of it, does not know itself by this name"
_OWN = "the broker refuses this client's certificate"
# What the broker has told us by an alert, or what it must be that has answered, by OpenSSL's names.
_MEANING: Mapping[str, str] = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker wants a certificate of this client: give ssl_keystore_location",
    "SSLV3_ALERT_BAD_CERTIFICATE": f"{_OWN}, or misses one: see ssl_keystore_location",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{_OWN}: it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": f"{_OWN}: it is revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": f"{_OWN}: it does not trust it, or it has expired",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": f"{_OWN}: it is of a kind that it does not take",
    "TLSV1_ALERT_UNKNOWN_CA": f"{_OWN}: it does not know the authority that issued it",
    "TLSV1_ALERT_ACCESS_DENIED": f"{_OWN}: it may not connect",
    "TLSV1_ALERT_DECRYPT_ERROR": f"{_OWN}: its signature is wrong",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "client and broker have no cipher in common, or it wants a certificate of this "
    "client: see ssl_enabled_protocols and ssl_keystore_location",
    "TLSV1_ALERT_PROTOCOL_VERSION": "client and broker speak no common version of TLS: see ssl_enabled_protocols",
    "UNSUPPORTED_PROTOCOL": "client and broker speak no common version of TLS: see ssl_enabled_protocols",
    "TLSV1_UNRECOGNIZED_NAME": _UNRECOGNIZED,
    "TLSV1_ALERT_UNRECOGNIZED_NAME": _UNRECOGNIZED,
}
_NO_TLS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_TOO_SMALL", "PACKET_LENGTH_TOO_LONG", "BAD_RECORD_TYPE"}
)


def advice_of(error: ssl.SSLCertVerificationError) -> str:
    """What to do about a certificate that is not trusted."""
    return _ADVICE.get(error.verify_code, _TRUST)


def is_about_the_name(error: KafkaError) -> bool:
    """Whether a broker is refused, or refuses, for the name that it was reached by; others may reach it by another."""
    return isinstance(error, SslAuthenticationError) and str(error).endswith((_NAME, _UNRECOGNIZED))


def handshake_failure(error: ssl.SSLError, node: Node, shown: bytes | None) -> KafkaError:
    """Why there is no connection.

    Args:
        error: What TLS has raised.
        node: The broker.
        shown: The certificate that the broker shows (DER), where it is the one that is not liked.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = (error.verify_message or str(error)).rstrip(".")
        certificate = f"; its certificate: {describe(shown)}" if shown else ""
        return SslAuthenticationError(f"broker {node} is not trusted: {reason}{certificate}; {advice_of(error)}")
    if error.reason in _NO_TLS:
        return SslAuthenticationError(
            f"broker {node} does not speak TLS at this port; is security_protocol right, or is it another's port?"
        )
    return alert(error, node) or SslAuthenticationError(f"broker {node}: the TLS handshake failed: {_plain(error)}")


def alert(error: ssl.SSLError, node: Node, own: bytes | None = None) -> KafkaError | None:
    """What the broker has said by an alert that tells who is not accepted; None if it is no such alert.

    TLS 1.3 lets the broker look at the client's certificate when the client is through already: so it may come with
    the first answer.
    """
    meaning = _MEANING.get(error.reason or "")
    if meaning is None:
        return None
    certificate = f"; this client's certificate: {describe(own)}" if own and "certificate" in meaning else ""
    return SslAuthenticationError(f"broker {node}: {meaning}{certificate}")


def broken(error: ssl.SSLError, node: Node, own: bytes | None) -> KafkaError:
    """Why a connection that was there has ended."""
    return alert(error, node, own) or DisconnectError(f"broker {node}: TLS failed: {_plain(error)}")


def _plain(error: ssl.SSLError) -> str:
    return error.reason.lower().replace("_", " ") if error.reason else str(error)
