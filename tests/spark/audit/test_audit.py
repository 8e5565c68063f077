"""What the audit on Spark says of a history is what the local checker says of it."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.spark.audit import audit
from kwire.testing.invariants import Ledger, check
from kwire.testing.invariants.handling_events import ProcessorStarted
from kwire.testing.invariants.ledger import (
    Assigned,
    Calm,
    Closing,
    Ended,
    Event,
    Polled,
    Quiet,
    Removed,
    Revoked,
    Sent,
    Started,
    Stored,
    Truncated,
    Vanished,
)
from kwire.testing.simulation.run import simulate
from proofs.spark.history import PLANTS, Story, ledger, lines

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
AT = TopicPartition("orders", 0)


def write(directory: Path, told: Ledger) -> str:
    file = directory / "history.jsonl"
    file.write_text("".join(f"{line}\n" for line in told.lines()))
    return str(file)


def test_each_planted_anomaly_is_found_and_all_else_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(rounds=30, partitions=4, records=50, plants=tuple(PLANTS))
    found = audit(spark, write(tmp_path, told := ledger(story)))
    assert list(found.violations) == check(told)
    assert {plant.split(" ")[0] for plant in PLANTS} <= set(found.rules)
    assert found.kept < found.events / 4
    assert found.is_whole


def test_a_history_that_is_cut_off_is_told_from_a_whole_one(spark: SparkSession, tmp_path: Path) -> None:
    told = ledger(Story(rounds=2, partitions=1, records=2))
    assert not audit(spark, write(tmp_path, Ledger(told.events[:-1]))).is_whole


def test_a_simulated_world_is_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Transactions, seeks, pauses and faults, with a record taken out of the middle of what one poll returned."""
    told = simulate(3).ledger
    index, poll = next(
        (index, event)
        for index, event in enumerate(told.events)
        if isinstance(event, Polled) and len(event.offsets) > 4
    )
    thinner = Polled(
        at_ms=poll.at_ms, member=poll.member, partition=poll.partition,
        offsets=poll.offsets[:2] + poll.offsets[3:], values=poll.values[:2] + poll.values[3:],
    )  # fmt: skip
    told.events[index] = thinner
    found = audit(spark, write(tmp_path, told))
    assert "poll-skip" in found.rules
    assert list(found.violations) == check(told)


def run_of(member: str, first: int, last: int, at_ms: float, values: str = "v") -> Polled:
    offsets = tuple(range(first, last))
    return Polled(
        at_ms=at_ms, member=member, partition=AT, offsets=offsets, values=tuple(f"{values}{o}" for o in offsets)
    )


def sent(first: int, last: int, at_ms: float, values: str = "v") -> list[Event]:
    return [Sent(at_ms=at_ms, partition=AT, offset=o, value=f"{values}{o}") for o in range(first, last)]


def test_records_that_one_skips_and_another_reads_stay(spark: SparkSession, tmp_path: Path) -> None:
    """Each of them is sent once and polled once, in the middle of a poll; what is wrong is who did not poll it."""
    told = Ledger(
        [
            Started(at_ms=0.0, member="a", session_timeout_ms=10_000.0),
            Started(at_ms=0.0, member="b", session_timeout_ms=10_000.0),
            *sent(0, 10_000, 0.0),
            Assigned(at_ms=0.0, member="a", partitions=(AT,)),
            run_of("a", 0, 100, 1.0),
            run_of("a", 9_000, 10_000, 2.0),
            Revoked(at_ms=2.0, member="a", partitions=(AT,)),
            Stored(at_ms=3.0, partition=AT, offset=100, end=10_000),
            Assigned(at_ms=3.0, member="b", partitions=(AT,)),
            run_of("b", 5_000, 9_000, 4.0),
            run_of("b", 90, 5_010, 5.0),
            Ended(at_ms=9.0),
        ]
    )
    found = audit(spark, write(tmp_path, told))
    assert list(found.violations) == check(told)
    assert {"poll-skip", "begins-too-late", "nonmonotonic-poll"} <= set(found.rules)
    assert found.kept < 20_000


def test_logs_that_change_under_their_readers_are_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Offsets given out twice, retention, compaction; records late in calm, and after all was quiet."""
    told = Ledger(
        [
            Started(at_ms=0.0, member="a", session_timeout_ms=1_000.0),
            Assigned(at_ms=0.0, member="a", partitions=(AT,)),
            *sent(0, 300, 0.0),
            run_of("a", 0, 300, 1.0),
            Truncated(at_ms=2.0, partition=AT, to=200),
            *sent(200, 400, 3.0, values="w"),
            run_of("a", 200, 400, 4.0, values="w"),
            Removed(at_ms=5.0, partition=AT, before=150),
            *sent(400, 500, 5.0),
            Vanished(at_ms=6.0, partition=AT, offsets=tuple(range(410, 490))),
            run_of("a", 490, 500, 7.0),
            Calm(at_ms=8.0),
            *sent(500, 550, 9.0),
            run_of("a", 500, 550, 9_000.0),
            Closing(at_ms=9_001.0),
            *sent(550, 600, 9_002.0),
            Quiet(at_ms=9_003.0),
            run_of("a", 550, 600, 90_000.0),
            Ended(at_ms=90_001.0),
        ]
    )
    found = audit(spark, write(tmp_path, told))
    assert list(found.violations) == check(told)
    assert found.rules["late"] == 50
    assert {"recovery", "poll-skip"} <= set(found.rules)


def test_files_are_read_in_the_order_of_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """Some are compressed; Spark cuts the others and begins with whichever is largest."""
    story = Story(rounds=24, partitions=4, records=200, plants=("poll-skip", "commit-ahead"))
    told = list(lines(story))
    for number, part in enumerate(told[at : at + 4_000] for at in range(0, len(told), 4_000)):
        text = "".join(f"{line}\n" for line in part).encode()
        name = f"{number:03}.jsonl"
        (tmp_path / (f"{name}.gz" if number % 2 else name)).write_bytes(gzip.compress(text) if number % 2 else text)
    found = audit(spark, str(tmp_path))
    assert len(list(tmp_path.iterdir())) > 3
    assert list(found.violations) == check(ledger(story))


def test_what_cannot_be_judged_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    processor = ProcessorStarted(at_ms=0.0, member="a", processor=1, workers=2)
    with pytest.raises(InvalidArgumentError, match="one of processors"):
        audit(spark, write(tmp_path, Ledger([processor])))
    with pytest.raises(InvalidArgumentError, match="count for its verdict, and 5 may"):
        audit(spark, write(tmp_path, Ledger(sent(0, 10, 0.0))), most_events=5)
    (tmp_path / "history.jsonl").write_text('{"offset": 7}\n')
    with pytest.raises((PySparkException, Py4JError), match="no event of a history"):
        audit(spark, str(tmp_path / "history.jsonl"))
