"""The verifiable consumer with a `Processor`, on a cluster in the process: what it tells, and how it ends."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.errors import ConfigError
from kwire.model import TopicPartition
from kwire.processing import decode
from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord
from kwire.verifiable_consumer import processing
from kwire.verifiable_consumer.arguments import Processing, parse
from kwire.verifiable_consumer.consumer import TellingListener
from kwire.verifiable_consumer.events import EventLog, record_line
from kwire.verifiable_consumer.processing import TellingConsumer, VerifiableProcessor

if TYPE_CHECKING:
    from kwire import Record
    from tests.verifiable_consumer.verifiable_lines import LinesInMemory
else:
    from verifiable_lines import LinesInMemory

pytestmark = pytest.mark.slow

RECORDS = 60
DEADLINE_S = 30.0
FLAGS = ("--bootstrap-server", "h:1", "--topic", "t", "--group-id", "g")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1) as made:
        made.create_topic("t", partitions=2)
        for number in range(RECORDS):
            made.produce("t", NewRecord(b"value%d" % number, key=b"key%d" % (number % 5)), partition=number % 2)
        yield made


def wait_until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until_s, "still not so"
        time.sleep(0.005)


class Lines:
    """What workers tell, as if to a pipe."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[dict[str, object]] = []
        monkeypatch.setattr(processing, "tell_of", self._note)

    def _note(self, name: str, record: Record[bytes, bytes]) -> None:
        self.told.append(json.loads(record_line(name, record)))

    def values(self, name: str) -> list[object]:
        return [line["value"] for line in list(self.told) if line["name"] == name]


@pytest.mark.parametrize("order", ["partition", "key"])
def test_what_is_polled_handled_and_committed_is_told(
    order: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = tmp_path / "orders.json"
    orders.write_text('{"each_ms": 1, "is_stuck": false}')
    lines, written = LinesInMemory(), Lines(monkeypatch)
    events = EventLog(lines)
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    program = VerifiableProcessor(
        TellingConsumer(events, settings, tells_records=False),
        events,
        "t",
        Processing(order=order, workers=4, in_processes=False, offset_map=True),  # type: ignore[arg-type]
        listener=TellingListener(events, tells_losses=True),
        orders=orders,
    )
    thread = threading.Thread(target=program.run)
    thread.start()
    wait_until(lambda: len(written.values("record_handled")) == RECORDS)
    program.stop()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    names = [event["name"] for event in lines.events()]
    assert names[0] == "startup_complete"
    assert names[-1] == "shutdown_complete"
    assert {"partitions_assigned", "records_consumed", "offsets_committed", "closing"} <= set(names)
    handled: defaultdict[object, list[object]] = defaultdict(list)
    for line in written.told:
        if line["name"] == "record_handled":
            handled[line["partition"] if order == "partition" else (line["partition"], line["key"])].append(
                line["offset"]
            )
    assert all(offsets == sorted(offsets) for offsets in handled.values())  # type: ignore[type-var]
    assert sorted(written.values("record_begun")) == sorted(written.values("record_handled"))  # type: ignore[type-var]
    committed = cluster.committed("g")
    assert {tp: at.offset for tp, at in committed.items()} == {
        TopicPartition("t", number): RECORDS // 2 for number in (0, 1)
    }
    assert all(decode(at.offset, at.metadata or "") is None for at in committed.values())


def test_flags_say_how_it_works() -> None:
    assert parse(FLAGS).processing is None
    more = ("--processor", "key", "--workers", "3", "--worker-processes", "--no-offset-map")
    assert parse((*FLAGS, *more)).processing == Processing(order="key", workers=3, in_processes=True, offset_map=False)


@pytest.mark.parametrize("flags", [("--enable-autocommit",), ("--max-messages", "5")])
def test_a_processor_commits_by_itself_and_counts_nothing(
    flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((SystemExit, ConfigError)):
        parse((*FLAGS, "--processor", "key", *flags))
    assert "commits by itself" in capsys.readouterr().err
