"""Apache Kafka itself for tests and fault injection: real brokers (KRaft), up in seconds, always stopped.

    with KafkaCluster(brokers=3) as kafka:
        connect(kafka.bootstrap_servers)
        kafka.kill_broker(2)

Needs Java and, once, Maven, which downloads Kafka's jars. Standard library only, and nothing of the client is used:
tests of a client must not trust it to tell whether its cluster is ready. The in-process cluster is `kwire.testing`'s.
"""

from __future__ import annotations

from kwire.testing.kafka.cluster import KafkaCluster
from kwire.testing.kafka.jars import ClusterError
from kwire.testing.kafka.security import Security

__all__ = ["ClusterError", "KafkaCluster", "Security"]
