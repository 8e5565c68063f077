"""One Spark session for the whole run: local, two tasks at a time, on the Java that Kafka needs as well.

Spark finds the data source by itself; nothing here registers it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tests.integration.kafkas import SharedKafka
    from tests.integration.spark.frames import Read


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, about the version of pandas
        from tools.spark_sessions import spark_session

        with spark_session("tests of the data source", attempts=2, memory="1g") as session:
            session.sparkContext.setLogLevel("OFF")
            yield session


@pytest.fixture
def read(spark: SparkSession, kafka: SharedKafka) -> Read:
    """`spark.read` from the test's Kafka, with these options."""

    def load(options: Mapping[str, str]) -> DataFrame:
        servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        return spark.read.format("kwire").options(**{**servers, **options}).load()

    return load
