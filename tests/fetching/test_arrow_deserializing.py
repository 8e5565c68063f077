"""`Records.to_arrow` with deserializers: no records, nulls alone, several topics, and who is told of what fails."""

from __future__ import annotations

import re
import subprocess
import sys
from struct import pack
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import InvalidArgumentError, RecordDeserializationError, Records, TopicPartition
from kwire.config.deserializers import AnyDeserializer
from kwire.deserializers import (
    BooleanDeserializer,
    IntegerDeserializer,
    JsonDeserializer,
    LongDeserializer,
    SerializationContext,
    StringDeserializer,
)
from kwire.deserializers.frames import check_frames
from kwire.deserializers.registry import FrameError, check_frame
from kwire.fetching.partition_records import PartitionRecords

if TYPE_CHECKING:
    from tests.fetching.test_columns import Row, chunk_of
else:
    from test_columns import chunk_of

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
CTX = SerializationContext("orders", "value")


def chunk(tp: TopicPartition, *values: bytes | None) -> PartitionRecords[bytes, bytes]:
    return chunk_of([(None, value, ()) for value in values], tp)


class ByTopic:
    """Numbers of one topic are text in another."""

    def __call__(self, data: bytes, ctx: SerializationContext) -> object:
        return int(data) if ctx.topic == "orders" else data.decode()

    def to_arrow(self, column: pa.BinaryArray, ctx: SerializationContext) -> pa.Array:
        return pa.array([None if data is None else self(data, ctx) for data in column.to_pylist()])


ALL: list[AnyDeserializer] = [
    IntegerDeserializer(),
    BooleanDeserializer(),
    StringDeserializer(),
    JsonDeserializer(),
    ByTopic(),
    len,
]


@pytest.mark.parametrize("deserialize", ALL)
def test_of_no_records_the_column_is_empty(deserialize: AnyDeserializer) -> None:
    assert Records[bytes, bytes]().to_arrow(key=deserialize, value=deserialize).num_rows == 0


@pytest.mark.parametrize("deserialize", ALL)
def test_nulls_alone_are_nulls(deserialize: AnyDeserializer) -> None:
    table = Records([chunk(ORDERS, None, None), chunk(ORDERS, None)]).to_arrow(value=deserialize)
    assert table.column("value").to_pylist() == [None] * 3


def test_chunks_are_read_together_and_keep_their_order() -> None:
    records = Records([chunk(ORDERS, b'{"a": 1}', None), chunk(CLICKS, b'{"b": 2}'), chunk(ORDERS, b'{"a": 3}')])
    assert records.to_arrow(value=JsonDeserializer()).column("value").to_pylist() == [
        {"a": 1, "b": None},
        None,
        {"a": None, "b": 2},
        {"a": 3, "b": None},
    ]


def test_topics_with_the_same_type_are_read_each_by_its_own() -> None:
    records = Records([chunk(ORDERS, b"1"), chunk(ORDERS, b"2", None), chunk(CLICKS, None), chunk(ORDERS, b"3")])
    assert records.to_arrow(value=ByTopic()).column("value").to_pylist() == [1, 2, None, None, 3]


def test_topics_with_different_types_are_no_column() -> None:
    records = Records([chunk(ORDERS, b"1"), chunk(CLICKS, b"x")])
    with pytest.raises(InvalidArgumentError, match=r"topics have different types, .*; make a table of each topic's"):
        records.to_arrow(value=ByTopic())


def test_values_of_different_types_are_no_column() -> None:
    records = Records([chunk(ORDERS, b'{"a": 1}', b'{"a": "x"}')])
    with pytest.raises(
        InvalidArgumentError,
        match=r"the values make no column of one type, from orders-0 offset 101 on: .*; give JsonDeserializer",
    ):
        records.to_arrow(value=JsonDeserializer())


class OfRows(dict[str, object]):
    """Has no signature, and makes columns of rows that are there."""

    def __call__(self, data: bytes) -> object:
        return data

    def to_arrow(self, column: pa.BinaryArray, ctx: SerializationContext) -> pa.Array:
        return pa.array([1 if self[ctx.topic] else column[0].as_py(), *column.to_pylist()])


def test_a_deserializer_of_the_users_may_want_rows_and_a_topic() -> None:
    assert Records[bytes, bytes]().to_arrow(value=OfRows(orders=True)).column("value").type == pa.null()
    records = Records([chunk(ORDERS, b"1", b"2")])
    with pytest.raises(InvalidArgumentError, match=r"make no column of one type, from orders-0 offset 100 on: "):
        records.to_arrow(value=OfRows(orders=True))


def test_a_field_that_is_always_null_makes_a_valid_table() -> None:
    items = b'[{"sku": "a", "off": null}, {"sku": "b", "off": null}]'
    records = Records([chunk(ORDERS, items, b'[{"sku": "c", "off": null}]'), chunk(CLICKS, items)])
    table = records.to_arrow(value=JsonDeserializer())
    table.validate(full=True)
    assert [len(row["value"]) for row in table.to_pylist()] == [2, 1, 2]


BIG = 2**53 + 1  # no float has this value


@pytest.mark.slow
def test_a_null_beside_them_rounds_no_whole_numbers_of_a_pandas_frame() -> None:
    rows: list[Row] = [(pack(">q", BIG), b'{"id": %d, "of": [%d, null]}' % (BIG, BIG), ()), (None, b'{"sku": "a"}', ())]
    frame = Records([chunk_of(rows)]).to_pandas(key=LongDeserializer(), value=JsonDeserializer())
    assert frame["key"].tolist() == [BIG, None]
    first, second = frame["value"]
    assert (first["id"], list(first["of"]), second["id"]) == (BIG, [BIG, None], None)


@pytest.mark.slow
def test_numbers_of_a_pandas_frame_without_nulls_are_no_objects() -> None:
    frame = Records([chunk(ORDERS, b"1", b"2")]).to_pandas(value=JsonDeserializer())
    assert (str(frame["value"].dtype), frame["value"].tolist()) == ("int64", [1, 2])


@pytest.mark.parametrize("given_class", [JsonDeserializer, IntegerDeserializer, ByTopic])
def test_a_class_of_deserializers_is_refused_and_no_record_is_blamed(given_class: type) -> None:
    with pytest.raises(InvalidArgumentError, match=r"value=.* is a class; give an object of it"):
        Records([chunk(ORDERS, b"1")]).to_arrow(value=given_class)


def test_the_first_that_fails_is_named_with_its_partition() -> None:
    records = Records([chunk(CLICKS, b"{}"), chunk(ORDERS, b"{}", b"{")])
    # No seek: the poll has gone on behind all of these, and a seek would leave out those in front of this one.
    advice = r"value of orders-0 at offset 101.*use the same Records again, without this function"
    with pytest.raises(RecordDeserializationError, match=advice) as caught:
        records.to_arrow(value=JsonDeserializer())
    assert (caught.value.partition, caught.value.value_data) == (ORDERS, b"{")
    assert records.to_arrow().num_rows == 3  # nothing is lost


@pytest.mark.slow
@pytest.mark.parametrize("call", ["to_arrow()", "to_pandas()", "to_polars(value=len)"])
def test_without_pyarrow_the_error_names_what_brings_it(call: str) -> None:
    program = f"import sys; sys.modules['pyarrow'] = None\nfrom kwire import Records\nRecords().{call}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1].endswith("needs pyarrow; install it with: pip install 'kwire[arrow]'")


@given(st.lists(st.none() | st.binary(max_size=8) | st.binary(max_size=6).map(lambda data: b"\0" + data), max_size=5))
def test_frames_of_a_column_are_those_of_its_values(values: list[bytes | None]) -> None:
    column = pa.array(values, pa.binary())
    complaints = list(filter(None, map(complaint_of, values)))
    if complaints:
        with pytest.raises(FrameError, match=re.escape(complaints[0])):
            check_frames(column, CTX)
    else:
        numbers = [-1 if value is None else int.from_bytes(value[1:5], "big") for value in values]
        assert check_frames(column, CTX).tolist() == numbers


def complaint_of(value: bytes | None) -> str | None:
    try:
        if value is not None:
            check_frame(value, CTX)
    except FrameError as error:
        return str(error)
    return None
