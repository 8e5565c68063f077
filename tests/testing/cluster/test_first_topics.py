"""Topics that a cluster is made with."""

from __future__ import annotations

from kwire import Consumer
from kwire.testing import Cluster


def test_they_outlive_each_of_their_brokers() -> None:
    """They had one replica, and those of `create_topic` three: who killed a leader read nothing more."""
    with Cluster(3, topics={"orders": 3}) as cluster:
        for partition in range(3):
            cluster.produce("orders", b"before", partition=partition)
        cluster.kill_broker(cluster.leader("orders", 0))
        with Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            found = 0
            while found < 3:
                records = consumer.poll(30.0)
                assert records, "the partitions have no leader"
                found += len(records)
