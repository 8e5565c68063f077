"""A history's lines as a table of events with their places in the order. The job calls it first."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as sf

from kwire.errors import InvalidArgumentError

# What thinning has to look into; the rest of an event stays in its line.
FIELDS = types.StructType(
    [
        types.StructField("event", types.StringType()),
        types.StructField("at_ms", types.DoubleType()),
        types.StructField("member", types.StringType()),
        types.StructField("partition", types.StringType()),
        types.StructField("partitions", types.ArrayType(types.StringType())),
        types.StructField("offset", types.LongType()),
        types.StructField("offsets", types.ArrayType(types.LongType())),
        types.StructField("value", types.StringType()),
        types.StructField("values", types.ArrayType(types.StringType())),
        types.StructField("to", types.LongType()),
        types.StructField("session_timeout_ms", types.DoubleType()),
    ]
)
# Place in the order: which file, where in it Spark began to read, and the line number from there. Pieces of a file
# are at least a MiB apart, for Spark does not cut smaller ones than `spark.sql.files.openCostInBytes`.
ROW_BITS, PIECE_BITS, PIECE_SHIFT = 33, 20, 20
MAX_FILES = 1 << (63 - ROW_BITS - PIECE_BITS)
MIN_PIECE_BYTES = 1 << PIECE_SHIFT


def events_of_lines(spark: SparkSession, path: str) -> DataFrame:
    """One row for each line: `place` (its order in the history), the fields above, and `line` where an event has more.

    Args:
        path: a file of lines, or a directory of such files, whose names tell their order; may be compressed.

    Raises:
        InvalidArgumentError: too many files.
    """
    lines = spark.read.text(path)
    files = sorted(lines.inputFiles())
    if len(files) > MAX_FILES:
        raise InvalidArgumentError(f"a history may have {MAX_FILES} files, this one has {len(files)}: {path}")
    open_cost = str(spark.conf.get("spark.sql.files.openCostInBytes"))
    if _bytes(spark, open_cost) < MIN_PIECE_BYTES:
        raise InvalidArgumentError(
            f"spark.sql.files.openCostInBytes has to be at least {MIN_PIECE_BYTES}, it is {open_cost}"
        )
    fields = sf.from_json("value", FIELDS)
    rows = lines.where(sf.trim("value") != "").select(_place(files).alias("place"), fields.alias("f"), "value")
    rows = rows.withColumn("f", sf.when(sf.col("f.event").isNull(), _refused()).otherwise(sf.col("f")))
    # All that `Sent` and `Polled` say is in their fields; `line` would double what is stored.
    is_bulk = sf.col("f.event").isin("Sent", "Polled")
    line = sf.when(is_bulk, sf.lit(None)).otherwise(sf.col("value")).alias("line")
    return rows.select("place", "f.*", line)


def _place(files: list[str]) -> Column:
    # `file:/x` and `file:///x` are one place, and Spark says both.
    numbers = {re.sub(":/+", ":/", name): number for number, name in enumerate(files)}
    known = sf.create_map(*[sf.lit(each) for pair in numbers.items() for each in pair])
    path = sf.regexp_replace(sf.col("_metadata.file_path"), ":/+", ":/")
    unknown = sf.raise_error(sf.concat(sf.lit("a file that was not there before: "), path)).cast("long")
    file = sf.coalesce(known[path].cast("long"), unknown)
    piece = sf.shiftright(sf.col("_metadata.file_block_start"), PIECE_SHIFT)
    row = sf.monotonically_increasing_id().bitwiseAND(sf.lit((1 << ROW_BITS) - 1))
    return sf.shiftleft(file, ROW_BITS + PIECE_BITS) + sf.shiftleft(piece, ROW_BITS) + row


def _refused() -> Column:
    return sf.raise_error(sf.concat(sf.lit("no event of a history: "), sf.substring("value", 1, 200))).cast(FIELDS)


def _bytes(spark: SparkSession, text: str) -> int:
    """What a setting like `4MB` means."""
    return int(spark.sparkContext._jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text))  # type: ignore[union-attr]
