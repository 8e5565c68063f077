"""Tokens from a login server: OAuth's grants over HTTPS (RFC 6749; RFC 7523 for assertions)."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from kwire.clock import wall_clock_ms
from kwire.config import ConsumerConfig, OAuthToken, Secret
from kwire.config.tls_values import in_ascii, tidy_pem
from kwire.network.login.arrival import number_of
from kwire.network.login.failures import TokenRequestError
from kwire.network.login.https import HttpAnswer, Timeouts, name_of, post

DEFAULT_TIMEOUT_MS = 10_000
# Errors of a server that may go away: it timed out, is not ready for this, or has had too many requests.
_RETRIABLE_STATUS = frozenset({408, 425, 429})
_MAX_PAUSE_MS = 3_600_000.0
_MAX_DESCRIPTION = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What is sent to a login server.

    Attributes:
        secrets: what its answer may repeat, and an error must not.
    """

    headers: dict[str, Secret]
    body: Secret
    secrets: tuple[Secret, ...]


class LoginServer:
    """Asks one login server. Credentials go to it alone: a redirect is an error that says where to.

    Args:
        make_request: builds the request of one attempt. An assertion holds the time of its signing, so each attempt
            has its own.
    """

    def __init__(self, config: ConsumerConfig, make_request: Callable[[], TokenRequest]) -> None:
        assert config.sasl_oauthbearer_token_endpoint_url is not None
        self._config = config
        self._url: SplitResult = urlsplit(config.sasl_oauthbearer_token_endpoint_url)
        self._make_request = make_request
        self.timeouts = Timeouts(
            connect_ms=config.sasl_login_connect_timeout_ms or DEFAULT_TIMEOUT_MS,
            read_ms=config.sasl_login_read_timeout_ms or DEFAULT_TIMEOUT_MS,
        )

    def __call__(self) -> OAuthToken:
        request = self._make_request()
        context = trust(self._config) if self._url.scheme == "https" else None
        asked_at_ms = wall_clock_ms()
        answer = post(self._url, request.headers, request.body, self.timeouts, context)
        name = name_of(self._url)
        if answer.status in (200, 201):
            return _token_of(answer.body, asked_at_ms, name)
        raise _refusal(answer, (*request.secrets, *map(Secret, self._config.secrets)), name)


def trust(config: ConsumerConfig) -> ssl.SSLContext:
    """Whom login servers' certificates are checked against: the system's authorities, and those that the settings of
    TLS name for brokers. Read each time, so that new files count.

    Raises:
        TokenRequestError: the trust store cannot be read.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if config.ssl_truststore_location is not None:
            text = config.ssl_truststore_location.read_text(encoding="utf-8", errors="replace")
            context.load_verify_locations(cadata=in_ascii(tidy_pem(text)))
        if config.ssl_truststore_certificates is not None:
            context.load_verify_locations(cadata=in_ascii(tidy_pem(config.ssl_truststore_certificates)))
        if config.ssl_context is not None and (trusted := config.ssl_context.get_ca_certs(binary_form=True)):
            context.load_verify_locations(cadata=b"".join(trusted))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        where = config.ssl_truststore_location or "ssl_truststore_certificates"
        raise TokenRequestError(
            f"the authorities to trust cannot be read from {where}: {error}", is_certain=True
        ) from error
    return context


def _token_of(body: bytes, asked_at_ms: float, name: str) -> OAuthToken:
    answer = _json(body)
    if answer is None:
        raise TokenRequestError(f"{name} answered what is no JSON object; is the URL right?", is_certain=True)
    value = answer.get("access_token") or answer.get("id_token")  # the second as the Java client has it
    if not isinstance(value, str) or not value.strip():
        raise TokenRequestError(f"{name} answered without an access_token that is text", is_certain=True)
    return OAuthToken(value.strip(), _end_ms(answer.get("expires_in"), asked_at_ms, name))


def _end_ms(expires_in: object, asked_at_ms: float, name: str) -> float | None:
    """The end by this machine's clock, so that a wrong one does no harm. Without it, the token's own claim is read."""
    if expires_in is None:
        return None
    if isinstance(expires_in, str) and len(expires_in) < 20 and expires_in.isascii() and expires_in.isdigit():
        expires_in = int(expires_in)  # some send it as text
    seconds = number_of(expires_in)
    if seconds is None:
        raise TokenRequestError(f"{name} answered with an expires_in that is no number", is_certain=True)
    return asked_at_ms + seconds * 1000.0


def _refusal(answer: HttpAnswer, secrets: tuple[Secret, ...], name: str) -> TokenRequestError:
    if 300 <= answer.status < 400:
        target = urlsplit(answer.location or "")
        where = f" to {target.scheme}://{target.hostname}{target.path}" if target.hostname else ""
        return TokenRequestError(
            f"{name} redirects{where} (HTTP {answer.status}); credentials are not sent there. If that is the right "
            "server, name it in sasl_oauthbearer_token_endpoint_url",
            is_certain=True,
        )
    said = _description(answer.body, secrets)
    if answer.status in _RETRIABLE_STATUS or answer.status >= 500 or answer.status < 400:
        return TokenRequestError(f"{name} answered HTTP {answer.status}{said}", pause_ms=_pause_ms(answer.retry_after))
    return TokenRequestError(f"{name} refuses to give a token: HTTP {answer.status}{said}", is_refused=True)


def _description(body: bytes, secrets: tuple[Secret, ...]) -> str:
    """What the server says is wrong (RFC 6749, 5.2), without what was sent to it."""
    answer = _json(body) or {}
    parts = [answer.get(name) for name in ("error", "error_description")]
    said = ": ".join(part for part in parts if isinstance(part, str) and part)
    for secret in secrets:
        said = said.replace(secret.reveal(), "<secret>")
    said = "".join(each if each.isprintable() else " " for each in said)
    return f", {said[:_MAX_DESCRIPTION]}" if said else ""


def _json(body: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _pause_ms(retry_after: str | None) -> float:
    """The header Retry-After, if it is a number of seconds; the date that it may be as well is not worth a parser."""
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit() or len(retry_after) > 9:
        return 0.0
    return min(int(retry_after) * 1000.0, _MAX_PAUSE_MS)
