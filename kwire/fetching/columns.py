"""`Records`, what `Consumer.poll()` returns: columns inside, `Record`s only when asked for.

Contract: immutable and cheap to make; nothing per record happens before it is iterated or a list is asked for, and
then one partition at a time, in C. Made by the fetch collector, used by applications.
"""

from __future__ import annotations

from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, Generic

from kwire.model import Cursor, K, OffsetAndMetadata, Record, TopicPartition, V

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

    from kwire.config import AnyDeserializer
    from kwire.events import Delivered
    from kwire.fetching.partition_records import PartitionRecords


# Of more iterations over the same records, the half that is furthest is kept in mind.
_MOST_ITERATIONS = 16


class _Iteration(Generic[K, V]):
    """The iterators of all chunks, one after the other, and how many records they were asked for. Nothing is counted
    per record: an iterator can tell how many it has left."""

    __slots__ = ("_chunks", "_now")

    def __init__(self, chunks: Sequence[PartitionRecords[K, V]]) -> None:
        self._chunks = chunks
        self._now: tuple[int, Iterator[Record[K, V]]] = (0, iter(()))
        """How many chunks were begun, and the iterator of the last one; set at once, for a signal handler may raise."""

    def __iter__(self) -> Iterator[Iterator[Record[K, V]]]:
        return self

    def __next__(self) -> Iterator[Record[K, V]]:
        begun, _ = self._now
        if begun == len(self._chunks):
            raise StopIteration
        rows = iter(self._chunks[begun])
        self._now = (begun + 1, rows)
        return rows

    def asked_for(self) -> int:
        begun, rows = self._now
        return sum(map(len, self._chunks[:begun])) - length_hint(rows)


class Records(Generic[K, V]):
    """The records of one poll: iterable, with a length, by partition or topic, or as columns. May be pickled.

    Attributes:
        to_be_revoked: Partitions that the next poll gives back (with `enable_async_revocation`).
        lost: Partitions that were lost in this poll: others may have them already.
    """

    __slots__ = ("_by_partition", "_chunks", "_count", "_is_taken", "_iterations", "lost", "to_be_revoked")

    def __init__(
        self,
        chunks: Iterable[PartitionRecords[K, V]] = (),
        *,
        to_be_revoked: Iterable[TopicPartition] = (),
        lost: Iterable[TopicPartition] = (),
    ) -> None:
        self._chunks = tuple(chunks)
        self._by_partition: dict[TopicPartition, list[PartitionRecords[K, V]]] | None = None
        self._count = sum(map(len, self._chunks))
        self._is_taken = False
        """Whether all of a partition, or more, was asked for at once."""
        self._iterations: list[_Iteration[K, V]] = []
        self.to_be_revoked = frozenset(to_be_revoked)
        self.lost = frozenset(lost)

    # --- how many, of which partitions ---

    def __len__(self) -> int:
        return self._count

    def count(self) -> int:
        """How many records there are.

        Returns:
            The same as `len()`.
        """
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def is_empty(self) -> bool:
        """Whether there is no record.

        Returns:
            True for nothing; positions may have moved all the same, see `next_offsets`.
        """
        return self._count == 0

    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that have records here.

        Returns:
            A set, in no order.
        """
        return frozenset(chunk.topic_partition for chunk in self._chunks if len(chunk))

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where each partition goes on behind these records: what to commit when they are processed (KIP-1094).

        If two cursors have read a partition, this is the child's offset, the lower one. To commit both, call
        `commit_sync()` without offsets, or with those of each cursor: `of(cursor).next_offsets()`.

        Returns:
            By partition; also of those that had nothing but markers of transactions, or records of aborted ones.
        """
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for cursor in (Cursor.MAIN, Cursor.CHILD):
            found |= {chunk.topic_partition: chunk.next for chunk in self._chunks if chunk.cursor is cursor}
        return found

    def of(self, cursor: Cursor) -> Records[K, V]:
        """Those that one cursor has read: what is new, or what is being caught up (`enable_parallel_rebalance`).

        Args:
            cursor: Which of the two.

        Returns:
            Some of these records, or none.
        """
        chunks = [chunk for chunk in self._all() if chunk.cursor is cursor]
        return Records(chunks, to_be_revoked=self.to_be_revoked, lost=self.lost)

    def __repr__(self) -> str:
        each = self._sorted().items()
        inside = ", ".join(f"{partition}: {sum(map(len, chunks))}" for partition, chunks in each)
        return f"<Records: {self._count} ({inside})>" if inside else "<Records: none>"

    # --- as records ---

    def __iter__(self) -> Iterator[Record[K, V]]:
        if len(self._iterations) == _MOST_ITERATIONS:
            furthest = sorted(self._iterations, key=_Iteration.asked_for, reverse=True)
            self._iterations = furthest[: _MOST_ITERATIONS // 2]
        iteration = _Iteration(self._chunks)
        self._iterations.append(iteration)
        return chain.from_iterable(iteration)

    def _reached(self) -> list[Delivered] | None:
        """How far the furthest iteration has come that was left in the middle. None: there is none, or all was taken in
        another way, too; which of the two was the program's work nobody can tell."""
        left = max((each.asked_for() for each in self._iterations), default=0)
        if self._is_taken or left in (0, self._count):
            return None
        reached: list[Delivered] = []
        for chunk in self._chunks:
            if left < len(chunk):
                behind = chunk.position_behind(left - 1) if left else None
                return [*reached, (chunk.topic_partition, chunk.epoch, behind)] if behind else reached
            reached.append(chunk.delivered)
            left -= len(chunk)
        return reached

    def __getstate__(self) -> object:
        """For a copy, which others may work on."""
        self._is_taken, self._iterations = True, []
        return super().__getstate__()

    def __getitem__(self, partition: TopicPartition) -> list[Record[K, V]]:
        if not isinstance(partition, TopicPartition):
            raise TypeError(
                f"records[...] takes a TopicPartition, got {partition!r}; for topics: records.records(topic)"
            )
        return self.records(partition)

    def records(self, partition_or_topic: TopicPartition | str) -> list[Record[K, V]]:
        """The records of one partition, or of all partitions of a topic.

        Args:
            partition_or_topic: A `TopicPartition`, or the topic's name.

        Returns:
            In order by partition; empty when there are none.
        """
        return list(chain.from_iterable(self._chunks_of(partition_or_topic)))

    # --- as columns ---

    def chunks(self) -> tuple[PartitionRecords[K, V], ...]:
        """The columnar pieces; a partition may have several.

        Returns:
            In the order of delivery.
        """
        return self._all()

    def keys(self, partition: TopicPartition | None = None) -> list[K | None]:
        """The keys of all records, or of one partition's.

        Args:
            partition: None for all.

        Returns:
            In iteration order. Without a deserializer each is a bytes object, a copy of what came from the broker. None
                is a null key.
        """
        return list(chain.from_iterable(chunk.keys() for chunk in self._chunks_of(partition)))

    def values(self, partition: TopicPartition | None = None) -> list[V | None]:
        """The values: the fastest way to consume a topic in plain Python.

        Args:
            partition: None for all.

        Returns:
            As `keys()` has the keys.
        """
        return list(chain.from_iterable(chunk.values() for chunk in self._chunks_of(partition)))

    def offsets(self, partition: TopicPartition | None = None) -> NDArray[np.int64]:
        """The offsets of all records, or of one partition's.

        Args:
            partition: None for all.

        Returns:
            One dimension, int64, in iteration order, read-only.
        """
        return _joined([chunk.columns.offsets for chunk in self._chunks_of(partition)])

    def timestamps(self, partition: TopicPartition | None = None) -> NDArray[np.int64]:
        """The timestamps of all records, or of one partition's.

        Args:
            partition: None for all.

        Returns:
            As `offsets()` has the offsets: milliseconds since the epoch, -1 where there is none.
        """
        return _joined([chunk.columns.timestamps for chunk in self._chunks_of(partition)])

    def to_arrow(self, *, key: AnyDeserializer | None = None, value: AnyDeserializer | None = None) -> pa.Table:
        """A table of all records in iteration order, with the schema of Spark's Kafka source, headers included.

        Keys and values are the bytes of the log, also when the consumer has deserializers; they are copied once,
        offsets not at all. Timestamps are microseconds, in UTC. A record without headers has null there. Each chunk
        (see `chunks`) becomes a record batch; more if it spans over 2 GiB.

        Args:
            key: Makes a column of the keys; those of `kwire.deserializers` make all of it in one go.
            value: The same for the values.

        Returns:
            Columns key, value, topic, partition, offset, timestamp, timestampType and headers.

        Raises:
            ImportError: pyarrow is missing; it comes with `kwire[arrow]`.
            CorruptRecordError: A timestamp that does not fit.
            RecordDeserializationError: The first key or value that `key` or `value` fails over.
            InvalidArgumentError: Keys or values have no type in common.
        """
        from kwire.fetching.arrow import to_table

        return to_table(self._all(), key, value)

    def to_pandas(self, *, key: AnyDeserializer | None = None, value: AnyDeserializer | None = None) -> pd.DataFrame:
        """`to_arrow()` as a pandas DataFrame, one row for each record, with a fresh index from 0.

        Keys and values are objects (bytes or None) unless `key` or `value` makes others, topics strings, partition and
        timestampType int32, offsets int64, timestamps datetime64[us, UTC], headers objects (None, or an array of
        dicts). Whole numbers with nulls among them are objects too (int or None): floats would round large ones.

        Args:
            key: As in `to_arrow`.
            value: As in `to_arrow`.

        Returns:
            Columns as in `to_arrow`.

        Raises:
            ImportError: pyarrow or pandas is missing; both come with `kwire[pandas]`.
            CorruptRecordError, RecordDeserializationError, InvalidArgumentError: As in `to_arrow`.
        """
        from kwire.fetching.arrow import to_pandas

        return to_pandas(self._all(), key, value)

    def to_polars(self, *, key: AnyDeserializer | None = None, value: AnyDeserializer | None = None) -> pl.DataFrame:
        """`to_arrow()` as a polars DataFrame.

        Keys and values are Binary unless `key` or `value` makes others, topics String, partition and timestampType
        Int32, offsets Int64, timestamps Datetime("us", "UTC"), headers List(Struct(key: String, value: Binary)).

        Args:
            key: As in `to_arrow`.
            value: As in `to_arrow`.

        Returns:
            Columns as in `to_arrow`.

        Raises:
            ImportError: pyarrow or polars is missing; both come with `kwire[polars]`.
            CorruptRecordError, RecordDeserializationError, InvalidArgumentError: As in `to_arrow`.
        """
        from kwire.fetching.arrow import to_polars

        return to_polars(self._all(), key, value)

    if not TYPE_CHECKING:  # to a type checker, it would make every name one of the records'

        def __getattr__(self, name: str) -> object:
            from kwire.attribute_hints import no_such_attribute
            from kwire.fetching.foreign_attributes import OF_RECORDS

            if hasattr(type(self), name):  # a property of a subclass has raised the error, which stays
                return object.__getattribute__(self, name)
            raise no_such_attribute(self, name, OF_RECORDS)

    def _all(self) -> tuple[PartitionRecords[K, V], ...]:
        self._is_taken = True
        return self._chunks

    def _chunks_of(self, partition_or_topic: TopicPartition | str | None) -> Sequence[PartitionRecords[K, V]]:
        chunks = self._all()
        if partition_or_topic is None:
            return chunks
        if isinstance(partition_or_topic, str):
            return [chunk for chunk in chunks if chunk.topic_partition.topic == partition_or_topic]
        return self._sorted().get(partition_or_topic, ())

    def _sorted(self) -> Mapping[TopicPartition, Sequence[PartitionRecords[K, V]]]:
        """The chunks by partition, in the order of delivery; for callers that ask by partition."""
        if self._by_partition is not None:
            return self._by_partition
        found: dict[TopicPartition, list[PartitionRecords[K, V]]] = {}
        for chunk in self._chunks:
            found.setdefault(chunk.topic_partition, []).append(chunk)
        self._by_partition = found
        return found


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """One array of all; read-only, since a single part is not copied and the records are made from it."""
    import numpy as np  # not with the module: `import kwire` would wait for it

    joined = parts[0].view() if len(parts) == 1 else np.concatenate(parts or [np.empty(0, dtype=np.int64)])
    joined.flags.writeable = False
    return joined
