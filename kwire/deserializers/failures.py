"""What a deserializer's exception means: whose fault it is, and what to do.

Exceptions of confluent-kafka and its HTTP client are known by their classes' names, so nothing of them is loaded.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import NamedTuple

from kwire.deserializers.blame import (
    answer_to_client,
    is_of_client,
    is_of_lookup_by_guid,
    is_of_schema,
    kinds_of,
    location_of_redirect,
    type_of_another_schema,
)
from kwire.deserializers.registry import MAX_SCHEMA, NOBODY, Asked, FrameError, no_such_number, without_password

_NOT_FOUND = 404
_OF_CONNECTIONS = {"httpx.TransportError", "httpx2.TransportError"}
# What servers answer, or do not: a registry, of schemas or keys, and one of tokens.
_OF_SERVERS = {"confluent_kafka.SchemaRegistryError", "confluent_kafka.OAuthTokenError", *_OF_CONNECTIONS}
# How a registry says that it has no such subject, version or schema. Another 404 is of something that is no registry.
_NOT_REGISTERED = (40401, 40402, 40403)
# How a registry says that it has no such path.
_NO_RESOURCE = 404
_REFUSALS = (401, 403)
# Of the refusals, those that pass: a request that took too long, too many requests.
_PASSING = (408, 429)
_PASSING_OF_OAUTH = ("server_error", "temporarily_unavailable")
# What TLS says of a connection that ended in the midst of it, as it may when a server is started again.
_BROKEN_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
# Classes of the HTTP client: a URL or a header that it cannot send.
_OF_SETTINGS = ("UnsupportedProtocol", "LocalProtocolError")
# A server that speaks TLS ends a connection that does not; so does any other that goes down.
_OF_ENDED_CONNECTIONS = ("ReadError", "RemoteProtocolError")


class Failure(NamedTuple):
    """Why some bytes could not be deserialized.

    Attributes:
        reason: What happened.
        advice: What to do; None if it is for the record alone, so that stepping over it is what to do.
        is_outage: Whether the same will succeed later: a schema registry did not answer.
        is_of_registry: Whether a schema registry is to blame, or how it is asked.
    """

    reason: str
    advice: str | None = None
    is_outage: bool = False
    is_of_registry: bool = False

    @property
    def blames_record(self) -> bool:
        return self.advice is None


def failure_of(error: Exception, topic: str, asked: Asked = NOBODY) -> Failure:
    """What this exception of a deserializer means. `asked` is what it has asked a registry for."""
    found = _failure(error, topic, asked)
    if found.is_of_registry and asked.address:
        return found._replace(reason=f"{found.reason}, at {asked.address}")
    return found


def _failure(error: Exception, topic: str, asked: Asked) -> Failure:
    if isinstance(error, FrameError):
        return Failure(str(error))
    kinds = kinds_of(error)
    if "confluent_kafka.SerializationError" in kinds and (found := _of_rule(error, topic, asked)) is not None:
        return found
    if "confluent_kafka.SchemaRegistryError" in kinds:
        return _of_registry(error, topic, asked)
    if kinds & _OF_CONNECTIONS:
        return _of_connection(error, asked)
    if "confluent_kafka.OAuthTokenError" in kinds:
        return _of_token(error)
    if is_of_client(error):
        return _of_answer(error, kinds)
    if (kind := type_of_another_schema(error)) is not None:
        return Failure(f"its schema {asked.schema} is of type {kind}, which this deserializer does not read")
    if is_of_schema(error):
        number = f" {asked.schema}" if asked.schema else ""
        reason = f"the schema{number} of the schema registry cannot be used: {type(error).__name__}: {error}"
        return _of_setup(reason, "correct it there, and start again: the record may be good")
    return _of_bytes(error, is_of_confluent="confluent_kafka.SerializationError" in kinds)


def _of_bytes(error: Exception, *, is_of_confluent: bool) -> Failure:
    if is_of_confluent and "framing of length" in str(error):
        return Failure(
            f"confluent-kafka's deserializer refuses it for its length, good or not: {error}; "
            f"kwire.deserializers.AvroDeserializer reads short values too"
        )
    if is_of_confluent and "magic byte" in str(error):
        return Failure(f"it has no frame of a schema registry (encrypted, or of another serializer?): {error}")
    return Failure(_told(error))


def _of_rule(error: Exception, topic: str, asked: Asked) -> Failure | None:
    """What a rule of the schema met, such as one that decrypts fields: an outage of what it asks blames no record."""
    cause = error.__cause__
    while isinstance(cause, Exception):
        if kinds_of(cause) & _OF_SERVERS and (found := _failure(cause, topic, asked)).is_of_registry:
            return found._replace(reason=f"a rule of its schema failed: {found.reason}")
        cause = cause.__cause__
    return None


def _told(error: BaseException) -> str:
    """Confluent's error of a rule says nothing itself."""
    text = str(error) or (repr(error.__cause__) if error.__cause__ is not None else "it does not say why")
    return f"{type(error).__name__}: {text}"


def _outage(reason: str) -> Failure:
    return _of_setup(reason, "poll again when it answers: the record may be good", is_outage=True)


def _of_setup(reason: str, advice: str, *, is_outage: bool = False) -> Failure:
    return Failure(reason, advice, is_outage=is_outage, is_of_registry=True)


def _of_answer(error: Exception, kinds: set[str]) -> Failure:
    """The client was answered something that is no schema, or could not ask."""
    what = f"{type(error).__name__}: {error}"
    if kinds & {"httpx.RequestError", "httpx2.RequestError"}:
        return _outage(f"the answer of the schema registry cannot be read: {what}")
    if (answer := answer_to_client(error)) is None:
        return _of_setup(f"the schema registry cannot be asked: {what}", "look at its settings")
    return _outage(f"the schema registry answered what is no schema: {answer} ({what})")


def _of_registry(error: Exception, topic: str, asked: Asked) -> Failure:
    if asked.schema.isdecimal() and int(asked.schema) > MAX_SCHEMA:  # confluent-kafka's own classes ask for it
        return Failure(no_such_number("it", int(asked.schema)))
    status = getattr(error, "http_status_code", 0)
    if status == _NOT_FOUND and getattr(error, "error_code", 0) == _NO_RESOURCE and is_of_lookup_by_guid(error):
        reason = f"the schema registry cannot look up schemas by GUID: {error}"
        return _of_setup(reason, "update the registry, or have the producers write numbers")
    if status == _NOT_FOUND and getattr(error, "error_code", 0) not in _NOT_REGISTERED:
        return _of_setup(f"there is no schema registry at its address: {error}", "look at its URL, with the path")
    if status == _NOT_FOUND:
        at = f", at {asked.address}" if asked.address else ""
        return Failure(
            f"the schema registry does not know its schema: {error}{at}; compare the registry's address with the one "
            f"that the producers of {topic} have"
        )
    if status in _REFUSALS:
        advice = "look at its user, password or permissions"
        return _of_setup(f"the schema registry refuses this client: {error}", advice)
    if 300 <= status < 400:
        to = without_password(location_of_redirect(error) or "") or "another address"
        reason = f"the schema registry redirects to {to} (HTTP status code {status})"
        return _of_setup(reason, "no redirect is followed: correct its URL")
    if 400 <= status < 500 and status not in _PASSING:
        advice = "look at its URL and settings, and at those of a proxy"
        return _of_setup(f"the schema registry refuses the request: {error}", advice)
    return _outage(f"the schema registry failed: {error}")


def _of_connection(error: Exception, asked: Asked) -> Failure:
    """There was no answer: for now, or because of a setting."""
    what = f"{type(error).__name__}: {error}"
    tls = _refused_tls(error)
    if isinstance(tls, ssl.SSLCertVerificationError):
        advice = "look at ssl.ca.location, and at the host in its URL"
        return _of_setup(f"the certificate of the schema registry is not trusted: {what}", advice)
    if tls is not None:
        return _of_setup(f"no TLS with the schema registry: {what}", "look at its URL, and at its ssl settings")
    if type(error).__name__ in _OF_SETTINGS or (type(error).__name__ == "ProxyError" and _refuses(str(error))):
        return _of_setup(f"the schema registry cannot be asked: {what}", "look at its URL and settings")
    if type(error).__name__ == "RemoteProtocolError" and "illegal status line" in str(error):
        return _of_setup(f"no HTTP is spoken where the schema registry should be: {what}", "https, or another port?")
    may_be_tls = type(error).__name__ in _OF_ENDED_CONNECTIONS and asked.address.startswith("http:")
    hint = " (does it want https?)" if may_be_tls else ""
    return _outage(f"the schema registry cannot be reached: {what}{hint}")


def _of_token(error: Exception) -> Failure:
    """The server of tokens gave none: it could not for now, or it refuses this client."""
    is_refusal = _refused_tls(error) is not None or any(
        "authlib.OAuthError" in kinds_of(each) and getattr(each, "error", "") not in _PASSING_OF_OAUTH
        for each in _with_causes(error)
    )
    reason = f"no token for the schema registry: {error}"
    return _of_setup(reason, "look at its OAuth settings", is_outage=not is_refusal)


def _refused_tls(error: Exception) -> ssl.SSLError | None:
    """Why there is no TLS with a server, now and later; None if that is not why, or if it was only broken off."""
    tls = next((each for each in _with_causes(error) if isinstance(each, ssl.SSLError)), None)
    return None if isinstance(tls, _BROKEN_OFF) else tls


def _refuses(answer: str) -> bool:
    """Whether a proxy's answer, which begins with an HTTP status, says that it will not do this later either."""
    status = int(answer[:3]) if answer[:3].isdecimal() else 0
    return 400 <= status < 500 and status not in _PASSING


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__context__ if error.__cause__ is None else error.__cause__
