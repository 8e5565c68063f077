"""`kwire topics`, `groups` and `produce` with Kafka in this process."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from kwire import Consumer, OffsetAndMetadata, TopicPartition
from kwire.cli.admin.murmur2 import murmur2
from kwire.errors import KafkaError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.produce import ProduceRequest, ProduceResponse
from kwire.protocol.schema import Message
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.cli.fake_consumer import Command, Outcome

PROTOCOLS = ["classic", "consumer"]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as cluster:
        cluster.create_topic("orders", partitions=3, replication=1)
        cluster.create_topic("bills", replication=1)
        for number in range(10):
            cluster.produce("orders", b"%d" % number, partition=number % 3)
        yield cluster


def commit_and_leave(cluster: Cluster, group: str, offset: int = 2, protocol: str = "classic") -> None:
    """A group without members that has committed this offset of each partition of orders."""
    with member(cluster, group, protocol) as consumer:
        commit(consumer, *((f"orders-{number}", offset) for number in range(3)))


def commit(consumer: Consumer[bytes, bytes], *offsets: tuple[str, int]) -> None:
    """Offsets of partitions that are named as in orders-0."""
    parted = [(name.rpartition("-"), offset) for name, offset in offsets]
    consumer.commit_sync(
        {TopicPartition(topic, int(number)): OffsetAndMetadata(offset) for (topic, _, number), offset in parted}
    )


def member(cluster: Cluster, group: str, protocol: str = "classic") -> Consumer[bytes, bytes]:
    """A member that has all partitions of orders."""
    consumer: Consumer[bytes, bytes] = Consumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group,
        group_protocol=protocol,
        client_id="reader",
        enable_auto_commit=False,
    )
    try:
        while len(consumer.assignment()) < 3:
            consumer.poll(0.1)
    except KafkaError:
        consumer.close()
        raise
    return consumer


def words(outcome: Outcome) -> list[list[str]]:
    assert (outcome.code, outcome.err) == (0, ""), outcome
    return [line.split() for line in outcome.lines]


def test_the_time_for_a_call_bounds_the_wait_for_a_broker(command: Command) -> None:
    """`-X default_api_timeout_ms=...` was taken and had no effect: the command waited 30 s."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        outcome = command("topics", "list", "-b", server, "-X", "default_api_timeout_ms=50")
    assert outcome.code == 1
    assert outcome.err.startswith(f"kwire: broker {server}: no answer to ApiVersions in time")


# --- topics ------------------------------------------------------------------------------------------------------


def test_topics_are_listed(command: Command, cluster: Cluster) -> None:
    assert words(command("topics", "list", "-b", cluster.bootstrap_servers)) == [
        ["topic", "partitions", "replicas"],
        ["bills", "1", "1"],
        ["orders", "3", "1"],
    ]
    assert words(command("topics", "list", "^ord", "-b", cluster.bootstrap_servers))[1:] == [["orders", "3", "1"]]


def test_topics_are_described(command: Command, cluster: Cluster) -> None:
    headline, head, *rows = words(command("topics", "describe", "orders", "-b", cluster.bootstrap_servers))
    assert headline[:6] == ["orders:", "3", "partitions,", "replication", "factor", "1,"]
    assert head == ["partition", "leader", "replicas", "in", "sync", "behind"]
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert rows[0][1] == str(cluster.leader("orders", 0))


def test_one_partition_is_not_partitions(command: Command, cluster: Cluster) -> None:
    """`1 partitions` and `1 partition(s)` stood there."""
    described = command("topics", "describe", "bills", "-b", cluster.bootstrap_servers)
    assert described.out.startswith("bills: 1 partition, replication factor 1,")
    examined = command("doctor", "--topic", "bills", "-b", cluster.bootstrap_servers)
    assert "exists with 1 partition, all led" in examined.out


def test_offsets_are_told_also_at_a_time(command: Command, cluster: Cluster) -> None:
    outcome = command("topics", "offsets", "orders", "bills", "--at", "-1h", "-b", cluster.bootstrap_servers)
    assert words(outcome) == [
        ["topic", "partition", "begin", "end", "offsets", "at"],
        ["orders", "0", "0", "4", "4", "0"],
        ["orders", "1", "0", "3", "3", "0"],
        ["orders", "2", "0", "3", "3", "0"],
        ["bills", "0", "0", "0", "0", "0"],
    ]


def test_a_leader_that_has_moved_is_looked_up_again(command: Command, cluster: Cluster) -> None:
    """The one that metadata had named was asked again and again for 15 s, and then the command failed."""
    stale = cluster.control.on(MetadataRequest).edit(name_the_other_broker)
    cluster.control.on(ListOffsetsRequest, times=1).observe(lambda _request, _call: stale.remove())
    assert words(command("topics", "offsets", "bills", "-b", cluster.bootstrap_servers))[1:] == [
        ["bills", "0", "0", "0", "0"]
    ]


def name_the_other_broker(answer: Message) -> None:
    assert isinstance(answer, MetadataResponse)
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_id = 1 - partition.leader_id


def test_for_programs_topics_are_json(command: Command, cluster: Cluster) -> None:
    listed = json.loads(command("topics", "list", "--json", "-b", cluster.bootstrap_servers).out)
    assert [(topic["name"], len(topic["partitions"])) for topic in listed] == [("bills", 1), ("orders", 3)]
    offsets = json.loads(command("topics", "offsets", "orders", "--json", "-b", cluster.bootstrap_servers).out)
    assert offsets[0] == {"topic": "orders", "partition": 0, "begin": 0, "end": 4, "offsets": 4}


def test_a_topic_that_there_is_not_is_an_error_and_is_not_created(command: Command, cluster: Cluster) -> None:
    for verb in ("describe", "offsets"):
        outcome = command("topics", verb, "order", "-b", cluster.bootstrap_servers)
        assert (outcome.code, outcome.err) == (1, "kwire: there is no topic 'order', or this client may not see it\n")
    assert "order\n" not in command("topics", "list", "-b", cluster.bootstrap_servers).out


# --- groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_is_described_with_its_lag(command: Command, cluster: Cluster, protocol: str) -> None:
    with member(cluster, "billing", protocol) as consumer:
        commit(consumer, ("orders-0", 1), ("orders-1", 3))
        outcome = command("groups", "describe", "billing", "-b", cluster.bootstrap_servers)
    headline, *rows = words(outcome)
    assert " ".join(headline).startswith(f"billing: Stable, {protocol} protocol, assignor ")
    assert "1 member, lag 3, coordinator 127.0.0.1:" in " ".join(headline)
    assert rows == [
        ["topic", "partition", "committed", "end", "lag", "client", "host"],
        ["orders", "0", "1", "4", "3", "reader", "127.0.0.1"],
        ["orders", "1", "3", "3", "0", "reader", "127.0.0.1"],
        ["orders", "2", "-", "3", "-", "reader", "127.0.0.1"],
    ]


@pytest.mark.slow
def test_groups_of_all_coordinators_are_listed(command: Command, cluster: Cluster) -> None:
    for number in range(4):
        commit_and_leave(cluster, f"group-{number}")
    head, *rows = words(command("groups", "list", "-b", cluster.bootstrap_servers))
    assert head == ["group", "state", "protocol", "kind", "coordinator"]
    assert [row[:4] for row in rows] == [[f"group-{number}", "Empty", "classic", "consumer"] for number in range(4)]
    assert {int(row[4]) for row in rows} == {cluster.coordinator(f"group-{number}") for number in range(4)}
    assert len(words(command("groups", "list", "group-[12]$", "-b", cluster.bootstrap_servers))) == 3


def test_for_programs_groups_are_json(command: Command, cluster: Cluster) -> None:
    commit_and_leave(cluster, "billing")
    (found,) = json.loads(command("groups", "describe", "billing", "--json", "-b", cluster.bootstrap_servers).out)
    assert (found["state"], found["lag"], found["members"]) == ("Empty", 4, [])
    assert found["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "committed": 2,
        "end": 4,
        "lag": 2,
        "member_id": None,
    }


def test_a_commit_behind_the_end_is_a_lag_below_0(command: Command, cluster: Cluster) -> None:
    """As Kafka's own tool says it: a topic that was deleted and created again does not look as if all were read."""
    with member(cluster, "billing") as consumer:
        commit(consumer, ("orders-0", 1), ("orders-1", 9))
    (found,) = json.loads(command("groups", "describe", "billing", "--json", "-b", cluster.bootstrap_servers).out)
    assert [each["lag"] for each in found["partitions"]] == [3, -6]
    assert found["lag"] == 3


def test_a_group_that_there_is_not_is_exit_code_1(command: Command, cluster: Cluster) -> None:
    """It was printed to standard output, as a group is."""
    outcome = command("groups", "describe", "billing", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "kwire: billing: there is no such group, or it has neither members nor commits\n"


def test_a_topic_that_was_deleted_leaves_the_rest_of_the_lag(command: Command, cluster: Cluster) -> None:
    cluster.create_topic("gone", partitions=1)
    with member(cluster, "billing") as consumer:
        commit(consumer, ("gone-0", 5), ("orders-0", 1))
    cluster.delete_topic("gone")
    rows = words(command("groups", "describe", "billing", "-b", cluster.bootstrap_servers))[2:]
    assert ["orders", "0", "1", "4", "3", "-", "-"] in rows
    assert all(row[3:5] == ["-", "-"] for row in rows if row[0] == "gone")


@pytest.mark.slow
def test_a_group_is_watched_until_told_to_stop(command: Command, cluster: Cluster) -> None:
    commit_and_leave(cluster, "billing")
    outcome = command("groups", "watch", "billing", "--every", "0.1", "-n", "2", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count("billing: Empty") == 2
    rates = [line.split()[5] for line in outcome.lines if line.startswith("orders")]
    assert rates == ["-"] * 3 + ["0"] * 3


@pytest.mark.slow
def test_watching_goes_on_behind_an_outage(command: Command, cluster: Cluster) -> None:
    commit_and_leave(cluster, "billing")
    cluster.control.on(OffsetFetchRequest, times=1).cut()
    outcome = command("groups", "watch", "billing", "--every", "0.1", "-n", "2", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (0, "")
    assert "it hung up instead of answering OffsetFetch" in outcome.lines[1]
    assert outcome.lines[1].endswith("; looking again in 0.1 s")
    assert outcome.lines[3].startswith("billing: Empty")


@pytest.mark.slow
def test_ctrl_c_ends_watching(command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: signal.raise_signal(signal.SIGINT))
    outcome = command("groups", "watch", "billing", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (130, "")


@pytest.mark.slow
def test_names_may_come_by_options_as_of_kafkas_tools(command: Command, cluster: Cluster) -> None:
    commit_and_leave(cluster, "billing")
    servers = ["--bootstrap-server", cluster.bootstrap_servers]
    assert command("groups", "describe", "--group", "billing", *servers).code == 0
    assert command("topics", "describe", "--topic", "orders", *servers).code == 0
    reset = command("groups", "reset", "--group", "billing", "--topic", "orders", "--to-latest", "--dry-run", *servers)
    assert reset.code == 0
    outcome = command("groups", "describe", *servers)
    assert (outcome.code, outcome.err) == (2, "kwire: which group? Name one, or several\n")
    outcome = command("groups", "reset", "a", "--group", "b", "--all-topics", "--to", "1", *servers)
    assert (outcome.code, outcome.err) == (2, "kwire: this is about one group at a time, not about a, b\n")


# --- groups reset ------------------------------------------------------------------------------------------------


def commits(cluster: Cluster, group: str = "billing") -> list[int]:
    found = cluster.committed(group)
    return [found[partition].offset for partition in sorted(found)]


@pytest.mark.parametrize("arguments", [["topics", "list"], ["groups", "list"], ["doctor"]])
def test_the_file_of_a_consumer_need_not_name_its_group(
    command: Command, cluster: Cluster, tmp_path: Path, arguments: list[str]
) -> None:
    """Commands that join no group refused a file in which auto-commit is on."""
    file = tmp_path / "consumer.properties"
    file.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\nenable.auto.commit=true\n")
    outcome = command(*arguments, "--config", file)
    assert (outcome.code, outcome.err) == (0, "")


def test_a_reset_is_shown_and_not_carried_out(command: Command, cluster: Cluster) -> None:
    commit_and_leave(cluster, "billing")
    outcome = command("groups", "reset", "billing", "--all-topics", "--to-earliest", "-b", cluster.bootstrap_servers)
    assert words(outcome) == [
        ["topic", "partition", "before", "after"],
        *(["orders", str(number), "2", "0"] for number in range(3)),
        ["nothing", "is", "committed", "yet:", "add", "--execute", "to", "commit", "this", "for", "group", "billing"],
    ]
    assert commits(cluster) == [2, 2, 2]


def test_before_a_reset_of_a_group_without_commits_its_name_may_be_compared(command: Command, cluster: Cluster) -> None:
    """A misspelt name made a group of its own, and the other one stayed where it was."""
    options = ["--topic", "orders", "--to", "earliest", "-b", cluster.bootstrap_servers]
    outcome = command("groups", "reset", "biling", *options)
    assert outcome.code == 0
    assert "this group has committed none of these before: if it is no new one, see `kwire groups list`" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (["--to", "earliest"], [0, 0, 0]),
        (["--to-latest"], [4, 3, 3]),
        (["--to-offset", "1"], [1, 1, 1]),
        (["--to", "99"], [4, 3, 3]),
        (["--to", "-1"], [3, 2, 2]),
        (["--to-datetime", "-1h"], [0, 0, 0]),
        (["--to", "now"], [4, 3, 3]),
        (["--shift-by", "-1"], [1, 1, 1]),
        (["--shift-by", "2"], [4, 3, 3]),
    ],
)
def test_with_execute_it_is_committed(
    command: Command, cluster: Cluster, arguments: list[str], after: list[int]
) -> None:
    commit_and_leave(cluster, "billing")
    options = ["--all-topics", "--execute", *arguments]
    outcome = command("groups", "reset", "billing", *options, "-b", cluster.bootstrap_servers)
    assert [row[4] for row in words(outcome)[1:]] == ["committed"] * 3
    assert commits(cluster) == after


def test_a_group_is_not_reset_to_a_time_to_come(command: Command, cluster: Cluster) -> None:
    """`--to +10m`, a slip for -10m or for --shift-by, meant the end of the log, and skipped what was not read."""
    commit_and_leave(cluster, "billing")
    options = ["--all-topics", "--to", "+10m", "--execute"]
    outcome = command("groups", "reset", "billing", *options, "-b", cluster.bootstrap_servers)
    said = "kwire: --to +10m: no record is from the future; -10m is ten minutes ago, latest is the end\n"
    assert (outcome.code, outcome.err) == (2, said)
    assert commits(cluster) == [2, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_of_a_topic_can_be_chosen(command: Command, cluster: Cluster, protocol: str) -> None:
    commit_and_leave(cluster, "billing", protocol=protocol)
    options = ["--topic", "orders:0,2", "--to", "1", "--execute"]
    assert len(words(command("groups", "reset", "billing", *options, "-b", cluster.bootstrap_servers))) == 3
    assert commits(cluster) == [1, 2, 1]


def test_a_partition_may_be_named_twice(command: Command, cluster: Cluster) -> None:
    """Brokers refuse to be asked twice for one, so the command failed with INVALID_REQUEST."""
    options = ("--topic", "orders:1", "--topic", "orders", "--topic", "orders:1,2", "--to", "1")
    rows = words(command("groups", "reset", "anew", *options, "-b", cluster.bootstrap_servers))
    assert rows[1:4] == [["orders", number, "-", "1"] for number in "012"]


def test_a_group_that_never_was_can_be_given_commits(command: Command, cluster: Cluster) -> None:
    options = ["--topic", "orders", "--to", "latest", "--execute"]
    assert command("groups", "reset", "new-one", *options, "-b", cluster.bootstrap_servers).code == 0
    assert commits(cluster, "new-one") == [4, 3, 3]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_left_alone(command: Command, cluster: Cluster, protocol: str) -> None:
    with member(cluster, "billing", protocol):
        options = ["--topic", "orders", "--to", "earliest", "--execute"]
        outcome = command("groups", "reset", "billing", *options, "-b", cluster.bootstrap_servers)
    assert outcome.code == 1
    assert outcome.err == (
        "kwire: group billing is Stable, with 1 member (reader at 127.0.0.1): stop them first, for they would go on "
        "where they are and commit over it\n"
    )
    assert cluster.committed("billing") == {}


def test_a_commit_that_is_refused_is_told_partition_by_partition(command: Command, cluster: Cluster) -> None:
    commit_and_leave(cluster, "billing")
    cluster.deny(topic="orders", operation="READ")
    options = ["--all-topics", "--to", "earliest", "--execute"]
    outcome = command("groups", "reset", "billing", *options, "-b", cluster.bootstrap_servers)
    assert outcome.code == 1
    assert outcome.out.count("TOPIC_AUTHORIZATION_FAILED: ") == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--all-topics"], "say where to, once: --to START"),
        (["--all-topics", "--to", "1", "--to-latest"], "say where to, once: --to START"),
        (["--to", "1"], "say which topics, once: --topic NAME, or --all-topics"),
        (["--all-topics", "--topic", "a", "--to", "1"], "say which topics, once"),
        (["--all-topics", "--to", "soon"], "--to soon: not understood. Where to begin"),
        (["--topic", "orders:x", "--to", "1"], "--topic orders:x: write NAME, or NAME:0,2"),
        (["--all-topics", "--to", "1", "--execute", "--dry-run"], "--execute commits, --dry-run does not"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2(command: Command, cluster: Cluster, options: list[str], said: str) -> None:
    outcome = command("groups", "reset", "billing", *options, "-b", cluster.bootstrap_servers)
    assert outcome.code == 2
    assert outcome.err.startswith(f"kwire: {said}")


@pytest.mark.slow
def test_a_coordinator_that_loads_is_asked_again(command: Command, cluster: Cluster) -> None:
    commit_and_leave(cluster, "billing")
    code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.control.on(FindCoordinatorRequest, times=2).answer(FindCoordinatorResponse(error_code=code))
    assert command("groups", "describe", "billing", "-b", cluster.bootstrap_servers).code == 0


def test_a_lost_connection_is_one_line_and_exit_code_1(command: Command, cluster: Cluster) -> None:
    commit_and_leave(cluster, "billing")
    cluster.control.on(OffsetCommitRequest).cut()
    options = ["--all-topics", "--to", "earliest", "--execute"]
    outcome = command("groups", "reset", "billing", *options, "-b", cluster.bootstrap_servers)
    assert outcome.code == 1
    assert "it hung up instead of answering OffsetCommit" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.4", "2.8", "3.9", "4.4"])
def test_older_brokers_are_asked_in_older_versions(command: Command, release: str) -> None:
    with Cluster(2, topics={"orders": 3}, release=release) as cluster:
        servers = ["-b", cluster.bootstrap_servers]
        assert command("produce", "orders", "--value", "x", "-p", "0", *servers).code == 0
        commit_and_leave(cluster, "billing", 0)
        assert words(command("groups", "describe", "billing", *servers))[2] == ["orders", "0", "0", "1", "1", "-", "-"]
        assert command("groups", "reset", "billing", "--all-topics", "--to-latest", "--execute", *servers).code == 0
        assert commits(cluster) == [1, 0, 0]
        assert "billing" in command("groups", "list", *servers).out
        assert words(command("topics", "offsets", "orders", *servers))[1] == ["orders", "0", "0", "1", "1"]
        assert command("topics", "describe", "orders", *servers).code == 0
        assert command("doctor", "--topic", "orders", "--group", "billing", *servers).code == 0


# --- produce -----------------------------------------------------------------------------------------------------


def type_in(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def test_values_with_a_key_headers_and_a_partition(command: Command, cluster: Cluster) -> None:
    options = ["--value", "one", "--value", "two", "-k", "7", "-H", "trace=1", "-H", "gone", "-p", "0"]
    outcome = command("produce", "bills", *options, "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (0, "kwire: 2 records written: bills-0 at offset 0 to 1\n")
    read = command("consume", "bills", "-e", "-f", r"%k=%s %h\n", "-b", cluster.bootstrap_servers)
    assert read.out == "7=one trace=1,gone=null\n7=two trace=1,gone=null\n"


def test_each_line_of_standard_input_is_a_record(
    command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, b"a:1\nb:\nc:NULL\n\xff:\xfe:x")
    outcome = command("produce", "bills", "-K", ":", "--null", "NULL", "-b", cluster.bootstrap_servers)
    assert outcome.err == "kwire: 4 records written: bills-0 at offset 0 to 3\n"
    read = command("consume", "bills", "-e", "-f", r"%k %S\n", "--key-format", "hex", "-b", cluster.bootstrap_servers)
    assert read.lines == ["61 1", "62 0", "63 -1", "ff 3"]


class Pausing:
    """Standard input of a program that logs: its pipe is empty until the next line is written."""

    def __init__(self, *lines: bytes, pause: Callable[[], None]) -> None:
        self.buffer = self
        self._lines = list(lines)
        self._pause = pause
        self._pipe = os.pipe()

    def fileno(self) -> int:
        return self._pipe[0]

    def read1(self, _size: int) -> bytes:
        self._pause()
        return self._lines.pop(0) if self._lines else b""

    def close(self) -> None:
        for end in self._pipe:
            os.close(end)


def test_what_is_there_before_a_pause_is_written(
    command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines waited until they were a thousand, or the input ended, and with Ctrl-C they were lost."""
    written = list[int]()
    with closing(Pausing(b"1\n2\n", b"3\n", pause=lambda: written.append(cluster.end_offset("bills")))) as pausing:
        monkeypatch.setattr(sys, "stdin", pausing)
        assert command("produce", "bills", "-b", cluster.bootstrap_servers).code == 0
    assert written == [0, 2, 3]


def test_what_was_read_before_ctrl_c_is_written(
    command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter((b"1\n2\n3", None))

    class Interrupted(io.BytesIO):
        def read1(self, _size: int | None = -1) -> bytes:
            if (found := next(calls)) is None:
                raise KeyboardInterrupt
            return found

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Interrupted()))
    outcome = command("produce", "bills", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (130, "kwire: 2 records written: bills-0 at offset 0 to 1\n")


def test_what_stands_in_front_of_a_line_without_a_key_is_written(
    command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not, and nobody said so."""
    type_in(monkeypatch, b"a:1\nno key\nb:2\n")
    outcome = command("produce", "bills", "-K", ":", "-b", cluster.bootstrap_servers)
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        "kwire: 1 record written: bills-0 at offset 0",
        "kwire: line 2 has no key: there is no ':' in 'no key'; neither it nor what follows was written",
    ]


def test_what_is_refused_is_counted(command: Command, cluster: Cluster) -> None:
    def refuse(answer: Message) -> None:
        assert isinstance(answer, ProduceResponse)
        answer.responses[0].partition_responses[0].error_code = ErrorCode.INVALID_RECORD

    cluster.control.on(ProduceRequest).edit(refuse)
    outcome = command("produce", "bills", "--value", "x", "-b", cluster.bootstrap_servers)
    assert outcome.code == 1
    assert "1 record for bills-0 not written, 0 before" in outcome.err


def test_an_input_without_a_line_is_no_error(
    command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that writes what it has failed when it had nothing; with kcat and Kafka's tool it does not."""
    type_in(monkeypatch, b"")
    outcome = command("produce", "bills", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (0, "kwire: 0 records written\n")


def test_a_standard_input_that_is_closed_is_one_line(
    command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    outcome = command("produce", "bills", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (2, "kwire: standard input is closed; --value gives values\n")


def test_a_line_without_a_key_is_refused(command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, b"no key\n")
    outcome = command("produce", "bills", "-K", ":", "-b", cluster.bootstrap_servers)
    assert outcome.code == 2
    assert (
        outcome.err
        == "kwire: line 1 has no key: there is no ':' in 'no key'; neither it nor what follows was written\n"
    )


def test_a_topic_is_made_where_brokers_make_topics(command: Command, cluster: Cluster) -> None:
    outcome = command("produce", "visits", "--value", "x", "-p", "0", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (0, "kwire: 1 record written: visits-0 at offset 0\n")


def test_a_topic_that_no_broker_makes_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cli.admin.cluster.CREATION_TIMEOUT_S", 0.0)
    with Cluster(settings={"auto_create_topics_enable": False}) as cluster:
        outcome = command("produce", "visits", "--value", "x", "-b", cluster.bootstrap_servers)
    assert (outcome.code, outcome.err) == (1, "kwire: there is no topic 'visits', or this client may not see it\n")


@pytest.mark.slow
def test_many_records_go_out_in_batches(command: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, b"x" * 400_000 + b"\n" + b"y" * 400_000 + b"\n" + b"z\n" * 2_500)
    assert command("produce", "bills", "-b", cluster.bootstrap_servers).code == 0
    assert cluster.end_offset("bills") == 2_502


def test_keys_go_where_other_clients_put_them(command: Command, cluster: Cluster) -> None:
    keys = [b"key-%d" % number for number in range(20)]
    placed: dict[bytes, int] = {}

    def note(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None
        placed[message.key() or b""] = message.partition() or 0

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for key in keys:
        producer.produce("orders", b"v", key, on_delivery=note)
    producer.flush()
    assert placed == {key: (murmur2(key) & 0x7FFFFFFF) % 3 for key in keys}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["bills", "--value", "x", "-p", "3"], 1, "topic 'bills' has no partition 3; it has 1"),
        (["bills", "--value", "x", "-k", "1", "-K", ":"], 2, "--key is the key of all records"),
        (["bills", "--value", "x", "-H", "=1"], 2, "--header =1: write NAME=VALUE"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    command: Command, cluster: Cluster, arguments: list[str], code: int, said: str
) -> None:
    outcome = command("produce", *arguments, "-b", cluster.bootstrap_servers)
    assert outcome.code == code
    assert outcome.err.startswith(f"kwire: {said}")
    assert outcome.err.count("\n") == 1
