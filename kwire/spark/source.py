"""`KwireDataSource`: what Spark finds under the name `kwire`."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kwire.spark.batch import KwireBatchReader
from kwire.spark.errors import OptionError
from kwire.spark.fresh_first.settings import fresh_first_options
from kwire.spark.option_values import GivenOptions
from kwire.spark.options import batch_options, check_options, stream_options
from kwire.spark.reused_process import freeze_loaded_modules

_HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
_FIELDS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]


def spark_schema(*, include_headers: bool) -> StructType:
    """The schema of Spark's `kafka` source."""
    return StructType([*_FIELDS, _HEADERS] if include_headers else _FIELDS)


class KwireDataSource(DataSource):
    """Kafka topics as tables. The options are those of Spark's `kafka` source; see docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "kwire"

    def schema(self) -> StructType:
        freeze_loaded_modules()
        # Spark asks for the schema in `load()`. A stream that has started tells its errors to those alone who wait for
        # its end, below a traceback of Spark's own.
        check_options(self.options)
        return spark_schema(include_headers=GivenOptions(self.options).flag("includeHeaders", default=False))

    def reader(self, schema: StructType) -> KwireBatchReader:
        self._check(schema)
        return KwireBatchReader(batch_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Needs PySpark 4.2, which first let Python sources limit a batch."""
        try:
            from kwire.spark.fresh_first.stream import FreshFirstStreamReader
            from kwire.spark.stream import KwireStreamReader
        except ImportError as error:
            raise OptionError("streams of kwire need PySpark 4.2 or newer; batches work from 4.0 on") from error
        self._check(schema)
        options, fresh = stream_options(self.options), fresh_first_options(GivenOptions(self.options))
        return KwireStreamReader(options) if fresh is None else FreshFirstStreamReader(options, fresh)

    def _check(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionError("Kafka source has a fixed schema and cannot be set with a custom one")
