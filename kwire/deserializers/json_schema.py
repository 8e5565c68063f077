"""JSON in the frame of a schema registry, checked by its JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, overload

from kwire.deserializers.json_values import JsonValue
from kwire.deserializers.registry import FRAME_BYTES, Registry, RegistryDeserializer, client_of, raise_missing
from kwire.serialization_context import SerializationContext

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class JsonSchemaDeserializer(RegistryDeserializer[T]):
    """JSON, as Confluent's serializers write it, checked by the schema in the registry.

    Args:
        registry: As of `AvroDeserializer`.
        reader_schema: The JSON Schema to check values by. Without it, the one each was written with.
        from_dict: Makes an object of the value, and a `SerializationContext`.
        arrow_type: The type of the column that `to_arrow` makes, as of `JsonDeserializer`.
        config: More settings of confluent-kafka's deserializer, such as `validate`.

    Raises:
        ImportError: confluent-kafka or jsonschema is missing; both come with `kwire[json-schema]`.
    """

    column_type_argument = "arrow_type"
    """As of `JsonDeserializer`."""

    @overload
    def __init__(
        self: JsonSchemaDeserializer[JsonValue],
        registry: Registry,
        *,
        reader_schema: str | None = None,
        arrow_type: pa.DataType | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        registry: Registry,
        *,
        reader_schema: str | None = None,
        from_dict: Callable[[dict[str, object], SerializationContext], T],
        arrow_type: pa.DataType | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None: ...

    def __init__(
        self,
        registry: Registry,
        *,
        reader_schema: str | None = None,
        from_dict: Callable[[dict[str, object], SerializationContext], T] | None = None,
        arrow_type: pa.DataType | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        try:
            from confluent_kafka.schema_registry import json_schema
        except ImportError as error:
            raise_missing("json-schema", error)
        self._arrow_type = arrow_type
        self._validates = (config or {}).get("validate", True)
        client = client_of(registry, self)
        super().__init__(json_schema.JSONDeserializer(reader_schema, from_dict, client, dict(config or {})), client)
        self._check = self._deserialize
        if from_dict is not None:  # a column has no objects, so none are made of its values
            self._check = json_schema.JSONDeserializer(reader_schema, None, client, dict(config or {}))

    def to_arrow(self, column: pa.BinaryArray, ctx: SerializationContext) -> pa.Array:
        """A column of structs, read by Arrow in one go. Each value is checked by the schema first, unless `config` has
        `validate=False`. `from_dict` has no effect here, and records whose schema a header names make no column."""
        from kwire.deserializers.arrow_columns import without_front
        from kwire.deserializers.frames import check_frames
        from kwire.deserializers.json_columns import column_of

        check_frames(column, ctx)
        if self._validates:
            self._check_all(column, ctx)
        return column_of(without_front(column, FRAME_BYTES), self._arrow_type)

    def _check_all(self, column: pa.BinaryArray, ctx: SerializationContext) -> None:
        for data in column.to_pylist():
            if data is not None:
                self._check(data, ctx)
