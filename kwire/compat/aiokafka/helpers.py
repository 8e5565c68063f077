"""`create_ssl_context`, as aiokafka has it."""

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
    """An SSL context that checks brokers' certificates, and shows them the client's if there is one. Without
    authorities it trusts the system's."""
    import ssl  # few programs need it

    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=cafile, capath=capath, cadata=cadata)
    if crlfile is not None:
        context.load_verify_locations(crlfile)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context
