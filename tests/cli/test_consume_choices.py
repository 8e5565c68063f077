"""`kwire consume`: which topics, from where to where, and the names under which people type options."""

from __future__ import annotations

import itertools
import socket
import threading
from io import StringIO
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from kwire.cli.patience import said_when_slow
from kwire.clock import TimeSource, install
from kwire.errors import RecordDeserializationError
from kwire.model import TopicPartition
from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.fake_consumer import P0, P1, Command, CommandLine, FakeConsumer, names, values
else:
    from fake_consumer import P0, P1, Command, CommandLine, FakeConsumer, names, values

BILLS = TopicPartition("bills", 0)


@pytest.fixture
def now_ms() -> Iterator[list[int]]:
    """The wall clock stands; a test sets it."""
    now = [1_000_000]
    before = install(TimeSource(wall_clock_ns=lambda: now[0] * 1_000_000))
    yield now
    install(before)


# --- which topics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [["orders", "bills"], ["orders,bills"], ["-t", "orders", "--topic", "bills"], ["^"], ["--include", "orders|bills"]],
)
def test_several_topics_are_read(consume: CommandLine, kafka: FakeConsumer, arguments: list[str]) -> None:
    kafka.logs[BILLS] = values("c", 2)
    outcome = consume("-e", "-f", r"%t:%s\n", *arguments, topic=None)
    assert outcome.code == 0
    assert sorted(outcome.lines) == [
        *("bills:c0", "bills:c1"),
        *(f"orders:{name}" for name in names("a", *range(6)) + names("b", *range(5))),
    ]


def test_a_group_subscribes_to_a_pattern(consume: CommandLine, kafka: FakeConsumer) -> None:
    kafka.logs[BILLS] = values("c", 2)
    assert consume("-e", "-g", "all", "^bil", topic=None).lines == names("c", 0, 1)
    assert kafka.committed == {BILLS: 2}


def test_a_group_reads_kafkas_own_topics_if_the_pattern_names_them(command: Command) -> None:
    """Its consumer hides them from patterns, so that the command waited for ever."""
    with Cluster(topics={"orders": 1, "__consumer_offsets": 1}) as cluster:
        cluster.produce("__consumer_offsets", b"a commit")
        arguments = ("-g", "billing", "-e", "--timeout-ms", "20000", "-b", cluster.bootstrap_servers)
        assert command("consume", "^__consumer", *arguments).lines == ["a commit"]


def test_no_topic_is_a_wrong_command(consume: CommandLine) -> None:
    outcome = consume(topic=None)
    assert (outcome.code, outcome.err) == (
        2,
        "kwire: which topic? Name one, or several, or a pattern such as '^orders'\n",
    )


# --- where it stops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("0", []),
        ("4", names("a", *range(4))),
        ("@4000", names("a", *range(4))),
        ("@3001", names("a", *range(4))),
        ("1970-01-01T00:00:04", names("a", *range(4))),
        ("-1s", names("a", *range(6))),
    ],
)
def test_until(consume: CommandLine, now_ms: list[int], until: str, expected: list[str]) -> None:
    outcome = consume("-p0", "--until", until)
    assert (outcome.code, outcome.lines) == (0, expected)


def test_an_offset_that_is_not_there_yet_is_waited_for(consume: CommandLine, kafka: FakeConsumer) -> None:
    kafka.on_poll = [lambda: None] * 5 + [lambda: kafka.logs[P0].extend(values("a", 4, begin=6))]
    assert consume("-p0", "--until", "8").lines == names("a", *range(8))


def test_a_partition_that_is_made_after_the_start_is_behind_the_end(consume: CommandLine, kafka: FakeConsumer) -> None:
    """The records of one poll were printed, and committed, and the others were not."""

    def grow() -> None:
        kafka.logs[BILLS] = values("c", 9)
        kafka.positions[BILLS] = 0

    kafka.on_poll = [grow]
    assert sorted(consume("-e", "-g", "all").lines) == names("a", *range(6)) + names("b", *range(5))
    assert kafka.committed == {P0: 6, P1: 5, BILLS: 0}


def test_with_exit_at_end_it_is_not(consume: CommandLine) -> None:
    assert consume("-p0", "--until", "8", "-e").lines == names("a", *range(6))
    assert consume("-p0", "--until", "2", "-e").lines == names("a", *range(2))


def test_a_time_to_come_is_waited_for(consume: CommandLine, kafka: FakeConsumer, now_ms: list[int]) -> None:
    def pass_a_minute() -> None:
        now_ms[0] += 60_000

    kafka.on_poll = [lambda: None] * 3 + [lambda: kafka.logs[P0].append(b"late"), pass_a_minute]
    outcome = consume("-p0", "--until", "+1m")
    assert (outcome.code, outcome.lines) == (0, [*names("a", *range(6)), "late"])


def test_from_and_until_cut_out_a_piece(consume: CommandLine, now_ms: list[int]) -> None:
    now_ms[0] = 5_000
    assert consume("-p0", "--from", "-3s", "--until", "-1s").lines == names("a", 2, 3)


@pytest.mark.parametrize(("begin", "until"), [("4", "4"), ("4", "3"), ("-1s", "-2s")])
def test_an_end_that_does_not_lie_behind_the_start_is_refused(
    consume: CommandLine, now_ms: list[int], begin: str, until: str
) -> None:
    """It ended with 0, and without a word, as if there were no records."""
    outcome = consume("--from", begin, "--until", until)
    assert (outcome.code, outcome.err) == (
        2,
        f"kwire: --until {until}: it does not lie behind --from, so there is nothing to read\n",
    )


def test_a_start_behind_the_end_is_told(consume: CommandLine, caplog: pytest.LogCaptureFixture) -> None:
    assert consume("--from", "6", "-e").lines == []
    assert caplog.messages == ["orders-1 ends at offset 5; reading begins there, not at 6"]


@pytest.mark.parametrize("until", ["soon", "-5", "latest", "1h"])
def test_an_end_that_is_not_understood_is_refused(consume: CommandLine, until: str) -> None:
    outcome = consume("--until", until)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kwire: --until {until}: not understood. Stop before this offset")


def test_with_a_timeout_it_stops_when_nothing_has_come_for_so_long(consume: CommandLine, kafka: FakeConsumer) -> None:
    seconds = itertools.count()
    before = install(TimeSource(monotonic_seconds=lambda: float(next(seconds))))
    try:
        outcome = consume("-p0", "--timeout-ms", "5000")
    finally:
        install(before)
    assert (outcome.code, outcome.lines, outcome.err) == (0, names("a", *range(6)), "")


def test_with_a_timeout_it_does_not_wait_longer_for_a_broker(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited a minute, `default_api_timeout_ms`, for the first answer."""
    monkeypatch.setattr("kwire.cli.consume.MIN_PATIENCE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        outcome = command("consume", "orders", "-b", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout-ms", "50")
    assert outcome.code == 1
    assert outcome.err.startswith("kwire: partitions_for took too long; it was still waiting for")


# --- names that people type --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--max-messages", "2", "--partition", "0", "--from-beginning"], names("a", 0, 1)),
        (["-c", "1", "-p", "1", "--offset", "3"], ["b3"]),
        (["-p0", "-e", "--offset", "latest"], []),
        (["-p0", "-n1", "--property", "print.key=true"], ["key-0\ta0"]),
        (["-p0", "-n1", "--property", "print.key=true", "--property", "key.separator=:"], ["key-0:a0"]),
        (["-p0", "-n1", "--property", "print.offset=true", "--property", "print.value=false"], ["0"]),
        (["-p0", "-n2", "--property", "line.separator=|"], ["a0|a1|"]),
    ],
)
def test_options_of_kafkas_console_consumer(consume: CommandLine, arguments: list[str], lines: list[str]) -> None:
    outcome = consume("--bootstrap-server", "localhost:2", "--topic", "orders", *arguments, topic=None)
    assert (outcome.code, outcome.lines) == (0, lines)


def test_properties_that_are_settings_stay_settings(consume: CommandLine, kafka: FakeConsumer) -> None:
    consume("-e", "--property", "fetch.min.bytes=7", "--property", "print.key=true", "--group", "g")
    assert kafka.settings["fetch_min_bytes"] == 7
    assert kafka.settings["group_id"] == "g"


def test_a_format_stands_for_the_deserializer_of_a_file(
    consume: CommandLine, kafka: FakeConsumer, tmp_path: Path
) -> None:
    """The deserializer's text was taken for the bytes of the log: 7 was printed as 55."""
    file = tmp_path / "client.properties"
    java = "org.apache.kafka.common.serialization.LongDeserializer"
    file.write_text(f"key.deserializer={java}\nvalue.deserializer={java}\n")
    consume("-e", "-F", str(file), "--value-format", "hex")
    assert "value_deserializer" not in kafka.settings
    assert callable(kafka.settings["key_deserializer"])


def test_the_isolation_level_is_an_option(consume: CommandLine, kafka: FakeConsumer) -> None:
    consume("-e", "--isolation-level", "read_committed")
    assert str(kafka.settings["isolation_level"]) == "IsolationLevel.READ_COMMITTED"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from-beginning", "--from", "3"], "--from-beginning and --from say where to begin; give one of them"),
        (["--property", "print.value=false"], "--property print.value=false: then there is nothing to print"),
        (["--property", "print.key=yes"], "--property print.key=yes: write true or false"),
        (["-K", ":", "--property", "key.separator=:"], "--property key.separator: an option says the same"),
        (["-f", "json", "--property", "print.key=true"], "print.key is for --format text, not json"),
        (["--print", "kye"], "--print kye: there is no such field; there are topic, partition, offset"),
        (["--isolation-level", "high"], "--isolation-level: isolation_level='high'"),
        (["--value-format", "xml"], "--value-format xml: there is no such format; there are text, json, hex"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(consume: CommandLine, arguments: list[str], said: str) -> None:
    outcome = consume(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kwire: {said}")
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
def test_an_offset_behind_an_open_transaction_is_where_it_begins(command: Command) -> None:
    """It began at the transaction, where the log ends for who reads committed records."""
    fetched = set[int]()

    def see(request: FetchRequest, _call: object) -> None:
        fetched.update(each.fetch_offset for topic in request.topics for each in topic.partitions)

    with Cluster(topics={"orders": 1}) as cluster:
        cluster.control.on(FetchRequest).observe(see)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "billing"}
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", b"open")
        producer.flush()
        cluster.produce("orders", b"1", b"2")
        arguments = ("--from", "2", "--isolation-level", "read_committed", "--timeout-ms", "500")
        assert command("consume", "orders", *arguments, "-b", cluster.bootstrap_servers).lines == []
        producer.abort_transaction()
        del producer
    assert 2 in fetched


# --- values that are not of their format -------------------------------------------------------------------------


def test_what_lies_in_front_of_an_unreadable_value_is_printed_and_alone_is_committed(
    consume: CommandLine, kafka: FakeConsumer
) -> None:
    kafka.logs = {P0: [b"\0\1", b"\0\2", b"bad", b"\0\3"], P1: [b"\0\4"]}
    outcome = consume("-e", "-g", "billing", "--value-format", "int")
    assert (outcome.code, outcome.lines) == (1, ["1", "2"])
    assert outcome.err.startswith("kwire: orders-0 at offset 2: the value is not of --value-format: an integer has")
    assert kafka.committed == {P0: 2, P1: 0}
    # --from, which the advice named, is refused in a group.
    assert "'kwire groups reset billing --topic orders:0 --to 3 --execute' has the group begin behind" in outcome.err


@pytest.mark.parametrize(
    ("group", "advice"),
    [
        ([], "--from 3 begins behind it"),
        (["-g", "g"], "'kwire groups reset g --topic orders:0 --to 3 --execute' has the group begin behind it"),
    ],
)
def test_what_a_deserializer_of_a_file_fails_over_is_stepped_over_by_commands(
    consume: CommandLine, kafka: FakeConsumer, group: list[str], advice: str
) -> None:
    """The advice was a call of Python."""

    def fail() -> None:
        raise RecordDeserializationError(
            P0, 2, origin="value", key_data=b"", value_data=b"", reason="ValueError: short"
        )

    kafka.on_poll = [fail]
    outcome = consume("-e", *group)
    said = f"kwire: cannot deserialize the value of orders-0 at offset 2: ValueError: short; {advice}\n"
    assert (outcome.code, outcome.err) == (1, said)


# --- patience ----------------------------------------------------------------------------------------------------


def test_after_a_while_without_a_broker_it_says_what_it_tries_to_reach(
    consume: CommandLine, kafka: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.cli.patience.SAID_AFTER_S", 0.0)
    find = kafka.partitions_for
    said: list[str] = []

    def after_a_while(topic: str, /, *, timeout: float | None) -> object:
        while not said:
            threading.Event().wait(0.05)  # what is written while it is read may lose its first letters
            said.extend(consume.capture.readouterr().err.decode().splitlines())
        return find(topic)

    monkeypatch.setattr(kafka, "partitions_for", after_a_while)
    assert consume("-e").code == 0
    assert said == ["kwire: no broker has answered yet; still trying localhost:1 ('kwire doctor' says what is wrong)"]


def test_what_is_being_said_when_the_answer_comes_is_said_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that says it wrote on while the command went on to its end, and closed what it writes to."""
    begun, answered, said = threading.Event(), threading.Event(), list[str]()

    class Terminal(StringIO):
        def flush(self) -> None:
            begun.set()
            answered.wait()
            said.append(self.getvalue())

    monkeypatch.setattr("kwire.cli.patience.SAID_AFTER_S", 0.0)
    monkeypatch.setattr("sys.stderr", Terminal())
    with said_when_slow(["broker:9092"]):
        begun.wait()
        answered.set()
    assert [line.partition(";")[0] for line in said] == ["kwire: no broker has answered yet"]
