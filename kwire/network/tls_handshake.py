"""The TLS handshake of one connection, and the look at a certificate that is not trusted."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

import trio

from kwire.errors import DisconnectError
from kwire.model import Node
from kwire.network.tls import TlsStream
from kwire.network.tls_errors import handshake_failure
from kwire.network.transport import ByteStream

LOOK_TIMEOUT_S = 5.0


async def shake_hands(
    stream: ByteStream, context: ssl.SSLContext, node: Node, redial: Callable[[], Awaitable[ByteStream]]
) -> TlsStream:
    """The same connection, encrypted.

    Args:
        redial: Connects once more, to see which certificate it is that is not trusted.

    Raises:
        SslAuthenticationError: The two sides do not accept each other.
        DisconnectError: The broker hung up.
        OSError: The connection broke.
    """
    name = node.host.rstrip(".")
    encrypted = TlsStream(stream, context, name)
    try:
        await encrypted.do_handshake()
    except EOFError:
        raise DisconnectError("it hung up during the TLS handshake") from None
    except ssl.SSLError as error:
        is_untrusted = isinstance(error, ssl.SSLCertVerificationError)
        shown = await look_at_certificate(redial, name) if is_untrusted else None
        raise handshake_failure(error, node, shown) from error
    return encrypted


async def look_at_certificate(
    redial: Callable[[], Awaitable[ByteStream]], name: str, timeout_s: float = LOOK_TIMEOUT_S
) -> bytes | None:
    """The certificate that the broker shows (DER), or None if it cannot be seen in time.

    OpenSSL does not hand out a certificate that it does not trust. So a second connection is made that trusts anything,
    says nothing, and ends.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with trio.move_on_after(timeout_s):
        try:
            stream = TlsStream(await redial(), trusting, name)
        except OSError:
            return None
        try:
            await stream.do_handshake()
            return stream.peer_certificate
        except (OSError, EOFError):
            return None
        finally:
            with trio.CancelScope(shield=True):
                await stream.aclose()
    return None
