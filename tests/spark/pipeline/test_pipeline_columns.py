"""What a pipeline makes of rows: decoded values, Kafka's columns beside them, and values that do not fit."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING

import fastavro
import pytest

from kwire.errors import ConfigError
from kwire.spark.pipeline.plan import PipelinePlan, plan_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

AT = datetime(2026, 11, 22, 10, 30, tzinfo=UTC)
SOURCE = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def plan(**settings: object) -> PipelinePlan:
    return plan_from({"topic": "orders", "bootstrap": "b:9092", "path": "/x", **settings})


def rows(spark: SparkSession, values: Sequence[bytes | None]) -> DataFrame:
    """As the source gives them: offsets from 0 on, in partition 3."""
    return spark.createDataFrame(
        [(b"k", value, "orders", 3, offset, AT, 0) for offset, value in enumerate(values)], SOURCE
    )


def made(spark: SparkSession, values: Sequence[bytes | None], **settings: object) -> list[dict[str, object]]:
    from kwire.spark.pipeline.columns import with_columns

    found = with_columns(rows(spark, values), plan(**settings)).orderBy("kafka_offset").collect()
    return [row.asDict(recursive=True) for row in found]


def avro(number: int) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(AVRO)), {"id": number})
    return stream.getvalue()


def test_without_a_schema_rows_are_those_of_the_source(spark: SparkSession) -> None:
    from kwire.spark.pipeline.columns import with_columns

    assert with_columns(rows(spark, [b"a"]), plan()).schema == rows(spark, [b"a"]).schema
    (row,) = with_columns(rows(spark, [b"a"]), plan(value_format="text")).collect()
    assert row["value"] == "a"


def test_fields_of_json_are_columns_and_kafka_s_follow(spark: SparkSession) -> None:
    schema = "id BIGINT, place STRUCT<x: DOUBLE>"
    (row, nothing) = made(spark, [b'{"id": 7, "place": {"x": 0.5}}', None], value_format="json", value_schema=schema)
    kafka = {"kafka_key": b"k", "kafka_topic": "orders", "kafka_partition": 3, "kafka_offset": 0}
    assert list(row.items()) == [
        ("id", 7),
        ("place", {"x": 0.5}),
        *kafka.items(),
        ("kafka_timestamp", AT.replace(tzinfo=None)),
    ]
    assert (nothing["id"], nothing["kafka_offset"]) == (None, 1)


def test_a_schema_may_be_spark_s_json(spark: SparkSession) -> None:
    schema = json.dumps(
        {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    )
    (row,) = made(spark, [b'{"id": 7}'], value_format="json", value_schema=schema)
    assert row["id"] == 7


def test_fields_of_avro_are_columns(spark: SparkSession) -> None:
    first, second, nothing = made(spark, [avro(7), avro(-8), None], value_format="avro", value_schema=AVRO)
    assert (first["id"], second["id"], nothing["id"]) == (7, -8, None)


@pytest.mark.parametrize(
    ("value_format", "schema", "good"), [("json", "id BIGINT", b'{"id": 7}'), ("avro", AVRO, avro(7))]
)
def test_values_that_do_not_fit_are_kept_in_a_column(
    spark: SparkSession, value_format: str, schema: str, good: bytes
) -> None:
    found = made(spark, [good, b"\xff", None], value_format=value_format, value_schema=schema, on_bad="keep")
    assert [(row["id"], row["kafka_bad_value"]) for row in found] == [(7, None), (None, b"\xff"), (None, None)]


@pytest.mark.parametrize(
    ("value_format", "schema", "good"), [("json", "id BIGINT", b'{"id": 7}'), ("avro", AVRO, avro(7))]
)
def test_or_they_fail_the_query_which_names_the_record(
    spark: SparkSession, value_format: str, schema: str, good: bytes
) -> None:
    with pytest.raises(Exception, match="the value of orders-3 at offset 1 does not fit value_schema"):
        made(spark, [good, b"\xff"], value_format=value_format, value_schema=schema)


@pytest.mark.parametrize("more", [b' {"id": 8}', b'\n{"id": 8}', b', {"id": 8}', b" and more"])
def test_a_value_that_goes_on_behind_its_document_does_not_fit(spark: SparkSession, more: bytes) -> None:
    """Spark reads the first document, and leaves out the rest without a word."""
    values = [b' {"id": 7}\n', b'{"id": 7}' + more]
    found = made(spark, values, value_format="json", value_schema="id BIGINT", on_bad="keep")
    assert [(row["id"], row["kafka_bad_value"]) for row in found] == [(7, None), (None, values[1])]


def test_a_field_may_have_any_name(spark: SparkSession) -> None:
    schema = "`a.b` BIGINT, `c``d` BIGINT, value BIGINT"
    (row,) = made(spark, [b'{"a.b": 1, "c`d": 2, "value": 3}'], value_format="json", value_schema=schema)
    assert list(row.values())[:3] == [1, 2, 3]


def test_folders_may_be_by_the_time_of_records(spark: SparkSession) -> None:
    (row,) = made(
        spark, [b'{"id": 7}'], value_format="json", value_schema="id BIGINT", partition_by="date,hour,kafka_topic"
    )
    assert (str(row["date"]), row["hour"]) == ("2026-11-22", 10)


def test_a_field_called_date_is_the_user_s(spark: SparkSession) -> None:
    (row,) = made(spark, [b'{"date": "today"}'], value_format="json", value_schema="date STRING", partition_by="date")
    assert row["date"] == "today"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"partition_by": "country"}, "there is no column country; there are key, value"),
        ({"value_format": "json", "value_schema": "id LUNG"}, "value_schema: .*LUNG"),
        ({"value_format": "json", "value_schema": "BIGINT"}, "value_schema is of columns, not of bigint"),
        ({"value_format": "json", "value_schema": "kafka_topic STRING"}, "a field may not be called kafka_topic"),
        ({"value_format": "json", "value_schema": "{"}, "value_schema: "),
        ({"value_format": "avro", "value_schema": "{"}, "value_schema is no JSON"),
    ],
)
def test_schemas_and_columns_that_cannot_be_are_told(
    spark: SparkSession, settings: dict[str, object], said: str
) -> None:
    from kwire.spark.pipeline.columns import with_columns

    with pytest.raises(ConfigError, match=said):
        with_columns(rows(spark, []), plan(**settings))


def test_without_the_decoder_of_avro_it_says_what_to_install(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.delitem(sys.modules, "kwire.spark.pipeline.avro_values", raising=False)
    with pytest.raises(ConfigError, match=r"avro needs fastavro: pip install 'kwire\[spark\]'"):
        made(spark, [], value_format="avro", value_schema=AVRO)
