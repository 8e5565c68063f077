"""An exception of a signal handler at any line of a consumer's calls: nothing is lost, nothing comes twice.

A Ctrl-C in a notebook, or a time limit by SIGALRM, raises between any two lines that run on the main thread, and
the program may go on with the same consumer. Here a trace function raises instead, at each line in turn that a run
executes on the application's thread.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from linecache import getline
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

import kwire
from kwire import Consumer, OffsetAndMetadata, RebalanceListener, Record, Records, TopicPartition
from kwire.consumer.listener import RebalanceConsumer
from kwire.model import Partitions
from kwire.processing import Processor
from kwire.testing import Cluster

if TYPE_CHECKING:
    from types import FrameType

    from _typeshed import TraceFunction

T = TypeVar("T")
Place = tuple[str, int]
Seen = list[tuple[int, int]]
Way = Callable[["Consumer[bytes, int]", Seen], None]

TOP = Path(kwire.__file__).parent
# What the application's thread runs; decoding of bytes is left out, for it changes nothing but what it returns.
WATCHED = ("consumer/", "fetching/", "mailbox.py", "processing/")
PARTITIONS, RECORDS = 2, 40
# Trying each line takes minutes; a run that searches longer does.
EVERY = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 6
ALL = Counter((partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS))
_groups = count()


class Interrupted(BaseException):
    """What the signal handler raises."""


class Trace:
    """Counts the lines that run, and raises at one of them.

    Args:
        strike: The place, and at which of its executions.
    """

    def __init__(self, strike: tuple[Place, int] | None = None) -> None:
        self.hits: Counter[Place] = Counter()
        self.has_struck = False
        self._strike = strike
        self._at: dict[FrameType, int] = {}

    def __call__(self, frame: FrameType, event: str, _arg: object) -> TraceFunction | None:
        name = frame.f_code.co_filename
        if not name.startswith(str(TOP)) or not name[len(str(TOP)) + 1 :].startswith(WATCHED):
            return None
        if event == "line" and not self._leaves_a_with(frame):
            place = (name[len(str(TOP)) + 1 :], frame.f_lineno)
            self.hits[place] += 1
            if self._strike == (place, self.hits[place]):
                self._strike, self.has_struck = None, True
                raise Interrupted
        return self

    def _leaves_a_with(self, frame: FrameType) -> bool:
        """The line of a `with` is told of again at its end. Python runs no signal handler between the last line of the
        body and the call of `__exit__`, so there is nothing to try."""
        before, line = self._at.get(frame, 0), frame.f_lineno
        self._at[frame] = line
        return before > line and getline(frame.f_code.co_filename, line).lstrip().startswith("with ")

    @contextmanager
    def on(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Cluster(topics={"t": PARTITIONS}, settings=settings) as running:
        for partition, offset in sorted(ALL):
            running.produce("t", b"%d" % offset, partition=partition)
        yield running


class Listening(RebalanceListener):
    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        consumer.commit_async()


def consumer_of(cluster: Cluster, group: str, **settings: object) -> Consumer[bytes, int]:
    config: dict[str, object] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "max_poll_records": 7,
        "value_deserializer": int,
        "fetch_max_wait_ms": 20,  # who goes on behind an interrupted one waits for the fetch that it has under way
    }
    consumer: Consumer[bytes, int] = Consumer(config=config | settings)
    consumer.subscribe(["t"], listener=Listening())
    return consumer


def leave_a_lag(cluster: Cluster, group: str) -> None:
    """As an earlier life of the group does, which has committed its beginning and crashed."""
    with Consumer[bytes, bytes](bootstrap_servers=cluster.bootstrap_servers, group_id=group) as before:
        before.commit_sync({TopicPartition("t", partition): OffsetAndMetadata(0) for partition in range(PARTITIONS)})


def again(call: Callable[[], T]) -> T:
    """As a user does whose Ctrl-C was caught: once more."""
    try:
        return call()
    except Interrupted:
        return call()


def rows_of(records: Records[bytes, int]) -> Seen:
    return [(record.partition, record.offset) for record in records]


def poll_all(consumer: Consumer[bytes, int], seen: Seen) -> None:
    while len(seen) < ALL.total():
        records = again(lambda: consumer.poll(10.0))
        assert again(partial(bool, records)), f"nothing came any more, after {len(seen)} records"
        seen += again(partial(rows_of, records))
        if len(seen) % 3 == 0:
            again(consumer.commit_sync)
        else:
            again(consumer.commit_async)


def iterate_all(consumer: Consumer[bytes, int], seen: Seen) -> None:
    def go_on() -> None:
        for record in consumer:
            seen.append((record.partition, record.offset))
            if set(seen) == set(ALL):
                return

    again(go_on)


def process_all(consumer: Consumer[bytes, int], seen: Seen) -> None:
    """In the main thread; an exception ends the processor, and another one goes on with the consumer."""

    def run() -> None:
        processor = Processor(consumer, handle, workers=2, ordering="key", commit_interval=0.01)
        stop.append(processor.stop)
        if set(seen) == set(ALL):
            processor.stop()  # which leaves it to commit
        processor.run()

    def handle(record: Record[bytes, int]) -> None:
        seen.append((record.partition, record.offset))
        if set(seen) == set(ALL):
            stop[-1]()

    stop: list[Callable[[], None]] = []
    again(run)


@dataclass(frozen=True)
class Kind:
    """A way of consuming, the settings it needs, and whether records may come twice: those that were in work."""

    way: Way
    settings: dict[str, object] = field(default_factory=dict)
    may_repeat: bool = False


KINDS = {
    "poll": Kind(poll_all),
    "iterate": Kind(iterate_all),
    "parallel rebalance": Kind(poll_all, {"enable_parallel_rebalance": True, "parallel_rebalance_min_lag_records": 1}),
    "asynchronous revocation": Kind(poll_all, {"enable_async_revocation": True, "group_protocol": "consumer"}),
    "processor": Kind(process_all, {"enable_auto_commit": False}, may_repeat=True),
}


@dataclass
class Outcome:
    """What a run has seen, and how far its group has committed."""

    kind: Kind
    seen: Counter[tuple[int, int]]
    committed: dict[int, int]
    was_closing: bool
    """Whether the exception struck in `close()`, which then may leave the last commit out."""

    @property
    def problems(self) -> list[str]:
        ends = dict.fromkeys(range(PARTITIONS), RECORDS)
        return [
            *(f"lost {each}" for each in ALL - self.seen),
            *(f"twice {each}" for each in self.seen - ALL if not self.kind.may_repeat),
            *([] if self.may_be_behind or self.committed == ends else [f"committed {self.committed}"]),
        ]

    @property
    def may_be_behind(self) -> bool:
        """Whether the last commit may be left out: the exception struck when everything had come."""
        return self.was_closing or self.kind.may_repeat


def run(cluster: Cluster, kind: Kind, trace: Trace) -> Outcome:
    group, seen = f"g{next(_groups)}", Seen()
    if "enable_parallel_rebalance" in kind.settings:
        leave_a_lag(cluster, group)
    consumer = consumer_of(cluster, group, **kind.settings)
    with trace.on():
        kind.way(consumer, seen)
        was_closing = not trace.has_struck
        again(consumer.close)
    committed = {tp.partition: at.offset for tp, at in cluster.committed(group).items()}
    return Outcome(kind, Counter(seen), committed, was_closing)


def strikes(cluster: Cluster, kind: Kind) -> list[tuple[Place, int]]:
    """Each line; one at its first execution, the next one in the middle of them, the next one at its last."""
    trace = Trace()
    run(cluster, kind, trace)
    counted = enumerate(sorted(trace.hits.items()))
    found = [(place, (1, (hits + 1) // 2, hits)[index % 3]) for index, (place, hits) in counted]
    return found[::EVERY]


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a loop that is left is closed by itself
@pytest.mark.parametrize("name", KINDS)
def test_each_record_comes_and_is_committed_wherever_an_exception_strikes(cluster: Cluster, name: str) -> None:
    problems = []
    for strike in strikes(cluster, KINDS[name]):
        outcome = run(cluster, KINDS[name], Trace(strike))
        problems += [f"{strike}: {problem}" for problem in outcome.problems]
    assert problems == []
