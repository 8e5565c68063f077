"""What a deserializer's exception means: whose fault it is, and what to do.

Exceptions of confluent-kafka and its HTTP client are known by their classes' names, so nothing of them is loaded.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.deserializers.registry import FrameError

_NOT_FOUND = 404
# How a registry says that it has no such subject, version or schema. Another 404 is of something that is no registry.
_NOT_REGISTERED = (40401, 40402, 40403)
_REFUSALS = (401, 403)


class Failure(NamedTuple):
    """Why some bytes could not be deserialized.

    Attributes:
        reason: What happened.
        advice: What to do; None if it is for the record alone, so that stepping over it is what to do.
        is_outage: Whether the same will succeed later: a schema registry did not answer.
    """

    reason: str
    advice: str | None = None
    is_outage: bool = False

    @property
    def blames_record(self) -> bool:
        return self.advice is None


def failure_of(error: Exception, topic: str) -> Failure:
    """What this exception of a deserializer means."""
    kinds = {kind.__module__.partition(".")[0] + "." + kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, FrameError):
        return Failure(str(error))
    if "confluent_kafka.SchemaRegistryError" in kinds:
        return _of_registry(error, topic)
    if kinds & {"httpx.TransportError", "httpx2.TransportError"}:
        reason = f"the schema registry cannot be reached: {type(error).__name__}: {error}"
        return Failure(reason, "poll again when it answers: the record may be good", is_outage=True)
    if "confluent_kafka.OAuthTokenError" in kinds:
        return Failure(f"no token for the schema registry: {error}", "look at its OAuth settings", is_outage=True)
    if "confluent_kafka.SerializationError" in kinds and ("magic byte" in str(error) or "framing" in str(error)):
        return Failure(f"it has no frame of a schema registry (encrypted, or of another serializer?): {error}")
    return Failure(f"{type(error).__name__}: {error}")


def _of_registry(error: Exception, topic: str) -> Failure:
    status = getattr(error, "http_status_code", 0)
    if status == _NOT_FOUND and getattr(error, "error_code", 0) not in _NOT_REGISTERED:
        return Failure(f"there is no schema registry at its address: {error}", "look at its URL, with the path")
    if status == _NOT_FOUND:
        return Failure(
            f"the schema registry does not know its schema: {error}; compare the registry's address with the one that "
            f"the producers of {topic} have"
        )
    if status in _REFUSALS:
        return Failure(f"the schema registry refuses this client: {error}", "look at its user, password or permissions")
    return Failure(
        f"the schema registry failed: {error}", "poll again when it answers: the record may be good", is_outage=True
    )
