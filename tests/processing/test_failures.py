"""What becomes of a record that has failed: the decisions alone, without workers or time."""

from __future__ import annotations

import logging

import pytest

from kwire import TopicPartition
from kwire.errors import ProcessingError, RecordDeserializationError, WorkerError
from kwire.processing import Retry
from kwire.processing.failures import MAX_BREAKDOWNS, WARNED_EVERY_MS, Failures, GiveUp, Stop, TryAgain, place

TP = TopicPartition("orders", 0)
ERROR = ValueError("no such customer")
TWICE = Retry(max_attempts=2)


def test_a_record_is_tried_again_while_attempts_are_left() -> None:
    verdict = Failures(TWICE, stops=True).of_handler(TP, [7], 1, ERROR, 0.0)
    assert isinstance(verdict, TryAgain)
    assert 80.0 <= verdict.delay_ms <= 120.0


def test_the_processor_stops_at_the_last_attempt_with_what_was_raised() -> None:
    verdict = Failures(TWICE, stops=True).of_handler(TP, [7], 2, ERROR, 0.0)
    assert isinstance(verdict, Stop)
    assert type(verdict.error) is ProcessingError
    assert (verdict.error.topic_partition, verdict.error.offset, verdict.error.attempts) == (TP, 7, 2)
    assert verdict.error.__cause__ is ERROR


def test_a_policy_takes_the_record_at_the_last_attempt() -> None:
    assert Failures(TWICE, stops=False).of_handler(TP, [7], 2, ERROR, 0.0) == GiveUp(ERROR)


def test_no_policy_takes_a_record_whose_handler_was_told_to_exit() -> None:
    assert isinstance(Failures(TWICE, stops=False).of_handler(TP, [7], 1, SystemExit(1), 0.0), Stop)


def test_a_record_that_cannot_be_read_counts_no_attempts() -> None:
    error = RecordDeserializationError(TP, 7, origin="value", key_data=None, value_data=b"?")
    verdict = Failures(TWICE, stops=True).of_handler(TP, [7], 1, error, 0.0)
    assert isinstance(verdict, Stop)
    assert verdict.error.attempts == 0


def test_one_failure_of_many_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures(Retry(), stops=True)
    with caplog.at_level(logging.INFO, "kwire.processing"):
        for now_ms in (0.0, 1.0, WARNED_EVERY_MS - 1.0, WARNED_EVERY_MS):
            failures.of_handler(TP, [7], 1, ERROR, now_ms)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "INFO", "WARNING"]


def test_workers_that_break_down_again_and_again_stop_the_processor() -> None:
    failures = Failures(TWICE, stops=False)
    for nth in range(1, MAX_BREAKDOWNS):
        assert isinstance(failures.of_workers(TP, [7], nth, ERROR, "a process died", 0.0), TryAgain)
    last = failures.of_workers(TP, [7], MAX_BREAKDOWNS, ERROR, "a process died", 0.0)
    assert isinstance(last, Stop)
    assert isinstance(last.error, WorkerError)
    assert last.error.__cause__ is ERROR


# --- lists of records -------------------------------------------------------------------------------------------


LIST = [7, 8, 9, 12]


def test_a_list_that_fails_is_named_with_all_its_offsets(caplog: pytest.LogCaptureFixture) -> None:
    Failures(Retry(), stops=True).of_handler(TP, LIST, 1, ERROR, 0.0)
    Failures(Retry(), stops=True).of_workers(TP, LIST, 1, ERROR, "a process died", 0.0)
    assert caplog.messages == [
        "orders-0 offsets 7-9, 12: attempt 1 failed: ValueError('no such customer')",
        "orders-0 offsets 7-9, 12: in work when this happened: a process died",
    ]


def test_of_a_long_list_with_gaps_the_first_offsets_are_named_and_the_last() -> None:
    assert place(TP, range(0, 1000, 2)) == "orders-0 offsets 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, ... 998 (500 in all)"


def test_the_error_that_stops_has_the_first_offset_of_the_list_and_tells_the_others() -> None:
    verdict = Failures(TWICE, stops=True).of_handler(TP, LIST, 2, ERROR, 0.0)
    assert isinstance(verdict, Stop)
    assert verdict.error.offset == 7
    assert str(verdict.error) == (
        "orders-0 offset 7: the handler failed after 2 attempts: ValueError('no such customer'); "
        "its list has offsets 7-9, 12"
    )


def test_one_breakdown_of_many_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A dead-letter function that is down fails for each record, several times a second."""
    failures = Failures(Retry(), stops=False)
    with caplog.at_level(logging.INFO, "kwire.processing"):
        for now_ms in (0.0, 1.0, WARNED_EVERY_MS):
            failures.of_workers(TP, [7], 1, ERROR, "the dead-letter function raised OSError()", now_ms)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]
