"""How values of other clients' settings become kwire's."""

from __future__ import annotations

import re
from os import PathLike, fspath
from pathlib import Path

from kwire.config.foreign_names import spelled
from kwire.config.parsers import MAX_LONG, BadValueError, boolean, integer, refuse_content
from kwire.config.secret import Secret
from kwire.errors import ConfigError

_KIB = 1024
_KEY, _CERTIFICATE = (
    re.compile(rf"-----BEGIN [A-Z ]*{label}-----.*?-----END [A-Z ]*{label}-----", re.DOTALL)
    for label in ("PRIVATE KEY", "CERTIFICATE")
)


def kibibytes(value: object) -> int:
    """As bytes."""
    return integer(1).read(value) * _KIB


def buffer_bytes(value: object) -> object:
    """The size of a socket's buffer: librdkafka's 0, kafka-python's None leave it to the system."""
    return -1 if spelled(value) in ("", "0") else value


def refresh_interval_ms(value: object) -> object:
    """librdkafka's -1 turns it off: metadata is then asked for when something fails."""
    return MAX_LONG if spelled(value) == "-1" else value


def hostname_check(value: object) -> str:
    """`ssl_check_hostname` of kafka-python."""
    return "https" if boolean().read(value) else "none"


def grant_type(value: object) -> str:
    """The class of Java's that asks a login server in this way."""
    retrievers = {
        "client_credentials": "ClientCredentialsJwtRetriever",
        "urn:ietf:params:oauth:grant-type:jwt-bearer": "JwtBearerJwtRetriever",
    }
    if spelled(value) not in retrievers:
        raise BadValueError(f"valid: {', '.join(retrievers)}")
    return retrievers[spelled(value)]


def certificate_file(value: object) -> tuple[str, object]:
    """The file of this client's certificate: one that has the key as well is a key store of kwire's."""
    if value is None:
        return "ssl_keystore_certificate_chain", None
    text = _text_of(value)
    if "PRIVATE KEY-----" in text:
        return "ssl_keystore_location", value
    return "ssl_keystore_certificate_chain", text


def key_file(value: object) -> tuple[str, object]:
    """The file of this client's private key."""
    return "ssl_keystore_key", None if value is None else _text_of(value)


def settle_key_pair(values: dict[str, object]) -> None:
    """One file of certificate and key, and a file of a key, as other clients take them side by side: that key counts.
    If it is the first file's own, that file alone says all, and is read again when it is renewed.

    Raises:
        ConfigError: The file cannot be read.
    """
    store, key = values.get("ssl_keystore_location"), values.get("ssl_keystore_key")
    if store is None or not isinstance(key, Secret) or values.get("ssl_keystore_certificate_chain") is not None:
        return
    try:
        text = _text_of(store)
    except BadValueError as error:
        raise ConfigError(f"ssl_keystore_location: {error}") from None
    if set(_KEY.findall(key.reveal())) <= set(_KEY.findall(text)):
        del values["ssl_keystore_key"]
    elif certificates := _CERTIFICATE.findall(text):
        del values["ssl_keystore_location"]
        values["ssl_keystore_certificate_chain"] = "\n".join(certificates)


def _text_of(file: object) -> str:
    """Read once. One that is renewed while a client runs belongs into `ssl_keystore_location`, beside its key."""
    if not isinstance(file, str | PathLike):
        raise BadValueError("not the path of a file")
    refuse_content(str(file))
    try:
        return Path(fspath(file)).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadValueError(f"cannot read {fspath(file)}: {error.strerror}") from None
    except ValueError:
        raise BadValueError(f"{fspath(file)} is no PEM file") from None
