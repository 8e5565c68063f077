"""CertificateAuthority: certificates for test clusters and their clients, made on the fly. Needs kwire[testing].

    with CertificateAuthority() as authority:
        server = authority.issue("localhost", "127.0.0.1")
        client = authority.issue(common_name="alice")
        connect(ssl_truststore_location=authority.path, ssl_keystore_location=client.path)

Import the module only where it is needed: it imports trustme. `close`, or the end of the program, removes the files.
"""

from __future__ import annotations

import shutil
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from weakref import finalize

try:
    import trustme
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
except ModuleNotFoundError as error:
    raise ImportError("test certificates need trustme; install it with: pip install 'kwire[testing]'") from error

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

ORGANIZATION, UNIT = "kwire", "tests"
NO_HOST = "client.invalid"
"""The host name in clients' certificates (RFC 2606): Java cannot read a certificate without any alternative name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedCertificate:
    """A certificate with its private key, as PEM text and in files.

    Attributes:
        chain: The certificate, and the certificates of the authorities that have signed it.
        key: Its private key (PKCS #8), encrypted if a password was given.
        path: A file with the key and the chain: Kafka's keystore of type PEM.
        chain_path: A file with the chain alone.
        key_path: A file with the key alone.
    """

    chain: str
    key: str = field(repr=False)
    path: Path
    chain_path: Path
    key_path: Path


class CertificateAuthority:
    """Signs certificates of servers and clients. A context manager; `close` removes its files."""

    def __init__(self) -> None:
        self._authority = trustme.CA(organization_name=ORGANIZATION, organization_unit_name=UNIT)
        self._directory = Path(mkdtemp(prefix="kwire-certificates-"))
        self._remove = finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        self._issued = 0
        self.path = self._write("ca.pem", self.certificate)

    def __enter__(self) -> CertificateAuthority:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files."""
        self._remove()

    @property
    def certificate(self) -> str:
        """The authority's own certificate as PEM text, for trust stores. `path` is a file with it."""
        return self._authority.cert_pem.bytes().decode()

    def issue(
        self,
        *hosts: str,
        common_name: str | None = None,
        not_before: datetime | None = None,
        not_after: datetime | None = None,
        key_password: str | None = None,
    ) -> IssuedCertificate:
        """A certificate for a server by its host names and addresses, or for a client by its common name.

        Args:
            hosts: The names and addresses of a server.
            common_name: The name of a client: "alice" becomes the principal "User:CN=alice,OU=tests,O=kwire".
            not_before: When the certificate becomes valid; by default long ago.
            not_after: When the certificate expires; by default decades from now.
            key_password: The password that the private key is encrypted with; by default it is not encrypted.
        """
        made = self._authority.issue_cert(
            *(hosts or (NO_HOST,)),
            common_name=common_name,
            organization_name=ORGANIZATION,
            organization_unit_name=UNIT,
            not_before=not_before,
            not_after=not_after,
        )
        chain = "".join(blob.bytes().decode() for blob in made.cert_chain_pems)
        key = _pkcs8(made.private_key_pem.bytes(), key_password)
        self._issued += 1
        name = f"{self._issued}"
        return IssuedCertificate(
            chain=chain,
            key=key,
            path=self._write(f"{name}.pem", key + chain),
            chain_path=self._write(f"{name}.chain.pem", chain),
            key_path=self._write(f"{name}.key.pem", key),
        )

    def server_context(self, *hosts: str, client_auth: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
        """A TLS context for a server at these hosts. Clients' certificates have to be signed by this authority.

        Args:
            hosts: The names and addresses of the server.
            client_auth: Whether clients have to show a certificate.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.certificate)
        context.load_cert_chain(self.issue(*hosts).path)
        context.verify_mode = client_auth
        return context

    def _write(self, name: str, text: str) -> Path:
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path


def _pkcs8(pem: bytes, password: str | None) -> str:
    """The key as PKCS #8, the only form that Java reads."""
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
