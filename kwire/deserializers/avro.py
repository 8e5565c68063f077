"""Avro, by schemas of a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, overload

from kwire.deserializers.registry import Registry, RegistryDeserializer, client_of, raise_missing
from kwire.serialization_context import SerializationContext

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.deserializers.avro_columns import AvroColumns

T = TypeVar("T")


# confluent-kafka's deserializer takes bytes up to this length for unframed. A record without fields has as many,
# though, and a value whose schema is named by a header may have any length.
_REFUSED_BYTES = 5


class _Short(bytes):
    """Bytes that pass this check. Whatever reads them goes by what they hold, and not by this length."""

    def __len__(self) -> int:
        return _REFUSED_BYTES + 1


def _of_any_length(deserialize: Callable[[bytes, object], object]) -> Callable[[bytes, object], object]:
    def deserialize_any(data: bytes, ctx: object) -> object:
        return deserialize(data if len(data) > _REFUSED_BYTES else _Short(data), ctx)

    return deserialize_any


class AvroDeserializer(RegistryDeserializer[T]):
    """Avro, as Confluent's serializers write it: a frame with the number of the schema, which the registry has.

    Args:
        registry: The registry's address, a dictionary of settings as confluent-kafka has them, or its client.
        reader_schema: The schema that records are read as (Avro's schema resolution). Without it, the one each was
            written with.
        from_dict: Makes an object of a record's dictionary, and a `SerializationContext`.
        config: More settings of confluent-kafka's deserializer, such as `use.latest.version`.

    Raises:
        ImportError: confluent-kafka or fastavro is missing; both come with `kwire[avro]`.
    """

    column_type_argument = "reader_schema"
    """As of `JsonDeserializer`."""

    @overload
    def __init__(
        self: AvroDeserializer[dict[str, object]],
        registry: Registry,
        *,
        reader_schema: str | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        registry: Registry,
        *,
        reader_schema: str | None = None,
        from_dict: Callable[[dict[str, object], SerializationContext], T],
        config: Mapping[str, object] | None = None,
    ) -> None: ...

    def __init__(
        self,
        registry: Registry,
        *,
        reader_schema: str | None = None,
        from_dict: Callable[[dict[str, object], SerializationContext], T] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        try:
            from confluent_kafka.schema_registry import avro
        except ImportError as error:
            raise_missing("avro", error)
        client = client_of(registry, self)
        self._source = (client, reader_schema)
        self._columns: AvroColumns | None = None
        super().__init__(
            _of_any_length(
                avro.AvroDeserializer(
                    client,
                    reader_schema,
                    from_dict,
                    conf=dict(config or {}),
                )
            ),
            client,
        )

    def to_arrow(self, column: pa.BinaryArray, ctx: SerializationContext) -> pa.Array:
        """A column of structs, as `reader_schema` says. Without it, records of several schemas make a column that has
        the fields of all; where a record's schema lacks one, it has the default of the newest schema (the one with the
        highest number), or null.

        `from_dict` and `config` have no effect here, and records whose schema a header names make no column.
        """
        if self._columns is None:
            from kwire.deserializers.avro_columns import AvroColumns

            self._columns = AvroColumns(*self._source)
        return self._columns.column_of(column, ctx)
