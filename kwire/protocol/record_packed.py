"""Columns as the module in C fills them, one behind the other in one stretch of bytes; numpy's arrays when asked for.

Records are made from the bytes themselves. So numpy is not even imported unless somebody asks for columns.
Contract: reads exactly what `record_decoding.py` reads with numpy, or nothing, if that would find something wrong.
Called by `record_decoding.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire import speedups
from kwire.lazy_numpy import np
from kwire.protocol import record_headers
from kwire.protocol.record_columns import RecordColumns
from kwire.protocol.record_headers import HeaderColumns

if TYPE_CHECKING:
    from array import array
    from types import ModuleType

    from kwire.protocol.record_batch import Buffer
    from kwire.protocol.record_batch_columns import BatchColumns

_NUMBER_BYTES, _EPOCH_BYTES = 8, 4
# In the order in which C has them; and then leader epochs and timestamp types.
_COLUMNS = ("timestamps", "offsets", "key_starts", "key_lengths", "value_starts", "value_lengths")
_KINDS = {"leader_epochs": "int32", "timestamp_types": "int8"}
_HEADER_COLUMNS = ("first", "key_starts", "key_lengths", "value_starts", "value_lengths")

_set = object.__setattr__


class PackedColumns(RecordColumns):
    """Columns of `rows` records.

    Args:
        buffer: Where keys, values and headers lie.
        rows: How many records there are.
        headers: How many headers all of them have.
        packed: The columns of records, as `read_records` of the module in C makes them.
        packed_headers: Those of headers; None if there are none.
    """

    __slots__ = ("_columns", "_header_columns", "_rows")

    _columns: dict[str, memoryview]
    _header_columns: dict[str, memoryview]
    _rows: int

    def __init__(
        self, buffer: Buffer, rows: int, headers: int, packed: Buffer | bytearray, packed_headers: bytearray | None
    ) -> None:
        _set(self, "buffer", buffer)
        _set(self, "part_of", None)
        _set(self, "_rows", rows)
        _set(self, "_columns", _columns_of(memoryview(packed), rows))
        if packed_headers is None:
            _set(self, "headers_at", None)
            _set(self, "_header_columns", {})
        else:
            _set(self, "_header_columns", _header_columns_of(memoryview(packed_headers), rows, headers))

    def __getattr__(self, name: str) -> object:
        """Make an array that nobody has asked for yet."""
        if name == "headers_at":
            arrays = {each: np.frombuffer(column, np.int64) for each, column in self._header_columns.items()}
            made: object = HeaderColumns(**arrays)
        elif name in self._columns:
            made = np.frombuffer(self._columns[name], _KINDS.get(name, np.int64))
        else:
            raise AttributeError(name)
        _set(self, name, made)
        return made

    def __len__(self) -> int:
        return self._rows

    def offset_at(self, row: int) -> int:
        offset: int = self._columns["offsets"][row]
        return offset

    def epoch_at(self, row: int) -> int:
        epoch: int = self._columns["leader_epochs"][row]
        return epoch

    def offset_list(self, start: int = 0, stop: int | None = None) -> list[int]:
        return self._columns["offsets"][start:stop].tolist()

    def epoch_list(self, start: int = 0, stop: int | None = None) -> list[int]:
        return self._columns["leader_epochs"][start:stop].tolist()

    def size_bytes(self, start: int = 0, stop: int | None = None) -> int:
        module = speedups.module
        if module is None:
            return super().size_bytes(start, stop)
        lengths = self._columns["key_lengths"][start:stop], self._columns["value_lengths"][start:stop]
        return sum(module.sum_and_union(each, 0, 1)[0] for each in lengths)

    def rows_in_order(self) -> int:
        return self._rows  # C has seen to it

    def arrays(self) -> tuple[Buffer, ...]:
        each = self._columns
        return (
            self.buffer,
            each["offsets"],
            each["timestamps"],
            each["timestamp_types"],
            each["leader_epochs"],
            each["key_starts"],
            each["key_lengths"],
            each["value_starts"],
            each["value_lengths"],
            *self._header_columns.values(),
        )

    def keys(self, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        module = speedups.module
        return super().keys(start, stop) if module is None else self._copies(module, "key", slice(start, stop))

    def values(self, start: int = 0, stop: int | None = None) -> list[bytes | None]:
        module = speedups.module
        return super().values(start, stop) if module is None else self._copies(module, "value", slice(start, stop))

    def _copies(self, module: ModuleType, field: str, rows: slice) -> list[bytes | None]:
        starts, lengths = self._columns[f"{field}_starts"], self._columns[f"{field}_lengths"]
        copies: list[bytes | None] = module.copies(self.buffer, starts[rows], lengths[rows])
        return copies


def _columns_of(packed: memoryview, rows: int) -> dict[str, memoryview]:
    size_bytes = _NUMBER_BYTES * rows
    columns = {name: packed[nth * size_bytes :][:size_bytes].cast("q") for nth, name in enumerate(_COLUMNS)}
    behind, size_bytes = packed[len(_COLUMNS) * size_bytes :], _EPOCH_BYTES * rows
    columns["leader_epochs"] = behind[:size_bytes].cast("i")
    columns["timestamp_types"] = behind[size_bytes:][:rows].cast("b")
    return columns


def _header_columns_of(packed: memoryview, rows: int, headers: int) -> dict[str, memoryview]:
    numbers, start, columns = packed.cast("q"), 0, {}
    for name in _HEADER_COLUMNS:
        behind = start + (headers if start else rows + 1)
        columns[name] = numbers[start:behind]
        start = behind
    return columns


def empty_columns() -> RecordColumns:
    """No records."""
    return PackedColumns(b"", 0, 0, b"", None)


def packed_columns(buffer: Buffer, batches: BatchColumns, behind: array[int] | None) -> PackedColumns | None:
    """The records of some batches. None: there is no module in C, or something is wrong; numpy's way says what.

    Args:
        buffer: Where the records lie.
        batches: All of them.
        behind: Where the records of each batch end, if they were inflated.
    """
    if speedups.module is None:
        return None
    found = speedups.module.read_records(buffer, batches.numbers, behind, record_headers.MAX_HEADERS)
    return None if found is None else PackedColumns(buffer, *found)
