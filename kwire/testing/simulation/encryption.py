"""TLS in a world: certificates, and contexts that report what they encrypt. Needs kwire[testing].

The random bytes of TLS are OpenSSL's own, which no seed decides. So that a seed's run is the same each time, nothing
goes by them but the contents of what is sent: every record of the handshake is as long each time. That takes an RSA key
(signatures of ECDSA vary in length), one fixed form of the certificate, and no session tickets.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
except ModuleNotFoundError as error:
    raise ImportError("certificates need cryptography; install it with: pip install 'kwire[testing]'") from error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

KEY_BITS = 2048
BEGIN, END = datetime(2000, 1, 1, tzinfo=UTC), datetime(2049, 1, 1, tzinfo=UTC)
SERIAL_NUMBER = 1


def server_context(hosts: Sequence[str], on_plain: Callable[[bytes], None]) -> ssl.SSLContext:
    """The brokers' TLS context. `on_plain` is called with the bytes that they encrypt."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "broker.pem")
        path.write_text(_key_and_certificate(tuple(hosts)), encoding="ascii")
        context.load_cert_chain(path)
    return _telling(context, on_plain)


def client_context(hosts: Sequence[str], on_plain: Callable[[bytes], None]) -> ssl.SSLContext:
    """A client's TLS context, which trusts these brokers. `on_plain` is called with the bytes that it encrypts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=_key_and_certificate(tuple(hosts)))
    return _telling(context, on_plain)


def _telling(context: ssl.SSLContext, on_plain: Callable[[bytes], None]) -> ssl.SSLContext:
    class Telling(ssl.SSLObject):
        """The TLS of one connection, which reports the bytes that it is given to encrypt."""

        def write(self, data: ReadableBuffer) -> int:
            on_plain(bytes(data))
            return super().write(data)

    context.sslobject_class = Telling
    return context


@lru_cache
def _key_and_certificate(hosts: tuple[str, ...]) -> str:
    """A self-signed certificate and its key, as PEM text."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "brokers")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), SERIAL_NUMBER, BEGIN, END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (private + certificate.public_bytes(Encoding.PEM)).decode()
