"""Consumers of `orders` whose values need a schema registry."""

from __future__ import annotations

from kwire import Consumer
from kwire.deserializers import AvroDeserializer
from kwire.testing import Cluster


def consumer_of(cluster: Cluster, deserialize: object) -> Consumer:
    """With this deserializer of values."""
    settings: dict[str, object] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "value.deserializer": deserialize,
    }
    return Consumer(settings, "orders")


def consumer_asking(cluster: Cluster, url: str, **registry: object) -> Consumer:
    """It reads Avro, and asks the registry at this address once, with these other settings."""
    return consumer_of(cluster, AvroDeserializer({"url": url, "max.retries": 0, "timeout": 5, **registry}))
