"""The peers: where their tests are, and the broker that those want."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proofs.peers_tests.left_out import AIOKAFKA, CONFLUENT_KAFKA, CONFLUENT_KAFKA_OTHERS, KAFKA_PYTHON


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One of the clients, by the name of its package."""

    name: str
    tests: Sequence[str]
    """Files below the top of its source."""
    left_out: Mapping[str, str]
    """Tests that are not run, and why."""
    version_in: str
    """The file of its source that says which release it is."""
    is_in_sdist: bool = False
    """Whether the sdist holds these tests."""
    broker: Mapping[str, str] = field(default_factory=dict)
    """Settings of the broker."""
    options: Sequence[str] = ()
    """Of pytest."""


PEERS = (
    Peer(
        name="kafka-python",
        tests=("test/integration/test_consumer_integration.py",),
        left_out=KAFKA_PYTHON,
        version_in="kafka/version.py",
        is_in_sdist=True,
    ),
    Peer(
        name="aiokafka",
        tests=("tests/test_consumer.py",),
        left_out=AIOKAFKA,
        version_in="aiokafka/__init__.py",
        broker={"num.partitions": "2", "group.min.session.timeout.ms": "6000"},
        options=("--noconftest",),  # theirs wants Docker
    ),
    Peer(
        name="confluent-kafka",
        tests=(
            *("tests/test_Consumer.py", "tests/test_Wakeable.py", "tests/integration/consumer", "tests/test_misc.py"),
            *("tests/test_oauth_cb.py", "tests/test_log.py", "tests/test_error.py", "tests/test_kafka_error.py"),
            *("tests/test_message.py", "tests/test_topic_partition.py", "tests/test_enums.py"),
        ),
        left_out=CONFLUENT_KAFKA,
        version_in="pyproject.toml",
        # The others are of its producer, of its admin client, and of a class that it no longer recommends.
        options=("-k", " and ".join(f"not {word}" for word in CONFLUENT_KAFKA_OTHERS)),
    ),
)
