"""Kafka for tests: a cluster in this process, and a deterministic simulation of a world around it.

    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=6, replication=3)
        consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, ...)

For pytest there is the fixture `kafka_cluster`. Real brokers: `kwire.testing.kafka`. A class is imported when it is
first named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.testing.cluster.batches import NewRecord
    from kwire.testing.cluster.cluster import Cluster
    from kwire.testing.cluster.control import Rule

__all__ = ["Cluster", "NewRecord", "Rule"]


if not TYPE_CHECKING:  # with `__getattr__`, a type checker would accept every misspelt name
    _HOMES = {"Cluster": "cluster", "NewRecord": "batches", "Rule": "control"}

    def __getattr__(name: str) -> object:
        """Import the class of this name."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"kwire.testing.cluster.{_HOMES[name]}"), name)
