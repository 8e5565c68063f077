"""Real Kafka clusters (KRaft) for tests and fault injection, which start in seconds and are always stopped.

    with KafkaCluster(brokers=3) as kafka:
        connect(kafka.bootstrap_servers)
        kafka.kill_broker(2)

Needs Java and, once, Maven, which downloads Kafka's jars. The package uses only the standard library, and nothing of
kwire's client: tests of a client must not trust it to tell whether the cluster is ready. `kwire.testing` has a cluster
without Kafka.
"""

from __future__ import annotations

from kwire.testing.kafka.cluster import KafkaCluster
from kwire.testing.kafka.jars import ClusterError
from kwire.testing.kafka.security import Security

__all__ = ["ClusterError", "KafkaCluster", "Security"]
