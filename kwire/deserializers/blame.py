"""Where a deserializer's exception was raised: while a schema was asked for, while it was parsed, or by the bytes.

Its class does not tell: a page of HTML in place of a schema raises the same ValueError as a bad value. So the traceback
is read. This works for the deserializers of confluent-kafka as well, which users plug in themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType

_LIBRARY = "confluent_kafka.schema_registry"
_CLIENT = "schema_registry_client"
# What makes a schema of its text in confluent-kafka's deserializers.
_PARSER = "_get_parsed_schema"
# What checks by a JSON Schema that it cannot use; a value that does not fit is another exception.
_BAD_SCHEMAS = {"jsonschema.UnknownType", "jsonschema.SchemaError", "jsonschema._WrappedReferencingError"}
_OF_JSON_SCHEMA = ("jsonschema", "jsonschema_specifications", "referencing")
# What confluent-kafka's modules read, as a registry calls it.
_TYPES = {"avro": "AVRO", "json_schema": "JSON", "protobuf": "PROTOBUF"}
_NOTHING = object()


def kinds_of(error: BaseException) -> set[str]:
    """The names of its classes, each with the package that it is from."""
    return {kind.__module__.partition(".")[0] + "." + kind.__name__ for kind in type(error).__mro__}


def is_of_client(error: BaseException) -> bool:
    """Whether the registry's client raised it."""
    return any(True for _ in _client_frames(error))


def is_of_lookup_by_guid(error: BaseException) -> bool:
    """Whether the client asked for a schema by its GUID."""
    return any(frame.f_code.co_name == "get_schema_by_guid" for frame in _client_frames(error))


def is_of_schema(error: BaseException) -> bool:
    """Whether it is of a schema that cannot be used, whatever the bytes are."""
    if any(frame.f_code.co_name == _PARSER and _is_of_library(frame) for frame in _frames(error)):
        return True
    return bool(kinds_of(error) & _BAD_SCHEMAS) and _is_checked_by_library(error)


def _is_checked_by_library(error: BaseException) -> bool:
    """Whether confluent-kafka had it checked by a JSON Schema: a user's function may do so, too, by one of its own."""
    callers = [frame for frame in _frames(error) if _module(frame).partition(".")[0] not in _OF_JSON_SCHEMA]
    return bool(callers) and _is_of_library(callers[-1])


def type_of_another_schema(error: BaseException) -> str | None:
    """The type of the record's schema, such as JSON, if what was to read it reads those of another type."""
    for frame in _frames(error):
        # Avro is the type that a registry leaves out.
        kind = getattr(schema := frame.f_locals.get("writer_schema_raw"), "schema_type", None) or "AVRO"
        read = _TYPES.get(_module(frame).rpartition(".")[2])
        if schema is not None and _is_of_library(frame) and read not in (None, kind):
            return str(kind)
    return None


def answer_to_client(error: BaseException) -> str | None:
    """What the registry's address answered, shortly; None if it was not asked, or that cannot be told."""
    found: object = _NOTHING
    for frame in _client_frames(error):
        found = frame.f_locals.get("response", found)
    if found is _NOTHING:
        return None
    if (text := getattr(found, "text", None)) is not None:
        kind = getattr(found, "headers", {}).get("content-type", "no content type")
        return f"{_short(text)} ({kind})"
    return "nothing" if found is None else _short(found)


def location_of_redirect(error: BaseException) -> str | None:
    """Where the registry's address sends its clients."""
    for frame in _client_frames(error):
        if location := getattr(frame.f_locals.get("response"), "headers", {}).get("location"):
            return str(location)
    return None


def _short(answer: object) -> str:
    text = repr(answer)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _client_frames(error: BaseException) -> Iterator[FrameType]:
    for frame in _frames(error):
        if _is_of_library(frame) and _module(frame).endswith(_CLIENT):
            yield frame


def _is_of_library(frame: FrameType) -> bool:
    return _module(frame).startswith(_LIBRARY)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
