"""What a pipeline makes of the source's rows: the decoded value as columns, and Kafka's own beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

from pyspark.sql import Column, DataFrame, functions, types
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from kwire.errors import ConfigError
from kwire.spark.pipeline.avro_types import struct_of
from kwire.spark.pipeline.plan import TIME_PARTITIONS, OnBad, PipelinePlan, ValueFormat

KAFKA_COLUMNS = ("key", "topic", "partition", "offset", "timestamp")
BAD_COLUMN = "kafka_bad_value"
_PARSED = "kafka_parsed_value"
_WRAPPED = "value"


def with_columns(rows: DataFrame, plan: PipelinePlan) -> DataFrame:
    """The rows as they go to the target.

    Without a schema these are the source's columns, with the value as bytes or as text. With one its fields come first,
    and Kafka's columns follow as kafka_key, kafka_topic, ...; `on_bad="keep"` adds the bytes of values that do not fit.

    Raises:
        ConfigError: The schema makes no sense, or has a field of a name that is taken.
    """
    if plan.value_format is ValueFormat.BYTES:
        found = rows
    elif plan.value_format is ValueFormat.TEXT:
        found = rows.withColumn("value", functions.col("value").cast("string"))
    else:
        found = _with_fields(rows, plan)
    return with_time_partitions(found, plan)


def with_time_partitions(rows: DataFrame, plan: PipelinePlan) -> DataFrame:
    """With `date` and `hour` of the record's timestamp, where the table is partitioned by them."""
    timestamp = functions.col("timestamp" if "timestamp" in rows.columns else "kafka_timestamp")
    made = {"date": functions.to_date(timestamp), "hour": functions.hour(timestamp)}
    wanted = {name: made[name] for name in TIME_PARTITIONS if name in plan.partition_by and name not in rows.columns}
    found = rows.withColumns(wanted) if wanted else rows
    if missing := set(plan.partition_by) - set(found.columns):
        raise ConfigError(f"partition_by: there is no column {min(missing)}; there are {', '.join(found.columns)}")
    return found


def _with_fields(rows: DataFrame, plan: PipelinePlan) -> DataFrame:
    parsed, fields = _parsed(plan)
    kafka = {name: f"kafka_{name}" for name in (*KAFKA_COLUMNS, *({"headers"} & set(rows.columns)))}
    if taken := {*kafka.values(), BAD_COLUMN} & set(fields):
        raise ConfigError(f"value_schema: a field may not be called {min(taken)}")
    found = rows.withColumn(_PARSED, parsed)
    if plan.on_bad is OnBad.FAIL:
        found = found.withColumn(_PARSED, functions.when(_is_bad(plan), _complaint()).otherwise(functions.col(_PARSED)))
    columns = [_struct(plan).getField(name).alias(name) for name in fields]
    columns += [functions.col(name).alias(alias) for name, alias in kafka.items()]
    if plan.on_bad is OnBad.KEEP:
        columns.append(functions.when(_is_bad(plan), functions.col("value")).alias(BAD_COLUMN))
    return found.select(*columns)


def _struct(plan: PipelinePlan) -> Column:
    """The schema's fields, in the column of what was parsed."""
    parsed = functions.col(_PARSED)
    return parsed.getField(_WRAPPED) if plan.value_format is ValueFormat.JSON else parsed


def _is_bad(plan: PipelinePlan) -> Column:
    """Whether there is a value and nothing could be made of it."""
    nothing = _struct(plan).isNull()
    if plan.value_format is ValueFormat.JSON:
        nothing |= functions.col(_PARSED).getField(BAD_COLUMN).isNotNull()
    return functions.col("value").isNotNull() & nothing


def _complaint() -> Column:
    said = "the value of %s-%d at offset %d does not fit value_schema; on_bad = keep puts such values into a column"
    return functions.raise_error(functions.format_string(said, "topic", "partition", "offset"))


def _parsed(plan: PipelinePlan) -> tuple[Column, list[str]]:
    """The value as a struct (JSON: see `_struct`), and the names of the schema's fields."""
    assert plan.value_schema is not None
    if plan.value_format is ValueFormat.JSON:
        schema = json_struct(plan.value_schema)
        return _from_json(schema), schema.fieldNames()
    schema = struct_of(plan.value_schema)
    return _from_avro(schema, plan), schema.fieldNames()


def json_struct(text: str) -> types.StructType:
    """A schema as Spark writes it, in DDL (`id BIGINT, item STRING`) or as JSON.

    Raises:
        ConfigError: It is neither.
    """
    try:
        if text.lstrip().startswith("{"):
            return types.StructType.fromJson(json.loads(text))
        found = types.DataType.fromDDL(text)
    except Exception as error:  # noqa: BLE001 - whatever Spark's parser says about it
        raise ConfigError(f"value_schema: {' '.join(str(error).split())}") from None
    if not isinstance(found, types.StructType):
        raise ConfigError(f"value_schema is of columns, not of {found.simpleString()}")
    return found


def _from_json(schema: types.StructType) -> Column:
    """The value as a field of an object: what stands behind it then breaks the object. By itself Spark reads the first
    document, and does not look for more."""
    asked = types.StructType([types.StructField(_WRAPPED, schema), types.StructField(BAD_COLUMN, types.StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD_COLUMN}
    value = functions.col("value").cast("string")
    wrapped = functions.concat(functions.lit(f'{{"{_WRAPPED}":'), value, functions.lit("}"))
    return functions.from_json(wrapped, asked, options)


def _from_avro(schema: types.StructType, plan: PipelinePlan) -> Column:
    try:
        from kwire.spark.pipeline.avro_values import decoder
    except ModuleNotFoundError as error:
        raise ConfigError(f"{plan.value_format.value} needs {error.name}: pip install 'kwire[spark]'") from None

    assert plan.value_schema is not None
    is_framed = plan.value_format is ValueFormat.AVRO_FRAMED
    decode = decoder(plan.value_schema, to_arrow_type(schema, timezone="UTC"), is_framed=is_framed)
    # Its stubs want the type of the function to be said, over which it warns at run time.
    make = cast("Callable[..., Callable[[Column], Column]]", arrow_udf)
    return make(decode, schema)(functions.col("value"))
