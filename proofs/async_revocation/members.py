"""Members for the proof about asynchronous revocation: a poll loop, a pool of threads, and two ways of giving back.

An `Application` works as asynchronous ones do. One record of each partition at a time is in its pool; the partition is
paused as long. What is asked back has to be ended and committed before it goes: `Approach` says who waits for that.

All of them write into one `WorkLedger`, which says how many records a second some partitions got done.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import Future, ThreadPoolExecutor, wait
from enum import Enum
from typing import TYPE_CHECKING
from uuid import uuid4

from kwire import Consumer, OffsetAndMetadata, RebalanceConsumer, RebalanceListener, TopicPartition
from proofs.group import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kwire import Record
    from kwire.errors import KafkaError

THREADS = 24  # no fewer than partitions: none of them ever waits for a thread
POLL_S = 0.005
COMMIT_INTERVAL_S = 0.2


class Approach(Enum):
    """What happens to partitions that are revoked while their records are still in work."""

    BLOCKS = "blocks"
    """The listener waits for them (the proposal's approach 2), and so does the poll loop around it."""
    DELAYS = "delays"
    """The loop calls `delay_revoke`, and goes on."""


class WorkLedger:
    """When which record was in work. Any thread may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans_s: defaultdict[TopicPartition, list[tuple[float, float]]] = defaultdict(list)
        self._done: Counter[tuple[TopicPartition, int]] = Counter()

    def done(self, tp: TopicPartition, offset: int, began_s: float, ended_s: float) -> None:
        with self._lock:
            self._spans_s[tp].append((began_s, ended_s))
            self._done[tp, offset] += 1

    def rate(self, partitions: Collection[TopicPartition], since_s: float, until_s: float) -> float:
        """Records a second that these got done between two moments. One that was in work at either of them counts for
        the part of its time that lies between."""
        with self._lock:
            spans_s = [span for tp in partitions for span in self._spans_s[tp]]
        within = ((max(since_s, began_s), min(until_s, ended_s), ended_s - began_s) for began_s, ended_s in spans_s)
        return sum(max(0.0, end_s - begin_s) / took_s for begin_s, end_s, took_s in within) / (until_s - since_s)

    @property
    def handled(self) -> int:
        return len(self._done)

    def ends(self) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition that was handled."""
        ends: dict[TopicPartition, int] = {}
        for tp, offset in self._done:
            ends[tp] = max(offset + 1, ends.get(tp, 0))
        return ends

    def duplicates(self) -> list[tuple[TopicPartition, int]]:
        return [place for place, times in self._done.items() if times > 1]

    def gaps(self) -> list[tuple[TopicPartition, int]]:
        """Offsets that were passed by: something behind them was done."""
        return [(tp, offset) for tp, end in self.ends().items() for offset in range(end) if not self._done[tp, offset]]


class Application(threading.Thread, RebalanceListener):
    """One member. When it is started it stands by: it is connected and knows its topic, but joins when it is told to.

    Args:
        work_s: How long a record of a partition takes.
    """

    def __init__(
        self,
        approach: Approach,
        ledger: WorkLedger,
        topic: str,
        work_s: Callable[[TopicPartition], float],
        **settings: object,
    ) -> None:
        threading.Thread.__init__(self, name=f"application-{uuid4().hex[:4]}")
        self.owned: frozenset[TopicPartition] = frozenset()
        self.changed_s = 0.0
        """When something came or went last."""
        self.asked_s: list[float] = []
        """When something was asked back."""
        self.error: BaseException | None = None
        self._approach = approach
        self._ledger = ledger
        self._topic = topic
        self._work_s = work_s
        self._stands_by = threading.Event()
        self._may_join = threading.Event()
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(THREADS)
        self._in_work: dict[TopicPartition, Future[int]] = {}
        self._finished: dict[TopicPartition, OffsetAndMetadata] = {}
        self._asked: frozenset[TopicPartition] = frozenset()
        self._committed_s = 0.0
        self._is_committing = False
        asynchronous = approach is Approach.DELAYS
        self._consumer: Consumer[bytes, bytes] = Consumer(
            config={"enable_auto_commit": False, "enable_async_revocation": asynchronous, **settings}
        )

    def stand_by(self) -> None:
        self.start()
        if not self._stands_by.wait(TIMEOUT_S):
            raise TimeoutError(f"a member was not ready within {TIMEOUT_S} s")

    def join_group(self) -> None:
        self._may_join.set()

    def stop(self) -> None:
        """Leave, once what is in work is through and committed."""
        self._stopped.set()
        self._may_join.set()
        self.join()

    def run(self) -> None:
        try:
            with self._consumer, self._pool:
                self._consumer.partitions_for(self._topic)
                self._stands_by.set()
                self._may_join.wait()
                self._consumer.subscribe([self._topic], listener=self)
                while not self._stopped.is_set():
                    self._turn()
                self._finish(self._in_work)
        except BaseException as error:  # noqa: BLE001  a thread has nobody to raise to: the proof looks here
            self.error = error

    def _turn(self) -> None:
        """The proposal's loop: poll, start, commit what is through, and see what is asked back."""
        for record in self._consumer.poll(POLL_S):
            self._start(record)
        self._take_back(self._in_work)
        asked = self._consumer.to_be_revoked_partitions()
        if asked & self._finished.keys() or time.monotonic() > self._committed_s + COMMIT_INTERVAL_S:
            self._commit()
        if asked - self._asked:
            self.asked_s.append(time.monotonic())
        self._asked = asked
        if unfinished := asked & (self._in_work.keys() | self._finished.keys()):
            self._consumer.delay_revoke(unfinished)

    def _commit(self) -> None:
        """What is through and not committed, unless a commit is under way; nobody waits for it."""
        if self._finished and not self._is_committing:
            self._is_committing = True
            self._committed_s = time.monotonic()
            self._consumer.commit_async(dict(self._finished), callback=self._on_committed)

    def _on_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        self._is_committing = False
        if error is None:
            self._finished = {tp: at for tp, at in self._finished.items() if offsets.get(tp) != at}

    # --- the work -------------------------------------------------------------------------------------------

    def _start(self, record: Record[bytes, bytes]) -> None:
        tp = record.topic_partition
        self._consumer.pause([tp])
        self._in_work[tp] = self._pool.submit(self._handle, tp, record.offset)

    def _handle(self, tp: TopicPartition, offset: int) -> int:
        began_s = time.monotonic()
        time.sleep(self._work_s(tp))
        self._ledger.done(tp, offset, began_s, time.monotonic())
        return offset + 1

    def _take_back(self, partitions: Iterable[TopicPartition]) -> None:
        """What is through counts for the next commit, and its partition goes on."""
        for tp in [tp for tp in partitions if tp in self._in_work and self._in_work[tp].done()]:
            self._finished[tp] = OffsetAndMetadata(self._in_work.pop(tp).result())
            self._consumer.resume([tp])

    def _finish(self, partitions: Collection[TopicPartition]) -> None:
        """Wait for what is in work, and commit it."""
        wait([self._in_work[tp] for tp in partitions if tp in self._in_work])
        self._take_back(list(partitions))
        self._consumer.commit_sync(self._finished)
        self._finished = {}

    # --- the listener ---------------------------------------------------------------------------------------

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        self._own(self.owned | partitions)

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        if self._approach is Approach.BLOCKS and partitions and not self._stopped.is_set():
            self.asked_s.append(time.monotonic())
            self._finish(partitions)
        self._own(self.owned - partitions)

    def _own(self, partitions: frozenset[TopicPartition]) -> None:
        """A callback about nothing changes nothing."""
        if partitions != self.owned:
            self.changed_s = time.monotonic()
            self.owned = partitions
