"""Avro to Arrow columns. Records are decoded by fastavro, and Arrow makes the column of them in one go."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, cast

import fastavro
import numpy as np
import pyarrow as pa

from kwire.deserializers.arrow_columns import data_of, offsets_of
from kwire.deserializers.avro_defaults import with_values_for_defaults
from kwire.deserializers.avro_merge import merged
from kwire.deserializers.avro_types import arrow_type, without_uuids
from kwire.deserializers.frames import check_frames
from kwire.deserializers.registry import FRAME_BYTES

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from fastavro.types import Schema as AvroSchema

    from kwire.serialization_context import SerializationContext


class AvroColumns:
    """Makes columns, and keeps the schemas that it has parsed."""

    def __init__(self, client: SchemaRegistryClient, reader_schema: str | None) -> None:
        self._client = client
        self._reader = None if reader_schema is None else _parsed(reader_schema, {})
        self._writers: dict[int, AvroSchema] = {}
        self._merged: dict[tuple[int, ...], AvroSchema] = {}

    def column_of(self, column: pa.BinaryArray, ctx: SerializationContext) -> pa.Array:
        """A column of what the schema describes, null where the column is null.

        Raises:
            ValueError: A record does not fit its schema, or the schema does not fit a column.
        """
        schemas = check_frames(column, ctx)
        if not (schemas >= 0).any():
            return pa.nulls(len(column), pa.null() if self._reader is None else arrow_type(self._reader))
        reader = self._reader or self._of_all(tuple(np.unique(schemas[schemas >= 0]).tolist()))
        rows = self._rows(column, schemas.tolist(), reader)
        return pa.array(rows, arrow_type(reader))

    def _of_all(self, numbers: tuple[int, ...]) -> AvroSchema:
        """The schema that has what any of these has; the highest number is taken for the newest."""
        if numbers not in self._merged:
            schemas: list[object] = [self._writer(number) for number in reversed(numbers)]
            self._merged[numbers] = cast("AvroSchema", reduce(merged, schemas))
        return self._merged[numbers]

    def _rows(self, column: pa.BinaryArray, schemas: list[int], reader: AvroSchema) -> list[object]:
        """The records, read from one stream over all of them: slicing each out takes as long as decoding it."""
        starts = offsets_of(column)
        ends = (starts[1:] - starts[0]).tolist()
        begins = (starts[:-1] - starts[0] + FRAME_BYTES).tolist()
        data = data_of(column)
        stream = io.BytesIO(data)
        unframed = {number for number in set(schemas) if number >= 0 and _is_bytes(self._writer(number))}
        read, found = fastavro.schemaless_reader, cast("list[object]", [None] * len(schemas))
        for row, number in enumerate(schemas):
            if number < 0:
                continue
            if number in unframed:
                found[row] = bytes(data[begins[row] : ends[row]])
                continue
            writer = self._writer(number)
            stream.seek(begins[row])
            found[row] = read(stream, writer, None if writer is reader else reader)
            if stream.tell() > ends[row]:
                raise EOFError("a record ends before its schema does")
        return found

    def _writer(self, number: int) -> AvroSchema:
        if number not in self._writers:
            schema = self._client.get_schema(number)
            self._writers[number] = _parsed(schema.schema_str or "", self._referred(schema))
        return self._writers[number]

    def _referred(self, schema: Schema) -> dict[str, dict[str, object]]:
        """The named types of the schemas that this one refers to."""
        named: dict[str, dict[str, object]] = {}
        for each in schema.references or ():
            referred = self._client.get_version(each.subject or "", each.version or -1).schema
            named |= self._referred(referred)
            _parse(referred.schema_str or "", named)
        return named


def _is_bytes(schema: object) -> bool:
    """Whether records are bytes and nothing else: Confluent's serializers write those as they are, without a length."""
    return schema == "bytes" or (
        isinstance(schema, Mapping) and schema["type"] == "bytes" and schema.get("logicalType") != "decimal"
    )


def _parsed(text: str, named: dict[str, dict[str, object]]) -> AvroSchema:
    """The schema, with all names in it replaced by what they name, and defaults by the values that records have."""
    return cast("AvroSchema", with_values_for_defaults(fastavro.schema.expand_schema(_parse(text, named))))


def _parse(text: str, named: dict[str, dict[str, object]]) -> AvroSchema:
    """The schema; its named types are added to `named`."""
    try:
        schema = json.loads(text)
    except ValueError:
        schema = text.strip()  # the name of a primitive
    return fastavro.parse_schema(cast("AvroSchema", without_uuids(schema)), named_schemas=named)
