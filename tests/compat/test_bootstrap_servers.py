"""Servers without a port, which other clients take."""

from __future__ import annotations

import pytest

from kwire import ConsumerConfig
from kwire.compat.bootstrap_servers import with_ports


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost", ["localhost:9092"]),
        ("kafka1, kafka2:9093,", ["kafka1:9092", "kafka2:9093"]),
        (["kafka1", "[::1]", "[::1]:9093"], ["kafka1:9092", "[::1]:9092", "[::1]:9093"]),
        (("PLAINTEXT://kafka1", "PLAINTEXT://kafka2:9093"), ["kafka1:9092", "kafka2:9093"]),
    ],
)
def test_a_missing_port_is_the_usual_one(given: object, expected: list[str]) -> None:
    config = ConsumerConfig.of({"bootstrap_servers": with_ports(given)})
    assert list(map(str, config.bootstrap_servers)) == expected


@pytest.mark.parametrize("bad", ["", "kafka1:", "kafka1:http", 9092, [9092]])
def test_what_is_bad_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="bootstrap_servers"):
        ConsumerConfig.of({"bootstrap_servers": with_ports(bad)})
