"""kfake, franz-go's fake Kafka in Go, as a cluster for tests: built once, and run as a process.

    with KfakeCluster(2, topics={"orders": 3}) as cluster:
        consumer = Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, group_id="billing")

It has TLS, SASL and ACLs, and needs neither Java nor a container. Go 1.26 or newer builds it.
"""

from __future__ import annotations

from kwire.testing.kfake.cluster import KfakeCluster
from kwire.testing.kfake.options import Acl, TlsFiles, User

__all__ = ["Acl", "KfakeCluster", "TlsFiles", "User"]
