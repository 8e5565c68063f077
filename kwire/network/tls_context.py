"""The TLS context: trusted authorities, and this client's key and certificate. It is rebuilt when files change."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kwire.config import EndpointIdentification, Secret, SecurityConfig, TlsVersion
from kwire.config.tls_values import in_ascii, not_pem, tidy_pem
from kwire.errors import ConfigError
from kwire.logs import part_logger

log = part_logger("network")

_VERSIONS = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE = b"\x30"
# As OpenSSL finds it: what stands within a line is none.
_CERTIFICATE = re.compile("^-----BEGIN CERTIFICATE-----.*?^-----END CERTIFICATE-----", re.DOTALL | re.MULTILINE)

_Signature = tuple[tuple[int, int, int], ...]


class TlsContexts:
    """The context that the next connection uses.

    Certificates are renewed while clients run: each new connection checks whether the files have changed, and reads
    them again if so. New files that cannot be used (somebody is just writing them) are told of in the log, and the ones
    before stay in use.

    Raises:
        ConfigError: The files, or the texts, cannot be used.
    """

    def __init__(self, config: SecurityConfig) -> None:
        self._config = config
        self._files = [path for path in (config.ssl_truststore_location, config.ssl_keystore_location) if path]
        self._signature = self._sign()
        self.own_certificate: bytes | None = None
        self._context = config.ssl_context or self._make()

    def current(self) -> ssl.SSLContext:
        """The context for a connection that is made now."""
        signature = self._sign()
        if signature != self._signature:
            self._signature = signature
            try:
                self._context = self._make()
                log.info("certificates have changed: new connections use those in %s", self._names)
            except ConfigError as error:
                log.warning("certificates have changed, but the ones before stay in use: %s", error)
            except Exception:  # the system may have no descriptor left: connections are made all the same
                log.exception("certificates have changed, but the ones before stay in use")
        return self._context

    def _make(self) -> ssl.SSLContext:
        context, self.own_certificate = make_context(self._config)
        return context

    @property
    def _names(self) -> str:
        return ", ".join(map(str, self._files))

    def _sign(self) -> _Signature:
        """What tells a file from the one that was there before."""
        return tuple(_sign(path) for path in self._files)


def _sign(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def make_context(config: SecurityConfig) -> tuple[ssl.SSLContext, bytes | None]:
    """A context as the settings say, and this client's certificate, if it has one. Raises: ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = [_VERSIONS[version] for version in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.check_hostname = config.ssl_endpoint_identification_algorithm is EndpointIdentification.HTTPS
    _trust(context, config)
    return context, _identify(context, config)


def _trust(context: ssl.SSLContext, config: SecurityConfig) -> None:
    if config.ssl_truststore_location is not None:
        text, name = _read(config.ssl_truststore_location, "ssl_truststore_location"), "ssl_truststore_location"
    elif config.ssl_truststore_certificates is not None:
        text, name = config.ssl_truststore_certificates, "ssl_truststore_certificates"
    else:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=in_ascii(tidy_pem(text)))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{name} has no certificate that can be read: {_reason(error)}") from None


def _identify(context: ssl.SSLContext, config: SecurityConfig) -> bytes | None:
    if config.ssl_keystore_location is not None:
        name = "ssl_keystore_location"
        text = tidy_pem(_read(config.ssl_keystore_location, name))
    elif config.ssl_keystore_certificate_chain is not None and config.ssl_keystore_key is not None:
        name = "ssl_keystore_key"
        parts = (config.ssl_keystore_key.reveal(), config.ssl_keystore_certificate_chain)
        text = "".join(f"{tidy_pem(part).strip()}\n" for part in parts)
    else:
        return None
    text = in_ascii(text)
    if (certificate := _CERTIFICATE.search(text)) is None:
        raise ConfigError(f"{name} has no certificate: put the client's chain in PEM form behind its key")
    _load_chain(context, text, config.ssl_key_password, name)
    return ssl.PEM_cert_to_DER_cert(certificate.group())


def _load_chain(context: ssl.SSLContext, text: str, password: Secret | None, name: str) -> None:
    if "PRIVATE KEY-----" not in text:
        raise ConfigError(f"{name} has no private key: put the key in PEM form (PKCS#8) before its certificates")
    if "ENCRYPTED" in text and password is None:
        raise ConfigError(f"the private key in {name} is encrypted: give ssl_key_password")
    try:
        with _as_file(text) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=lambda: password.reveal() if password is not None else "")
    except (ssl.SSLError, ValueError) as error:  # ValueError: of a password that is too long
        # OpenSSL does not always say that it could not decrypt.
        is_encrypted = "ENCRYPTED" in text and getattr(error, "reason", None) != "KEY_VALUES_MISMATCH"
        reason = "ssl_key_password is wrong, or the key damaged" if is_encrypted else _reason(error)
        raise ConfigError(f"the key and certificates in {name} cannot be used: {reason}") from None


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A file that OpenSSL can read: in memory where the system has that, so that no disk keeps the key."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("kwire-keystore"), "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.TemporaryDirectory() as folder:  # for this user alone
        path = Path(folder, "keystore.pem")
        path.write_text(text, encoding="ascii")
        yield str(path)


def _read(path: Path, name: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}={str(path)!r} cannot be read: {error.strerror or error}") from None
    if data.startswith(_JKS_MAGIC):
        raise ConfigError(f"{name}={str(path)!r} is a JKS store; {not_pem('JKS')}")
    if data.startswith(_DER_SEQUENCE):
        raise ConfigError(f"{name}={str(path)!r} is no PEM file, perhaps a PKCS12 store; {not_pem('PKCS12')}")
    if b"-----BEGIN" not in data:
        raise ConfigError(f"{name}={str(path)!r} is no PEM file: it has no line that begins with -----BEGIN")
    return data.decode("utf-8", errors="replace")


def _reason(error: Exception) -> str:
    found = getattr(error, "reason", None)
    return found.lower().replace("_", " ") if found else str(error) or type(error).__name__
