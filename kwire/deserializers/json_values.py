"""JSON: values, and columns of one type that Arrow reads in one go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"


class JsonDeserializer:
    """JSON, as `json.loads` reads it.

    Args:
        arrow_type: The type of the column that `to_arrow` makes, for instance `pa.struct({"id": pa.int64()})`. Fields
            that are not in it are left out. Without it the records at hand decide, so the type may differ from poll to
            poll.
    """

    column_type_argument = "arrow_type"
    """For messages: which argument says the type of a column."""

    def __init__(self, arrow_type: pa.DataType | None = None) -> None:
        self._arrow_type = arrow_type

    def __call__(self, data: bytes) -> JsonValue:
        value: JsonValue = json.loads(data)
        return value

    def to_arrow(self, column: pa.BinaryArray) -> pa.Array:
        """A column of structs, or of whatever the JSON is."""
        from kwire.deserializers.json_columns import column_of

        return column_of(column, self._arrow_type)
