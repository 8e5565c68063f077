"""One Spark session for all tests that need one."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """On two cores of this machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about the version of pandas
        from tools.spark_sessions import spark_session

        # A process has one session: who comes first makes it for all, and some tests need tasks to be tried again.
        with spark_session("tests", attempts=2, memory="1g") as session:
            yield session
