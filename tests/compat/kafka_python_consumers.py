"""kafka-python and the adapter, for programs that are run with both."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from kwire.compat import kafka_python as adapter
from kwire.testing import Cluster

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    import kafka

BOTH = pytest.mark.parametrize("module", [kafka, adapter], ids=["kafka-python", "kwire"])


def open_consumer(module: Any, cluster: Cluster, *topics: str, **more: object) -> Any:  # noqa: ANN401
    """Of one of the two: from the beginning, until there was no record for 2 s."""
    settings: dict[str, object] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 2_000, **more}
    return module.KafkaConsumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **settings)
