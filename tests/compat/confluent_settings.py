"""What a program of confluent-kafka is given in these tests."""

from __future__ import annotations

from kwire.testing import Cluster


def settings(cluster: Cluster, **more: object) -> dict[str, object]:
    """Those of a group that reads from the beginning, and others, whose dots are underscores here."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
