"""What users of other clients write by habit: understood, or answered with how it is written here."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

import kwire
from kwire import Consumer, SubscriptionPattern, TopicPartition, errors
from kwire.consumer.arguments import checked_timestamps, hint_at_seconds, milliseconds
from kwire.consumer.listener import RebalanceConsumer
from kwire.errors import InvalidArgumentError, WakeupError
from kwire.model import Partitions
from kwire.testing import Cluster

TP = TopicPartition("orders", 0)


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    with Consumer(bootstrap_servers="localhost:1", group_id="billing") as found:
        yield found


def test_a_poll_of_a_thousand_is_told_to_be_seconds() -> None:
    with pytest.warns(UserWarning, match=r"poll\(1000\) waits up to 1000 seconds; .* write poll\(1\)"):
        hint_at_seconds(1000)


def test_the_warning_names_the_line_that_polls(consumer: Consumer) -> None:
    consumer.assign([TP])
    consumer.wakeup()
    with pytest.warns(UserWarning, match="seconds") as told, pytest.raises(WakeupError):
        consumer.poll(1000)
    assert [warning.filename for warning in told] == [__file__]


@pytest.mark.parametrize("timeout", [0, 1.0, 60, 2**63 - 1, 10**400, float("inf"), timedelta(hours=1)])
def test_other_timeouts_are_not(timeout: float | timedelta) -> None:
    with warnings.catch_warnings(action="error"):
        hint_at_seconds(timeout)


@pytest.mark.parametrize(
    ("timeout", "expected_ms"),
    [
        (2, 2_000.0),
        (0.5, 500.0),
        (Decimal("0.5"), 500.0),
        (Fraction(1, 2), 500.0),
        (np.int64(2), 2_000.0),
        (np.float32(0.5), 500.0),
        (timedelta(seconds=2), 2_000.0),
        (10**400, float("inf")),
    ],
)
def test_any_number_is_a_timeout(timeout: object, expected_ms: float) -> None:
    """An integer that no float can hold was an OverflowError, numpy's numbers were none."""
    assert milliseconds(cast("float", timeout)) == expected_ms


@pytest.mark.parametrize("timeout", [-1, -(10**400), float("nan"), "1", None, 1j, timedelta(seconds=-1)])
def test_what_is_no_time_is_refused(timeout: object) -> None:
    with pytest.raises(InvalidArgumentError, match="a timeout"):
        milliseconds(cast("float", timeout))


def test_times_may_be_datetimes() -> None:
    assert checked_timestamps({TP: datetime(2026, 11, 1, tzinfo=UTC)}) == {TP: 1_793_491_200_000}
    assert checked_timestamps({TP: datetime(2026, 11, 1, 0, 0, 0, 7_001, tzinfo=UTC)}) == {TP: 1_793_491_200_008}
    assert checked_timestamps({TP: 0}) == {TP: 0}


@pytest.mark.parametrize(
    ("moment", "why"),
    [
        (datetime(2026, 11, 1), "has no time zone"),  # noqa: DTZ001  that is the mistake
        (1_793_491_200, r"seconds it seems. Give milliseconds, 1793491200000"),
        (1_793_491_200.5, "is whole milliseconds since 1970, or a datetime"),
        (datetime(1960, 1, 1, tzinfo=UTC), "cannot be negative"),
    ],
)
def test_times_that_are_none_are_refused(moment: int | datetime, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        checked_timestamps({TP: moment})


@pytest.mark.parametrize("pattern", ["^ord.*", "orders|refunds", "ord+"])
def test_a_pattern_as_text_says_how_patterns_are_given(consumer: Consumer, pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"subscribe\(re\.compile\("):
        consumer.subscribe(pattern)
    with pytest.raises(InvalidArgumentError, match=r"subscribe\(re\.compile\("):
        Consumer(pattern, bootstrap_servers="localhost:1")


def test_a_time_to_seek_to_says_how_times_are_looked_up(consumer: Consumer) -> None:
    consumer.assign([TP])
    yesterday: Any = datetime.now(UTC) - timedelta(days=1)
    with pytest.raises(InvalidArgumentError, match=r"offsets_for_times\(\{partition: time\}\)"):
        consumer.seek(TP, yesterday)


def test_an_empty_pattern_is_refused_as_one_for_the_broker_is(consumer: Consumer) -> None:
    """It finds all topics of the cluster. Nobody means that, and Java refuses it."""
    with pytest.raises(InvalidArgumentError, match="a subscription pattern cannot be empty"):
        consumer.subscribe(re.compile(""))
    assert not consumer.subscription()
    with pytest.raises(InvalidArgumentError, match="a subscription pattern cannot be empty"):
        SubscriptionPattern("")


def test_functions_may_stand_for_a_listener(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("orders", partitions=1)
    told: list[tuple[str, Partitions]] = []

    def on_assigned(consumer: RebalanceConsumer, partitions: Partitions) -> None:
        told.append(("assigned", partitions))
        consumer.seek_to_beginning(partitions)

    with Consumer(bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="g") as consumer:
        consumer.subscribe(
            "orders", on_assigned=on_assigned, on_revoked=lambda _, partitions: told.append(("revoked", partitions))
        )
        kafka_cluster.produce("orders", b"before")
        assert next(iter(consumer)).value == b"before"
    assert told == [("assigned", frozenset([TP])), ("revoked", frozenset([TP]))]


def test_functions_are_checked_when_they_are_given(consumer: Consumer) -> None:
    with pytest.raises(InvalidArgumentError, match="on_revoked takes the consumer and a set of partitions, but"):
        consumer.subscribe("orders", on_revoked=lambda partitions: None)  # type: ignore[arg-type, misc]  # the mistake
    with pytest.raises(InvalidArgumentError, match="a listener and on_lost are both given"):
        consumer.subscribe("orders", listener=kwire.RebalanceListener(), on_lost=lambda consumer, partitions: None)


def test_all_exceptions_are_there_under_kwire() -> None:
    classes = [name for name, found in vars(errors).items() if inspect.isclass(found) and issubclass(found, Exception)]
    assert len(classes) > 40
    assert [name for name in classes if getattr(kwire, name, None) is not getattr(errors, name)] == []
    assert set(classes) <= set(kwire.__all__)
