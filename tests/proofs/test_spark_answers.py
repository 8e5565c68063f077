"""`scripts/prove spark-answers` sees every way in which two answers may differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs.spark_answers.answers import Answer, Line, differences, told, wrong_answers
from proofs.spark_answers.failures import is_same_failure
from proofs.spark_answers.prove import not_once
from proofs.spark_answers.streams import Batch, streams_that_differ

PLACE = ("orders", 0)
OTHER = ("orders", 1)
ROWS: dict[tuple[str, int], list[Line]] = {PLACE: [(b"k", 0), (b"k", 1)], OTHER: [(b"k", 0)]}
ANSWER = Answer(schema="{}", tasks=2, rows=ROWS)
JAVA = """An error occurred while calling o7.javaToPython.
: org.apache.spark.SparkException: Job aborted: Lost task
\tat org.apache.spark.Some.where(Some.scala:1)
Caused by: java.lang.IllegalStateException: Cannot fetch record for offset 7 in 50 milliseconds
\t... 3 more
"""


def test_equal_answers_do_not_differ() -> None:
    assert list(differences(ANSWER, replace(ANSWER, rows=dict(reversed(ROWS.items()))))) == []


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (replace(ANSWER, schema="[]"), "schemas"),
        (replace(ANSWER, tasks=3), "tasks"),
        (replace(ANSWER, rows={**ROWS, PLACE: ROWS[PLACE][::-1]}), "row 0 of orders-0"),
        (replace(ANSWER, rows={**ROWS, PLACE: [*ROWS[PLACE], (b"k", 2)]}), "row 2 of orders-0"),
        (replace(ANSWER, rows={PLACE: ROWS[PLACE]}), "row 0 of orders-1"),
        (replace(ANSWER, rows={**ROWS, OTHER: [(None, 0)]}), "row 0 of orders-1"),
        (Answer(refusal="no"), "refused"),
    ],
)
def test_what_differs_is_told(other: Answer, what: str) -> None:
    (line,) = differences(ANSWER, other)
    assert what in line


def test_a_refusal_is_what_its_cause_says() -> None:
    assert told(JAVA) == "Cannot fetch record for offset 7 in 50 milliseconds"


@pytest.mark.parametrize(
    ("ours", "what"),
    [
        (Answer(refusal="[PYTHON_ERROR] cannot fetch record\n for offset 7 in 50 milliseconds."), None),
        (Answer(refusal="something broke"), "other words"),
        (ANSWER, "was not refused"),
    ],
)
def test_a_wrong_read_is_refused_in_the_same_words(ours: Answer, what: str | None) -> None:
    found = list(wrong_answers(Answer(refusal=JAVA), ours))
    assert (found == []) if what is None else (what in found[0])


def test_streams_are_compared_batch_by_batch() -> None:
    one, more = Batch(start=None, end={"orders": {"0": 2}}, rows=ROWS), Batch(start={}, end={"orders": {"0": 3}})
    assert list(streams_that_differ([one], [one])) == []
    assert list(streams_that_differ([one, more], [one])) == ["2 batches and 1"]
    (line,) = streams_that_differ([one], [replace(one, end={"orders": {"0": 1}})])
    assert line.startswith("batch 0: None to")


def test_a_crossing_that_loses_repeats_or_jumps_is_seen() -> None:
    def rows(*offsets: int) -> dict[tuple[str, int], list[Line]]:
        return {PLACE: [(None, None, "orders", 0, offset) for offset in offsets]}

    first, second = Batch(start=0, end=2, rows=rows(0, 1)), Batch(start=2, end=4, rows=rows(2, 3))
    assert list(not_once([first, second], wanted=4)) == []
    assert list(not_once([first, replace(second, rows=rows(3))], wanted=4)) == ["3 records of 4, 0 more than once"]
    assert list(not_once([first, replace(second, rows=rows(1, 2, 3))], wanted=4)) == [
        "4 records of 4, 1 more than once"
    ]
    assert list(not_once([first, replace(second, start=1)], wanted=4)) == [
        "batch 0 ends at 2, and the next one begins at 1"
    ]


LOST = """Some data may have been lost;
either it was aged out
or deleted. Reason: Partitions Set(P-a-1, P-a-0) have been deleted"""
THEIR_STREAM = f"""[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {LOST}. SQLSTATE: XXKST
=== Streaming Query ==="""
THEIR_BATCH = f"""An error occurred while calling o7.collectToPython.
: org.apache.spark.sql.kafka010.KafkaIllegalStateException: {LOST}
with consumer group spark-kafka-relation-7b-executor.
\tat org.apache.spark.sql.kafka010.Some.where(Some.scala:94)
Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: out of range for partition P-a-0
\tat org.apache.kafka.Some.where(Some.java:1)
"""


def of_kwire(message: str) -> str:
    return f"""[STREAM_FAILED] Query [id = 3, runId = 4] terminated with exception: [PYTHON_ERROR] Failed when Python \
planned: Traceback (most recent call last):
  File "kwire/spark/planning.py", line 70, in on_loss
    raise error
kwire.spark.errors.DataLossError: {message}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
"""


@pytest.mark.parametrize("theirs", [THEIR_STREAM, THEIR_BATCH])
def test_a_failure_is_the_same_if_all_that_sparks_source_says_is_said(theirs: str) -> None:
    message = " ".join(LOST.replace("P-a-1, P-a-0", "P-a-0, P-a-1").split())
    assert is_same_failure(theirs, of_kwire(f"{message}."))
    assert is_same_failure(theirs, of_kwire(f"[KAFKA_DATA_LOSS.PARTITIONS_DELETED] {message}. There is advice."))
    assert not is_same_failure(theirs, of_kwire(message.replace("P-a-1", "P-a-2")))
    assert not is_same_failure(theirs, of_kwire(message.partition(" Reason")[0]))
    assert not is_same_failure(theirs, of_kwire(f"Advice. {message}"))
    assert not is_same_failure(theirs, of_kwire(f"{message}0"))
    assert not is_same_failure(theirs, "")
    assert not is_same_failure("", of_kwire(message))


def test_two_sinks_that_fail_of_different_things_are_told_apart() -> None:
    def of_sink(cause: str) -> str:
        return f"""[STREAM_FAILED] Query [id = 1] terminated with exception: [FOREACH] Return Message: Traceback \
(most recent call last):
  File "scenario.py", line 124, in take
{cause}
 SQLSTATE: 39000
"""

    assert is_same_failure(of_sink("scenario.SinkError: it fails"), of_sink("scenario.SinkError: it fails"))
    assert not is_same_failure(of_sink("scenario.SinkError: it fails"), of_sink("builtins.KeyError: 'x'"))
