"""`create_ssl_context`, as programs of aiokafka make theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

__all__ = ["create_ssl_context"]


def create_ssl_context(
    *,
    cafile: str | None = None,
    capath: str | None = None,
    cadata: str | bytes | None = None,
    certfile: str | None = None,
    keyfile: str | None = None,
    password: str | None = None,
    crlfile: str | None = None,
) -> ssl.SSLContext:
    """A context that checks brokers, and shows them a certificate if there is one. Without authorities it takes the
    system's."""
    import ssl  # few need it

    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=cafile, capath=capath, cadata=cadata)
    if crlfile is not None:
        context.load_verify_locations(crlfile)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context
