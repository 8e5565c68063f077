"""Records worked on side by side: those of a queue one after the other, in order, whatever comes between."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import kwire.processing.partition_queues
from kwire import OffsetAndMetadata, Record, TimestampType, TopicPartition
from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.fetching.partition_records import PartitionRecords
from kwire.processing.lazy_records import LazyRecords
from kwire.processing.ordered_queues import OrderedQueues, Ordering, Work
from kwire.processing.partition_queues import EVERYTHING, MergePolicy
from kwire.protocol.record_columns import RecordColumns

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def record(tp: TopicPartition, offset: int, key: bytes | None = None) -> Record[bytes, bytes]:
    return Record(*tp, offset, -1, TimestampType.CREATE_TIME, key, b"", (), None, -1, 0)


def rows(tp: TopicPartition, first: int, keys: list[bytes | None]) -> LazyRecords[bytes, bytes]:
    """The same records, not made yet."""
    count = len(keys)
    none = np.full(count, -1, dtype=np.int64)
    columns = RecordColumns(
        buffer=b"",
        offsets=np.arange(first, first + count, dtype=np.int64),
        timestamps=none,
        timestamp_types=np.zeros(count, dtype=np.int8),
        leader_epochs=np.full(count, -1, dtype=np.int32),
        key_starts=np.zeros(count, dtype=np.int64),
        key_lengths=none,
        value_starts=np.zeros(count, dtype=np.int64),
        value_lengths=np.zeros(count, dtype=np.int64),
    )
    behind = OffsetAndMetadata(first + count)
    return LazyRecords([PartitionRecords(topic_partition=tp, columns=columns, next=behind, deserialized_keys=keys)])


def taken(queues: OrderedQueues[bytes, bytes], max_records: int = 1) -> list[tuple[str, int]]:
    """All that can be taken, none being done."""
    found = []
    while (work := queues.take(max_records)) is not None:
        found += [(each.topic, each.offset) for each in work.records]
    return found


def test_a_partition_is_one_lane() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.PARTITION)
    queues.add([record(A, 0), record(A, 1)])
    queues.add([record(B, 0)])
    first = queues.take()
    assert first is not None
    assert taken(queues) == [("b", 0)]
    queues.done(first)
    assert taken(queues) == [("a", 1)]


def test_keys_overtake_each_other_but_not_themselves() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.KEY)
    queues.add([record(A, 0, b"x"), record(A, 1, b"x"), record(A, 2, b"y")])
    queues.add([record(B, 0, b"x")])
    assert taken(queues) == [("a", 0), ("b", 0), ("a", 2)]
    assert (queues.waiting, queues.in_work) == (1, 3)


@pytest.mark.parametrize(("ordering", "key"), [(Ordering.NONE, b"x"), (Ordering.KEY, None)])
def test_where_nothing_keeps_its_order_all_can_be_taken(ordering: Ordering, key: bytes | None) -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(ordering)
    queues.add([record(A, offset, key) for offset in range(3)])
    assert taken(queues) == [("a", 0), ("a", 1), ("a", 2)]


def test_several_records_of_a_lane_can_be_one_piece_of_work() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.PARTITION)
    queues.add([record(A, 0), record(A, 1), record(A, 2)])
    work = queues.take(max_records=2)
    assert work is not None
    assert [each.offset for each in work.records] == [0, 1]
    queues.done(work)
    assert taken(queues, max_records=2) == [("a", 2)]


def test_a_mixed_piece_has_records_of_all_lanes_that_are_open() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.KEY)
    queues.add([record(A, offset, key) for offset, key in enumerate([b"x", b"x", b"y", b"z", b"y"])])
    slow = queues.take(merge_policy=MergePolicy.OPEN_QUEUES)
    assert slow is not None
    work = queues.take(max_records=10, merge_policy=MergePolicy.OPEN_QUEUES)
    assert work is not None
    assert [each.offset for each in work.records] == [2, 3, 4]
    assert queues.take(max_records=10, merge_policy=MergePolicy.OPEN_QUEUES) is None
    queues.done(slow)
    assert taken(queues) == [("a", 1)]


def test_a_whole_slice_waits_for_the_lanes_of_its_records() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.KEY)
    queues.add([record(A, offset, key) for offset, key in enumerate([b"x", b"y", b"z", b"x"])])
    first = queues.take(2, MergePolicy.WHOLE_SLICES)
    assert first is not None
    assert queues.take(2, MergePolicy.WHOLE_SLICES) is None
    queues.done(first)
    second = queues.take(2, MergePolicy.WHOLE_SLICES)
    assert second is not None
    assert [each.offset for each in second.records] == [2, 3]


@pytest.mark.parametrize("ordering", Ordering)
def test_many_that_nobody_has_made_are_taken_as_they_are(ordering: Ordering) -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(ordering)
    queues.add(rows(A, 0, [b"x", b"y"] * 25))
    queues.add(rows(A, 50, [b"x", None] * 50))
    queues.add(rows(A, 150, [b"y", b"x"] * 25))
    first = queues.take(180, MergePolicy.WHOLE_SLICES)
    assert first is not None
    assert isinstance(first.records, LazyRecords)
    assert first.records.offsets() == list(range(150))
    queues.done(first)
    second = queues.take(180, MergePolicy.WHOLE_SLICES)
    assert second is not None
    assert [each.offset for each in second.records] == list(range(150, 200))


def test_rows_of_a_closed_lane_wait_for_it_and_go_round_it_when_that_takes_long() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.KEY)
    queues.add([record(A, 0, b"x")])
    slow = queues.take()
    queues.add(rows(A, 1, [b"x", b"y"] * 50))
    assert slow is not None
    assert queues.take(100, MergePolicy.WHOLE_SLICES) is None
    assert queues.waiting == 100
    work = queues.take(100, MergePolicy.OPEN_QUEUES)
    assert work is not None
    assert [each.offset for each in work.records] == list(range(2, 101, 2))
    queues.done(slow)
    assert taken(queues, 100) == [("a", offset) for offset in range(1, 101, 2)]


@pytest.mark.parametrize("ordering", Ordering)
def test_records_behind_a_slow_one_can_be_given_back(ordering: Ordering) -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(ordering)
    queues.add([record(A, offset, key) for offset, key in enumerate([b"x", b"y", b"x", b"y", b"z", b"x", None])])
    work = queues.take(max_records=5, merge_policy=MergePolicy.OPEN_QUEUES)
    assert work is not None
    queues.give_back(work, 1, work.records[2:])
    assert (queues.waiting, queues.in_work) == (5, 1)
    free = {Ordering.PARTITION: [], Ordering.KEY: [2, 4, 6], Ordering.NONE: [2, 3, 4, 5, 6]}[ordering]
    assert sorted(offset for _, offset in taken(queues)) == free, "what stays in work has the key y"
    queues.done(work)
    assert [offset for _, offset in taken(queues)] == {Ordering.PARTITION: [2], Ordering.KEY: [3], Ordering.NONE: []}[
        ordering
    ]


def test_what_is_not_given_back_is_forgotten_and_keeps_no_queue_closed() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.KEY)
    queues.add([record(A, offset, key) for offset, key in enumerate([b"x", b"y", b"z"])])
    work = queues.take(max_records=3, merge_policy=MergePolicy.OPEN_QUEUES)
    assert work is not None
    queues.give_back(work, 0, work.records[1:2])
    queues.add([record(A, 2, b"z")])
    assert (queues.waiting, queues.in_work) == (2, 1)
    assert [offset for _, offset in taken(queues)] == [1, 2]


@pytest.mark.parametrize("merge_policy", MergePolicy)
def test_what_was_dropped_and_comes_again_does_not_pass_what_is_in_work(merge_policy: MergePolicy) -> None:
    """A key that had been ready when it was dropped must not be taken for ready when records of it wait again."""
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.KEY)
    queues.add([record(A, 0, b"x"), record(A, 1, b"x"), record(A, 2, b"y")])
    first = queues.take(merge_policy=merge_policy)
    assert taken(queues) == [("a", 2)]
    assert first is not None
    queues.done(first)
    assert queues.drop([A]) == [record(A, 1, b"x")]
    queues.add([record(A, 1, b"x"), record(A, 2, b"x")])
    assert taken(queues) == [("a", 1)]


def test_who_waited_longest_goes_first() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.PARTITION)
    queues.add([record(A, 0), record(A, 1)])
    queues.add([record(B, 0), record(B, 1)])
    work = queues.take()
    assert work is not None
    queues.done(work)
    assert taken(queues) == [("b", 0), ("a", 1)]


def test_a_partition_that_leaves_and_returns_waits_for_what_was_in_work() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.KEY)
    queues.add([record(A, 0, b"x"), record(A, 1, b"x")])
    queues.add([record(B, 0, b"x")])
    work = queues.take()
    assert work is not None
    assert queues.drop([A]) == [record(A, 1, b"x")]
    assert queues.in_work_of([A]) == 1
    queues.add([record(A, 0, b"x")])
    assert taken(queues) == [("b", 0)]
    queues.done(work)
    assert taken(queues) == [("a", 0)]


def test_work_is_done_once() -> None:
    queues: OrderedQueues[bytes, bytes] = OrderedQueues(Ordering.PARTITION)
    queues.add([record(A, 0), record(A, 1)])
    work = queues.take()
    assert work is not None
    queues.done(work)
    with pytest.raises(IllegalStateError, match="only once"):
        queues.done(work)
    queues.take()
    with pytest.raises(IllegalStateError, match="only once"):
        queues.done(work)


@pytest.mark.parametrize("key", [[1], (1, [2])])
def test_a_key_that_cannot_be_looked_up_is_refused(key: object) -> None:
    queues: OrderedQueues[object, bytes] = OrderedQueues(Ordering.KEY)
    bad: Record[object, bytes] = Record(*A, 7, -1, TimestampType.CREATE_TIME, key, b"", (), None, -1, 0)
    with pytest.raises(InvalidArgumentError, match=r"a-0 offset 7: .* cannot"):
        queues.add([bad])


class AnyOrder(RuleBasedStateMachine):
    """Records come, made or not, are worked on side by side, finish in any order, and partitions come and go."""

    @initialize(ordering=st.sampled_from(Ordering), few=st.sampled_from([1, 3, 64]))
    def begin(self, ordering: Ordering, few: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(kwire.processing.partition_queues, "FEW_ROWS", few)
        self.ordering = ordering
        self.queues: OrderedQueues[bytes, bytes] = OrderedQueues(ordering)
        self.expected: dict[object, list[Record[bytes, bytes]]] = {}
        self.in_work: list[Work[bytes, bytes]] = []
        self.offset = 0

    def queue(self, each: Record[bytes, bytes]) -> object:
        """None: it is on its own."""
        if self.ordering is Ordering.PARTITION:
            return each.topic_partition
        return None if self.ordering is Ordering.NONE or each.key is None else (each.topic_partition, each.key)

    @rule(
        tp=st.sampled_from([A, B]),
        keys=st.lists(st.sampled_from([b"x", b"y", b"z", None]), max_size=6),
        are_made=st.booleans(),
    )
    def add(self, tp: TopicPartition, keys: list[bytes | None], are_made: bool) -> None:
        new = [record(tp, self.offset + number, key) for number, key in enumerate(keys)]
        self.queues.add(new if are_made or not new else rows(tp, self.offset, keys))
        self.offset += len(new)
        for each in new:
            self.expected.setdefault(self.queue(each), []).append(each)

    @rule(max_records=st.integers(1, 5), merge_policy=st.sampled_from(MergePolicy))
    def take(self, max_records: int, merge_policy: MergePolicy) -> None:
        busy = {self.queue(each) for work in self.in_work for each in work.records} - {None}
        work = self.queues.take(max_records, merge_policy)
        if work is None:
            in_work = {each.topic_partition for work in self.in_work for each in work.records}
            for queue, waiting in self.expected.items():
                whole_waits = (
                    merge_policy is MergePolicy.WHOLE_SLICES and waiting and waiting[0].topic_partition in in_work
                )
                assert not waiting or queue in busy or whole_waits, "nothing is left lying"
            return
        assert 1 <= len(work.records) <= max_records
        assert len({each.topic_partition for each in work.records}) == 1
        assert merge_policy is not MergePolicy.ONE_QUEUE or len({self.queue(each) for each in work.records}) == 1
        for each in work.records:
            queue = self.queue(each)
            assert queue not in busy, "one after the other"
            waiting = self.expected[queue]
            assert each in waiting
            assert queue is None or each == waiting[0], "in order"
            waiting.remove(each)
        self.in_work.append(work)

    @precondition(lambda self: bool(self.in_work))
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        """One takes its time, and of those behind it some are wanted no more."""
        work = data.draw(st.sampled_from(self.in_work))
        at = data.draw(st.integers(0, len(work.records) - 1))
        behind = [each for each in work.records[at + 1 :] if data.draw(st.booleans())]
        self.queues.give_back(work, at, behind)
        for each in reversed(behind):
            self.expected[self.queue(each)].insert(0, each)

    @precondition(lambda self: bool(self.in_work))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.queues.done(self.in_work.pop(data.draw(st.integers(0, len(self.in_work) - 1))))

    @rule(tp=st.sampled_from([A, B]), data=st.data())
    def drop(self, tp: TopicPartition, data: st.DataObject) -> None:
        """All of a partition, or what comes again from an offset on."""
        first = data.draw(st.integers(0, self.offset))
        gone = 0
        for waiting in self.expected.values():
            here = [each for each in waiting if each.topic_partition == tp and each.offset >= first]
            gone += len(here)
            waiting[:] = [each for each in waiting if each not in here]
        assert len(self.queues.drop({tp}, EVERYTHING[first:])) == gone
        assert self.queues.in_work_of({tp}) == sum(
            len(work.records) for work in self.in_work if work.records[0].topic_partition == tp
        )

    def teardown(self) -> None:
        if hasattr(self, "queues"):
            self.patch.undo()
            assert self.queues.waiting == sum(map(len, self.expected.values()))
            assert self.queues.in_work == sum(len(work.records) for work in self.in_work)


TestAnyOrder = AnyOrder.TestCase
