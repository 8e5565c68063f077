"""The loop with two cursors: each record, poll and commit names its cursor, and the commits come in every order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.consumer.listener import RebalanceListener
from kwire.epochs import AssignmentEpoch
from kwire.errors import CommitFailedError, KafkaTimeoutError, WakeupError
from kwire.events import AssignmentView
from kwire.fetching.buffer import FetchBuffer
from kwire.fetching.collector import FetchCollector
from kwire.fetching.columns import Records
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.cursor_collector import Collected
from kwire.fetching.deserializing import Deserializers
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.verifiable_consumer.arguments import parse
from kwire.verifiable_consumer.catching_up import CatchingUpConsumer
from kwire.verifiable_consumer.events import EventLog

if TYPE_CHECKING:
    from tests.record_batches import batch
    from tests.verifiable_consumer.verifiable_lines import Event, LinesInMemory
else:
    from record_batches import batch
    from verifiable_lines import Event, LinesInMemory

EPOCH = AssignmentEpoch(1)
T0 = TopicPartition("t", 0)
MAIN, CHILD = Cursor.MAIN, Cursor.CHILD


def polled(**fetched: bytes) -> Records[bytes, bytes]:
    """What a poll returns of the partition, by cursor."""
    chunks = []
    for name, data in fetched.items():
        buffer = FetchBuffer()
        buffer.put([CompletedFetch(topic_partition=T0, epoch=EPOCH, fetch_offset=0, records=data, aborted=())])
        collector: FetchCollector[bytes, bytes] = FetchCollector(
            buffer, Deserializers(key=None, value=None), read_committed=False, check_crcs=True
        )
        found: list[Collected[bytes, bytes]] = []
        collector.collect(AssignmentView(epochs={T0: EPOCH}), found, 500, 0.0)
        chunks += [replace(entry.chunk, cursor=Cursor(name)) for entry in found]
    return Records(chunks)


@dataclass
class FakeConsumer:
    """Polls what it is given, then is woken up. None as a commit: of all that was returned."""

    polls: list[Records[bytes, bytes]]
    errors: list[Exception | None] = field(default_factory=list)
    commits: list[dict[TopicPartition, int] | None] = field(default_factory=list)
    looks: list[Exception | int] = field(default_factory=list)

    def subscribe(self, _topics: Collection[str], /, *, listener: RebalanceListener) -> None:
        assert listener is not None

    def poll(self, _timeout: float, /) -> Records[bytes, bytes]:
        if not self.polls:
            raise WakeupError
        return self.polls.pop(0)

    def commit_sync(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, /) -> None:
        self.commits.append(None if offsets is None else {tp: each.offset for tp, each in offsets.items()})
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def assignment(self) -> Collection[TopicPartition]:
        return (T0, TopicPartition("t", 1))

    def committed(self, partitions: Collection[TopicPartition], /) -> dict[TopicPartition, OffsetAndMetadata | None]:
        found = self.looks.pop(0) if self.looks else 0
        if isinstance(found, Exception):
            raise found
        return {tp: OffsetAndMetadata(found) if tp == T0 else None for tp in partitions}

    def wakeup(self) -> None: ...

    def close(self) -> None: ...


def run(consumer: FakeConsumer, *, auto_commit: bool = False, verbose: bool = False) -> list[Event]:
    lines = LinesInMemory()
    CatchingUpConsumer(consumer, EventLog(lines), "t", auto_commit=auto_commit, verbose=verbose).run()
    return lines.events()


def told(events: list[Event], name: str) -> list[Event]:
    return [event for event in events if event["name"] == name]


def both() -> Records[bytes, bytes]:
    return polled(main=batch(7, 8), child=batch(0, 1, 2))


def test_each_record_and_poll_names_its_cursor() -> None:
    events = run(FakeConsumer([both()]), verbose=True)
    assert [(each["offset"], each["cursor"]) for each in told(events, "record_data")] == [
        *((offset, "main") for offset in (7, 8)),
        *((offset, "child") for offset in (0, 1, 2)),
    ]
    (summed_up,) = told(events, "records_consumed")
    at = {"topic": "t", "partition": 0}
    assert summed_up["partitions"] == [
        {**at, "count": 2, "minOffset": 7, "maxOffset": 8, "cursor": "main"},
        {**at, "count": 3, "minOffset": 0, "maxOffset": 2, "cursor": "child"},
    ]


def test_the_cursors_are_committed_in_either_order_and_together() -> None:
    consumer = FakeConsumer([both(), both(), both()])
    events = run(consumer)
    assert consumer.commits == [{T0: 3}, {T0: 9}, {T0: 9}, {T0: 3}, None]
    rows = [event["offsets"] for event in told(events, "offsets_committed")]
    at = {"topic": "t", "partition": 0}
    of_main, of_child = at | {"offset": 9, "cursor": "main"}, at | {"offset": 3, "cursor": "child"}
    assert rows == [[of_child], [of_main], [of_main], [of_child], [of_main, of_child]]


def test_who_commits_by_itself_tells_of_no_commits() -> None:
    consumer = FakeConsumer([both()])
    assert not told(run(consumer, auto_commit=True), "offsets_committed")
    assert not consumer.commits


def test_a_commit_that_fails_is_told_and_the_next_cursor_is_committed() -> None:
    events = run(FakeConsumer([both()], errors=[CommitFailedError("gone")]))
    assert [(event["success"], event.get("error")) for event in told(events, "offsets_committed")] == [
        (False, "gone"),
        (True, None),
    ]


def test_who_is_woken_up_in_a_commit_finishes_that_one() -> None:
    consumer = FakeConsumer([both()], errors=[WakeupError()])
    assert len(told(run(consumer), "offsets_committed")) == 1
    assert consumer.commits == [{T0: 3}, {T0: 3}]


def test_the_groups_offset_is_looked_up_now_and_then() -> None:
    events = run(FakeConsumer([both() for _ in range(5)], looks=[3, 9]))
    assert [event["offsets"] for event in told(events, "low_water")] == [
        [{"topic": "t", "partition": 0, "offset": offset}] for offset in (3, 9)
    ]


def test_a_look_that_fails_is_told() -> None:
    events = run(FakeConsumer([both()], looks=[KafkaTimeoutError("too late")]))
    assert [event["error"] for event in told(events, "poll_failed")] == ["KafkaTimeoutError"]


def test_parallel_rebalance_is_asked_for_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "member.properties"
    config.write_text("enable.parallel.rebalance=true\n")
    flags = ["--bootstrap-server", "a:1", "--topic", "t", "--group-id", "g"]
    assert parse([*flags, "--command-config", str(config)]).catches_up
    assert not parse(flags).catches_up
    with pytest.raises(SystemExit):
        parse([*flags, "--command-config", str(config), "--max-messages", "5"])
    assert "no messages are counted" in capsys.readouterr().err
