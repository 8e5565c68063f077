"""A fresh-first query that keeps state, on Spark and a Kafka in this process: it is refused before it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.testing import Cluster

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.slow,
    # Spark tells of pandas' and its own deprecations
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", *[b"an order"] * 10)
        yield cluster


@pytest.fixture
def with_rocksdb(spark: SparkSession) -> Iterator[None]:
    """`transformWithState` wants it."""
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    yield
    spark.conf.unset(PROVIDER)


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("partition").count()


def counted_by_a_processor(rows: DataFrame) -> DataFrame:
    """By what cloudpickle takes along: workers do not find this module."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Counter(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._seen = handle.getValueState("seen", "many BIGINT")

        def handleInputRows(  # noqa: N802  Spark's name
            self, key: tuple[object, ...], rows: Iterator[pd.DataFrame], _timers: object
        ) -> Iterator[pd.DataFrame]:
            raise AssertionError("it is refused before")

        def close(self) -> None:
            """Nothing is open."""

    by_partition = rows.select("partition").groupBy("partition")
    return by_partition.transformWithStateInPandas(Counter(), "partition INT, many BIGINT", "Update", "None")


@pytest.mark.usefixtures("with_rocksdb")
@pytest.mark.parametrize("query", [counted, counted_by_a_processor])
def test_a_query_with_state_is_refused_whatever_operator_keeps_it(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, query: Callable[[DataFrame], DataFrame]
) -> None:
    """`transformWithState` leaves its metadata in another place than the other operators do, and went by."""
    from pyspark.errors import StreamingQueryException

    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "kwire.freshFirst": "true",
        "kwire.checkpointLocation": str(tmp_path),
    }
    rows = spark.readStream.format("kwire").options(**options).load()
    writer = query(rows).writeStream.outputMode("update").format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException, match="this query keeps state"):
        writer.trigger(availableNow=True).start().awaitTermination()
