"""Values of a topic's settings: what is taken and what is said against others is what Kafka 4.4's LogConfig does."""

from __future__ import annotations

import pytest

from kwire.testing.cluster.config_checks import NO_TIERED_STORAGE, config_problem
from kwire.testing.cluster.settings import TopicSettings


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("compression.zstd.level", "-131073", "Value must be at least -131072"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("segment.bytes", "99999999999", "Not a number of type INT"),
        ("segment.bytes", "1_000_000_000", "Not a number of type INT"),
        ("segment.bytes", "", "Not a number of type INT"),
        ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("max.decompressed.message.bytes", "0", "Value must be at least 1"),
        ("remote.copy.lag.ms", "-2", "Value must be at least -1"),
        ("cleanup.policy", "Compact", "String must be one of: compact, delete"),
        ("preallocate", "yes", "Expected value to be either true or false"),
    ],
)
def test_a_value_that_kafka_refuses_is_refused_in_its_words(name: str, value: str, reason: str) -> None:
    assert config_problem(name, value) == f"Invalid value {value} for configuration {name}: {reason}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.gzip.level", "-1"),
        ("compression.type", " gzip"),
        ("segment.bytes", " 1048576 "),
        ("retention.ms", "+5"),
        ("retention.bytes", "-7"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete, compact"),
        ("preallocate", "TRUE"),
        ("errors.deadletterqueue.group.enable", "true"),
        ("remote.copy.lag.bytes", "-1"),
        ("remote.log.copy.disable", "true"),
    ],
)
def test_a_value_that_kafka_takes_is_taken(name: str, value: str) -> None:
    assert config_problem(name, value) is None


def test_tiered_storage_is_switched_off() -> None:
    assert config_problem("remote.storage.enable", "true") == NO_TIERED_STORAGE
    assert config_problem("remote.storage.enable", "false") is None


@pytest.mark.parametrize(
    ("policy", "is_compacted"), [("compact", True), ("delete, compact", True), ("delete", False), ("", False)]
)
def test_a_list_of_policies_may_have_blanks(policy: str, is_compacted: bool) -> None:
    """Compaction did not count behind a blank: records without a key were taken."""
    assert TopicSettings(cleanup_policy=policy).is_compacted is is_compacted
