"""Records of a partition as Arrow batches of exactly the schema that Spark's `kafka` source has.

Contract: nothing is done per record in Python. What is the same in all rows (topic, partition, kind of timestamp, null
keys) is a slice of one array made once. Spark compares names, order, types and nullability, so no other kinds of arrays
will do. Called by the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kwire.fetching.arrow import SCHEMA, binary_column, header_column, number_column, portions, text_scalar
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import TopicPartition
from kwire.protocol.record_columns import RecordColumns
from kwire.protocol.record_varints import Ints
from kwire.spark.errors import malformed_timestamp

SCHEMA_WITH_HEADERS = SCHEMA
SCHEMA_WITHOUT_HEADERS = SCHEMA.remove(SCHEMA.get_field_index("headers"))

# Smaller batches cost Spark up to 30 % more, much larger ones keep it waiting for the first.
MAX_BYTES = 8 * 1024 * 1024
_US_PER_MS = 1000
_MAX_TIMESTAMP_MS = (2**63 - 1) // _US_PER_MS


class ArrowBatches:
    """Makes the batches of one partition.

    Args:
        tp: The partition.
        include_headers: Whether there is a column of headers.
    """

    def __init__(self, tp: TopicPartition, *, include_headers: bool) -> None:
        self._tp = tp
        self._include_headers = include_headers
        self._schema = SCHEMA_WITH_HEADERS if include_headers else SCHEMA_WITHOUT_HEADERS
        self._constants = _Constants(tp)

    def of(self, chunk: PartitionRecords[bytes, bytes]) -> Iterator[pa.RecordBatch]:
        """The chunk's records, in order; none for one without records.

        Raises:
            MalformedTimestampError: A timestamp that Spark's microseconds cannot hold.
        """
        for columns in portions(chunk.columns, MAX_BYTES):
            yield pa.RecordBatch.from_arrays(self._arrays(columns), schema=self._schema)

    def _arrays(self, columns: RecordColumns) -> list[pa.Array]:
        rows = len(columns)
        constants = self._constants.of(rows)
        arrays = [
            self._binary(columns, columns.key_starts, columns.key_lengths, constants),
            self._binary(columns, columns.value_starts, columns.value_lengths, constants),
            constants.topic.slice(0, rows),
            constants.partition.slice(0, rows),
            number_column(columns.offsets, pa.int64()),
            number_column(self._microseconds(columns), pa.timestamp("us", tz="UTC")),
            self._kinds(columns, constants),
        ]
        return [*arrays, header_column(columns)] if self._include_headers else arrays

    def _binary(self, columns: RecordColumns, starts: Ints, lengths: Ints, constants: _Constants) -> pa.Array:
        if lengths[0] < 0 and (lengths < 0).all():
            return constants.null.slice(0, len(starts))
        return binary_column(columns.buffer, starts, lengths)

    def _microseconds(self, columns: RecordColumns) -> Ints:
        impossible = (columns.timestamps > _MAX_TIMESTAMP_MS) | (columns.timestamps < -_MAX_TIMESTAMP_MS)
        if impossible.any():
            row = int(impossible.argmax())
            raise malformed_timestamp(self._tp, int(columns.offsets[row]), int(columns.timestamps[row]))
        return columns.timestamps * _US_PER_MS

    def _kinds(self, columns: RecordColumns, constants: _Constants) -> pa.Array:
        kinds = columns.timestamp_types
        if (kinds == kinds[0]).all():
            return constants.kinds[int(kinds[0])].slice(0, len(kinds))
        return number_column(kinds.astype(np.int32), pa.int32())


class _Constants:
    """Arrays with the same in all rows, as long as the longest batch so far."""

    def __init__(self, tp: TopicPartition) -> None:
        self._tp = tp
        self._make(0)

    def of(self, rows: int) -> _Constants:
        """Itself, at least so long."""
        if rows > len(self.topic):
            self._make(max(rows, 2 * len(self.topic)))
        return self

    def _make(self, rows: int) -> None:
        self.topic = pa.repeat(text_scalar(self._tp.topic), rows)
        self.partition = _repeated(self._tp.partition, rows)
        self.null = pa.nulls(rows, pa.binary())
        self.kinds = {kind: _repeated(kind, rows) for kind in (-1, 0, 1)}


def _repeated(number: int, rows: int) -> pa.Array:
    return number_column(np.full(rows, number, np.int32), pa.int32())
