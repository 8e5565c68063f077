"""`kwire consume` from its arguments to its output, its exit code and what it commits; Kafka is a fake here."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import pytest

from kwire.cli.output import Output
from kwire.errors import IllegalStateError, KafkaError, KafkaTimeoutError, TopicAuthorizationError
from kwire.model import (
    TopicPartition,
)

if TYPE_CHECKING:
    from tests.cli.fake_consumer import P0, P1, TOPIC, CommandLine, FakeConsumer, names, values
else:
    from fake_consumer import P0, P1, TOPIC, CommandLine, FakeConsumer, names, values


# --- what is printed ---------------------------------------------------------------------------------------------


def test_the_whole_topic_is_printed(consume: CommandLine, kafka: FakeConsumer) -> None:
    outcome = consume("--exit-at-end")
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(outcome.lines) == names("a", *range(6)) + names("b", *range(5))
    assert [line for line in outcome.lines if line[0] == "a"] == names("a", *range(6))
    assert kafka.closed


def test_metrics_are_shown_at_the_end_and_keep_out_of_the_output(consume: CommandLine, kafka: FakeConsumer) -> None:
    outcome = consume("--exit-at-end", "--metrics")
    assert outcome.code == 0
    assert len(outcome.lines) == 11
    assert outcome.err.splitlines() == ["consumer-metrics client-id=me", f"  connection-count  {kafka.polls}"]


def test_formats_are_chosen_by_name(consume: CommandLine) -> None:
    assert consume("-p1", "-n1", "--format", "json").out == (
        '{"topic":"orders","partition":1,"offset":0,"timestamp":0,"key":"key-0","value":"b0","headers":[]}\n'
    )


def test_options_of_formats_reach_them(consume: CommandLine, kafka: FakeConsumer) -> None:
    assert consume("-p0", "-n2", "-K", r"\t").out == "key-0\ta0\nkey-1\ta1\n"
    assert consume("-p0", "-n2", "-f", "raw", "-D", "|").out == "a0|a1|"


def test_defaults_suit_whoever_looks_into_a_topic(consume: CommandLine, kafka: FakeConsumer) -> None:
    consume("-e")
    assert str(kafka.settings["auto_offset_reset"]) == "earliest"
    assert kafka.settings["allow_auto_create_topics"] is False
    assert "group_id" not in kafka.settings


def test_settings_override_the_defaults(consume: CommandLine, kafka: FakeConsumer) -> None:
    assert consume("-e", "-X", "auto.offset.reset=latest").lines == []
    assert str(kafka.settings["auto_offset_reset"]) == "latest"


# --- where it begins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", names("a", *range(6))),
        ("beginning", names("a", *range(6))),
        ("latest", []),
        ("end", []),
        ("4", names("a", 4, 5)),
        ("0", names("a", *range(6))),
        ("99", []),
        ("-2", names("a", 4, 5)),
        ("-99", names("a", *range(6))),
        ("@4000", names("a", 4, 5)),
        ("@3001", names("a", 4, 5)),
        ("@99000", []),
        ("1970-01-01T00:00:04", names("a", 4, 5)),
        ("1970-01-01T00:00:03.5", names("a", 4, 5)),
        ("1970-01-01T01:00:04+01:00", names("a", 4, 5)),
        ("1970-01-01T00:00:04Z", names("a", 4, 5)),
        ("1970-01-01", names("a", *range(6))),
    ],
)
def test_from(consume: CommandLine, start: str, expected: list[str]) -> None:
    outcome = consume("-e", "-p", "0", "--from", start)
    assert (outcome.code, outcome.lines) == (0, expected)


def test_an_offset_before_the_log_means_its_beginning(consume: CommandLine, kafka: FakeConsumer) -> None:
    kafka.begins = {P0: 4}
    assert consume("-e", "-p0", "--from", "2").lines == names("a", 4, 5)


def test_each_partition_is_sought_by_its_own_ends(consume: CommandLine) -> None:
    assert sorted(consume("-e", "--from", "-1").lines) == ["a5", "b4"]
    assert sorted(consume("-e", "--from", "5").lines) == ["a5"]


@pytest.mark.parametrize("start", ["yesterday", "12x", "", "--1", "@", "@-5", "1969-12-31", "2026-13-01"])
def test_a_start_that_is_not_understood_is_refused(consume: CommandLine, kafka: FakeConsumer, start: str) -> None:
    outcome = consume("--from", start)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kwire: --from {start}: ".replace("  ", " "))
    assert outcome.err.count("\n") == 1


def test_partitions_can_be_chosen(consume: CommandLine) -> None:
    assert consume("-e", "-p", "1").lines == names("b", *range(5))
    assert len(consume("-e", "-p", "1", "-p", "0", "-p", "1").lines) == 11


# --- where it stops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4, 5, 10, 11])
def test_count_is_exact(consume: CommandLine, count: int) -> None:
    outcome = consume("-n", str(count))
    assert (outcome.code, len(outcome.lines)) == (0, count)


def test_count_does_not_outlast_the_end(consume: CommandLine) -> None:
    assert len(consume("-n", "99", "-e").lines) == 11


def test_what_arrives_after_the_start_is_behind_the_end(consume: CommandLine, kafka: FakeConsumer) -> None:
    def produce() -> None:
        kafka.logs[P0] += values("a", 3, begin=len(kafka.logs[P0]))

    kafka.on_poll = [produce] * 5
    assert sorted(consume("--exit-at-end").lines) == names("a", *range(6)) + names("b", *range(5))


def test_a_log_that_ends_without_records_has_an_end(consume: CommandLine, kafka: FakeConsumer) -> None:
    kafka.logs = {P0: [b"a0", None, None], P1: [None], TopicPartition(TOPIC, 2): []}
    assert consume("-e").lines == ["a0"]


def test_a_position_that_is_not_known_yet_is_asked_for_again(
    consume: CommandLine, kafka: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Iterator[int | None] = iter([None, None, 3])

    def position(partition: TopicPartition, /, *, timeout: float) -> int:
        answer = next(answers)
        if answer is None:
            raise KafkaTimeoutError("the position is being looked up")
        return answer

    kafka.logs = {P0: [None, None, None]}
    monkeypatch.setattr(kafka, "position", position)
    assert consume("-e").code == 0
    assert kafka.polls == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_after_the_batch_under_way(
    consume: CommandLine, kafka: FakeConsumer, number: signal.Signals, code: int
) -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    kafka.on_poll = [lambda: None, lambda: signal.raise_signal(number)]
    outcome = consume("-p0")
    assert (outcome.code, outcome.err) == (code, "")
    assert outcome.lines == names("a", *range(6))
    assert kafka.polls == 2
    assert kafka.closed
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_just_before_the_end_leaves_time_to_close(
    consume: CommandLine, kafka: FakeConsumer, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    """SIGTERM killed it there: nothing was committed, and the group had a dead member."""
    close = kafka.close

    def signalled() -> None:
        signal.raise_signal(number)
        close()

    monkeypatch.setattr(kafka, "close", signalled)
    outcome = consume("-e")
    assert (outcome.code, outcome.err) == (code, "")
    assert kafka.closed


def test_a_second_signal_does_not_wait(consume: CommandLine, kafka: FakeConsumer) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    kafka.on_poll = [twice]
    outcome = consume()
    assert (outcome.code, outcome.lines, outcome.err) == (130, [], "")
    assert kafka.closed


def test_an_interrupt_before_reading_ends_without_a_traceback(
    consume: CommandLine, kafka: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "partitions_for", lambda topic, *, timeout: signal.raise_signal(signal.SIGINT))
    outcome = consume()
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "")
    assert kafka.closed


# --- groups ------------------------------------------------------------------------------------------------------


def test_a_group_goes_on_where_it_was(consume: CommandLine, kafka: FakeConsumer) -> None:
    kafka.committed = {P0: 4}
    assert sorted(consume("-e", "--group", "billing").lines) == names("a", 4, 5) + names("b", *range(5))
    assert kafka.committed == {P0: 6, P1: 5}
    assert consume("-e", "--group", "billing").lines == []


def test_a_group_may_come_from_the_environment(
    consume: CommandLine, kafka: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWIRE_GROUP_ID", "billing")
    consume("-e")
    assert kafka.committed == {P0: 6, P1: 5}


@pytest.mark.parametrize(("start", "count"), [("earliest", 11), ("latest", 0)])
def test_from_is_where_a_group_begins(consume: CommandLine, kafka: FakeConsumer, start: str, count: int) -> None:
    assert len(consume("-e", "-g", "billing", "--from", start).lines) == count
    assert kafka.settings["auto_offset_reset"] == start


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--from", "5"], "a group goes on from its commits; --from earliest or latest is for when it has none"),
        (["--from", "@5"], "a group goes on from its commits; --from earliest or latest is for when it has none"),
        (["-p", "0"], "a group shares out the partitions itself; leave out either --partition or the group"),
    ],
)
def test_what_contradicts_a_group_is_refused(consume: CommandLine, arguments: list[str], why: str) -> None:
    outcome = consume("-g", "billing", *arguments)
    assert (outcome.code, outcome.err) == (2, f"kwire: {why}\n")


def test_what_count_leaves_out_is_not_committed(consume: CommandLine, kafka: FakeConsumer) -> None:
    assert consume("-g", "billing", "-n", "5").lines == [*names("a", 0, 1, 2, 3), "b0"]
    assert kafka.committed == {P0: 4, P1: 1}


def test_what_is_behind_the_end_is_not_committed(consume: CommandLine, kafka: FakeConsumer) -> None:
    kafka.on_poll = [lambda: kafka.logs[P1].extend(values("b", 5, begin=5))] * 3
    consume("-g", "billing", "-e")
    assert kafka.committed == {P0: 6, P1: 5}


def test_a_member_without_partitions_waits_for_some(consume: CommandLine, kafka: FakeConsumer) -> None:
    def take_away() -> None:
        kafka.positions = {}

    def give() -> None:
        kafka.positions = {P1: 3}

    kafka.on_poll = [take_away, lambda: None, give]
    assert consume("-g", "billing", "-e").lines == names("b", 3, 4)


def test_a_partition_that_was_lost_while_writing_is_left_to_its_new_owner(
    consume: CommandLine, kafka: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seek(partition: TopicPartition, offset: int, /) -> None:
        raise IllegalStateError(f"{partition} is not assigned")

    monkeypatch.setattr(kafka, "seek", seek)
    assert consume("-g", "billing", "-n", "1").lines == ["a0"]


# --- outputs that fail -------------------------------------------------------------------------------------------


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[BinaryIO]:
    """The reading end of a pipe that is standard output."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "wb") as writer:
        monkeypatch.setattr(Output, "standard", lambda: Output(writer))
        yield reader


def test_a_reader_that_leaves_is_no_error(consume: CommandLine, kafka: FakeConsumer, pipe: BinaryIO) -> None:
    def leave() -> None:
        assert pipe.readline() == b"a0\n"
        pipe.close()

    kafka.on_poll = [lambda: None, leave]
    outcome = consume("-g", "billing")
    assert (outcome.code, outcome.err) == (0, "")
    assert kafka.closed
    assert kafka.committed == {P0: 4, P1: 4}  # the batch that found no reader is not


def test_a_reader_that_leaves_is_noticed_while_nothing_arrives(
    consume: CommandLine, kafka: FakeConsumer, pipe: BinaryIO
) -> None:
    kafka.logs = {P0: []}
    kafka.on_poll = [lambda: None, pipe.close]
    assert consume().code == 0
    assert kafka.polls == 2


class FullDisk:
    """A stream that takes nothing more."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def test_a_full_disk_is_one_line_and_commits_nothing(
    consume: CommandLine, kafka: FakeConsumer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (tmp_path_factory.mktemp("out") / "file").open("wb") as stream:
        full = FullDisk(stream)
        monkeypatch.setattr(Output, "standard", lambda: Output(full))  # type: ignore[arg-type]  # as far as it is used
        outcome = consume("-g", "billing")
    assert (outcome.code, outcome.err) == (1, "kwire: cannot write to standard output: No space left on device\n")
    assert kafka.committed == {P0: 0, P1: 0}


def test_a_closed_output_is_one_line(consume: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    outcome = consume()
    assert (outcome.code, outcome.err) == (1, "kwire: standard output is closed\n")


# --- errors ------------------------------------------------------------------------------------------------------


def test_an_error_of_kafka_is_one_line(consume: CommandLine, kafka: FakeConsumer) -> None:
    def refuse() -> None:
        raise TopicAuthorizationError([TOPIC])

    kafka.on_poll = [refuse]
    outcome = consume()
    assert (outcome.code, outcome.err) == (1, "kwire: not authorized to access topics: orders\n")
    assert kafka.closed


def test_an_error_of_several_lines_becomes_one(consume: CommandLine, kafka: FakeConsumer) -> None:
    def fail() -> None:
        raise KafkaError("first\n  second")

    kafka.on_poll = [fail]
    assert consume().err == "kwire: first second\n"


def test_an_error_without_words_is_named(consume: CommandLine, kafka: FakeConsumer) -> None:
    def fail() -> None:
        raise KafkaTimeoutError

    kafka.on_poll = [fail]
    assert consume().err == "kwire: KafkaTimeoutError\n"


def test_an_unknown_topic_is_an_error(consume: CommandLine) -> None:
    outcome = consume(topic="order")
    assert (outcome.code, outcome.err) == (
        1,
        "kwire: there is no topic 'order', or this client may not see it; did you mean 'orders'?\n",
    )


def test_an_unknown_partition_is_an_error(consume: CommandLine) -> None:
    outcome = consume("-p", "1", "-p", "7")
    assert (outcome.code, outcome.err) == (1, "kwire: topic 'orders' has no partition 7; it has 2, from 0 on\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-X", "max.poll.records=0"], "-X max.poll.records: max_poll_records='0': out of range"),
        (["-X", "grup.id=a"], "-X grup.id: unknown setting 'grup.id'; did you mean 'group.id'?"),
        (["--config", "/nowhere/at.all"], "cannot read /nowhere/at.all: No such file or directory"),
        (["--group", " "], "--group: group_id is blank"),
        (["-f", "json", "-K", ":"], "--key-separator is for --format text, not json"),
        (["-f", "raw", "-D", r"\q"], r"--delimiter: '\q' is no escape"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(consume: CommandLine, arguments: list[str], said: str) -> None:
    outcome = consume(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kwire: {said}")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["-n", "0"], ["-p", "-1"], ["-f", "xml"], ["--no-such-option"]])
def test_wrong_options_are_exit_code_2(consume: CommandLine, arguments: list[str]) -> None:
    assert consume(*arguments).code == 2
