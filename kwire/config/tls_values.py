"""What the settings of TLS hold: PEM text, the type of a store, a context of the user's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kwire.config.parsers import BadValueError, Parser, optional_text

if TYPE_CHECKING:
    import ssl

_BEGIN_LINE = re.compile(r"^-----BEGIN [A-Z0-9 ]+-----\s*$", re.MULTILINE)
_BLOCK = re.compile(
    r"(?:\s|\\[rn])*-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----(?:\s|\\[rn])*", re.DOTALL
)
_CONVERT_STORE = {
    "JKS": "keytool -importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12, and then "
    "openssl pkcs12 -in STORE.p12 -out STORE.pem",
    "PKCS12": "openssl pkcs12 -in STORE.p12 -out STORE.pem",
}


def pem_store_type() -> Parser[str | None]:
    """PEM, in which Python's ssl reads certificates and keys. Java's other stores are refused with the way to go."""

    def read(value: object) -> str | None:
        found = optional_text().read(value)
        if found is None or found.strip().upper() == "PEM":
            return None if found is None else "PEM"
        raise BadValueError(not_pem(found.strip().upper()))

    return Parser(read, "PEM, or None")


def not_pem(store_type: str) -> str:
    """Why a store of this type is refused, and the command that converts it."""
    convert = _CONVERT_STORE.get(store_type, _CONVERT_STORE["PKCS12"])
    return f"kwire reads PEM files; convert the {store_type} store with: {convert}"


def in_ascii(text: str) -> str:
    """PEM text for Python's ssl, which takes ASCII alone. `openssl pkcs12` writes names beside the blocks, where they
    mean nothing; OpenSSL itself reads over them."""
    return text.encode("ascii", "replace").decode("ascii")


def tidy_pem(text: str) -> str:
    """PEM text in lines, as OpenSSL wants it. What comes out of an environment variable or a properties file may be one
    line, or have a backslash and an n in the place of ends of lines; Java takes the first (DefaultSslEngineFactory)."""
    text = text.removeprefix("\ufeff")
    return text if _BEGIN_LINE.search(text) else _BLOCK.sub(_in_lines, text)


def _in_lines(block: re.Match[str]) -> str:
    body = block["body"].replace("\\r", "").replace("\\n", "\n")
    # An old encrypted key has headers, whose lines mean something.
    lines = body.strip().split("\n") if ":" in body else body.split()
    return "\n".join(("", f"-----BEGIN {block['label']}-----", *lines, f"-----END {block['label']}-----", ""))


def pem_text(label: str) -> Parser[str | None]:
    """PEM text with at least one block of that label."""
    begin = re.compile(rf"-----BEGIN [A-Z ]*{label}-----")
    text = optional_text()

    def read(value: object) -> str | None:
        found = text.read(value)
        if found is not None and not begin.search(found):
            raise BadValueError(f"no PEM text; it has no line -----BEGIN {label}-----")
        return found

    return Parser(read, f"PEM text with a {label}, or None")


def tls_context() -> Parser[ssl.SSLContext | None]:
    """A context for clients, which is used as it is."""

    def read(value: object) -> ssl.SSLContext | None:
        if value is None:
            return None
        import ssl

        if not isinstance(value, ssl.SSLContext):
            raise BadValueError("not an ssl.SSLContext")
        if value.protocol is ssl.PROTOCOL_TLS_SERVER:
            raise BadValueError("a context for servers; make one by ssl.create_default_context()")
        return value

    return Parser(read, "an ssl.SSLContext for clients, or None")
