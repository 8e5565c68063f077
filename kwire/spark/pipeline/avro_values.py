"""Values of Avro as columns: a function that Spark's Python workers run over a whole Arrow array at a time."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import fastavro
import pyarrow as pa

from kwire.errors import ConfigError
from kwire.spark.pipeline.avro_types import schema_from

# What schema registries put in front: a zero, and four bytes with the number of the schema.
FRAME_BYTES = 5
MAGIC = 0
_MISFITS = (pa.ArrowException, OverflowError)


def decoder(schema: str, columns: pa.DataType, *, is_framed: bool) -> Callable[[pa.Array], pa.Array]:
    """Decodes arrays of values into an array of structs. A value that does not fit becomes null, as null does.

    Args:
        schema: Avro's JSON.
        columns: Arrow's struct of the same fields.
        is_framed: values have the five bytes of a schema registry in front.

    Raises:
        ConfigError: The schema makes no sense.
    """
    parsed = parse(schema)
    begin = FRAME_BYTES if is_framed else 0

    def one(value: bytes | None) -> object:
        if value is None or (is_framed and value[:1] != bytes([MAGIC])):
            return None
        stream = BytesIO(value)
        stream.seek(begin)
        try:
            found = fastavro.schemaless_reader(stream, parsed, None)
        # Damaged bytes make a decoder fail in any way: it runs past the end, or meets a number that no branch has.
        except Exception:  # noqa: BLE001
            return None
        return found if stream.tell() == len(value) else None

    def decode(values: pa.Array) -> pa.Array:
        found = [one(value) for value in values.to_pylist()]
        try:
            return pa.array(found, columns)
        except _MISFITS:
            return pa.array([each if _fits(each, columns) else None for each in found], columns)

    return decode


def _fits(value: object, columns: pa.DataType) -> bool:
    """Not all that Avro's bytes can say fits its own types: an int may have more than 32 bits there, and a decimal more
    digits than it has."""
    try:
        pa.array([value], columns)
    except _MISFITS:
        return False
    return True


def parse(schema: str) -> dict[str, object]:
    """Raises: ConfigError, if it is no schema."""
    given = schema_from(schema)
    try:
        parsed = fastavro.parse_schema(given)
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise ConfigError(f"value_schema is no schema of Avro: {error}") from None
    assert isinstance(parsed, dict)
    return parsed
