"""One POST to a login server, in a worker thread: bounded in time and size, and redirected nowhere.

Nothing of what is sent is left in the errors that come of it: neither in their text nor in the frames of their
traceback, where tools that report crashes collect local variables.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from kwire.clock import Deadline
from kwire.config import Secret
from kwire.network.login.failures import TokenRequestError, bare
from kwire.network.login.proxy import proxy_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# Answers have a few KB. What is larger comes from somewhere else.
MAX_ANSWER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long connecting may take, and how long the answer to what was sent."""

    connect_ms: float
    read_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What the server said. `repr` does not show the body: a token stands in it."""

    status: int
    body: bytes = field(repr=False)
    retry_after: str | None
    location: str | None


def post(
    url: SplitResult, headers: Mapping[str, Secret], body: Secret, timeouts: Timeouts, context: ssl.SSLContext | None
) -> HttpAnswer:
    """Send a form and read the answer.

    Raises:
        TokenRequestError: there was none, within the timeouts, that could be read.
    """
    connection = _connected(url, timeouts.connect_ms, context)
    connected: socket.socket = connection.sock
    connection.sock = _DeadlineSocket(connected, Deadline.after(timeouts.read_ms))
    try:
        return _exchange(connection, url, headers, body)
    except TimeoutError:
        raise TokenRequestError(f"{name_of(url)} has not answered within {timeouts.read_ms:.0f} ms") from None
    except OSError as error:
        raise TokenRequestError(f"{name_of(url)} gave no answer: {_reason(error)}") from bare(error)
    except (ValueError, http.client.HTTPException) as error:  # these hold what has come, or what was sent
        raise TokenRequestError(f"{name_of(url)} gave no answer: {_reason(error)}") from None
    finally:
        connected.close()


def _exchange(
    connection: http.client.HTTPConnection, url: SplitResult, headers: Mapping[str, Secret], body: Secret
) -> HttpAnswer:
    target = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
    connection.request(
        "POST", target, body.reveal().encode(), {name: value.reveal() for name, value in headers.items()}
    )
    answer = connection.getresponse()
    data = answer.read(MAX_ANSWER_BYTES + 1)
    if len(data) > MAX_ANSWER_BYTES:
        raise TokenRequestError(
            f"{name_of(url)} answered more than {MAX_ANSWER_BYTES} bytes; is it a login server?", is_certain=True
        )
    if answer.length:  # http.client tells of it only where the answer comes in chunks
        raise http.client.IncompleteRead(b"", answer.length)
    return HttpAnswer(
        status=answer.status,
        body=data,
        retry_after=answer.getheader("Retry-After"),
        location=answer.getheader("Location"),
    )


def _connected(url: SplitResult, timeout_ms: float, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    try:
        connection = _connection(url, timeout_ms / 1000.0, context)
        connection.connect()  # which closes what it has opened, if it fails
    except ssl.SSLCertVerificationError as error:
        raise TokenRequestError(
            f"the certificate of {name_of(url)} is not trusted: {error.verify_message}. If an authority of your own "
            "has signed it, give ssl_truststore_location, or SSL_CERT_FILE in the environment",
            is_certain=True,
        ) from bare(error)
    except TimeoutError:
        raise TokenRequestError(f"{name_of(url)} could not be connected to within {timeout_ms:.0f} ms") from None
    except OSError as error:
        raise TokenRequestError(f"{name_of(url)} cannot be reached: {_reason(error)}") from bare(error)
    except (ValueError, http.client.InvalidURL) as error:  # a name that is none; UnicodeError is a ValueError
        raise TokenRequestError(f"{name_of(url)} has no valid address: {error}", is_certain=True) from error
    return connection


def _connection(url: SplitResult, timeout_seconds: float, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    assert url.hostname is not None
    if url.scheme == "http":  # on this machine, for tests
        return http.client.HTTPConnection(url.hostname, url.port or 80, timeout=timeout_seconds)
    proxy = proxy_of(url.hostname)
    if proxy is None:
        return http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=timeout_seconds, context=context)
    tunnel = http.client.HTTPSConnection(proxy.host, proxy.port, timeout=timeout_seconds, context=context)
    tunnel.set_tunnel(url.hostname, url.port or 443, {name: text.reveal() for name, text in proxy.headers.items()})
    return tunnel


def name_of(url: SplitResult) -> str:
    """The server in an error. A query may hold more than others should read."""
    return f"the login server {url.scheme}://{url.netloc}{url.path}"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    if isinstance(error, http.client.IncompleteRead):
        return "it has hung up in the middle of it"
    return f"it is no HTTP ({type(error).__name__})"


class _DeadlineSocket:
    """What `http.client` needs of a socket. All that is sent and received has one deadline: a timeout for each read
    would let a server that sends a byte now and then take for ever."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket = connected
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._limit()
        self._socket.sendall(data)

    def recv_into(self, buffer: memoryview) -> int:
        self._limit()
        return self._socket.recv_into(buffer)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Readable(self))

    def close(self) -> None:
        """Does nothing: it is called when the head of an answer says that this is the last one, before it is read."""

    def _limit(self) -> None:
        left_ms = self._deadline.remaining_ms()
        if left_ms <= 0:
            raise TimeoutError
        self._socket.settimeout(left_ms / 1000.0)


class _Readable(io.RawIOBase):
    """The socket as a file."""

    def __init__(self, source: _DeadlineSocket) -> None:
        super().__init__()
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # io hands out exactly this
        return self._source.recv_into(buffer)
