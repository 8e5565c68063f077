"""Records worked on side by side: those of a lane one after the other, in order, whatever comes between."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import kwire.processing.partition_lanes
from kwire import OffsetAndMetadata, Record, TimestampType, TopicPartition
from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.fetching.partition_records import PartitionRecords
from kwire.processing.lanes import Lanes, Ordering, Work
from kwire.processing.partition_lanes import EVERYTHING, Mixing
from kwire.processing.rows import Rows
from kwire.protocol.record_columns import RecordColumns

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def record(tp: TopicPartition, offset: int, key: bytes | None = None) -> Record[bytes, bytes]:
    return Record(*tp, offset, -1, TimestampType.CREATE_TIME, key, b"", (), None, -1, 0)


def rows(tp: TopicPartition, first: int, keys: list[bytes | None]) -> Rows[bytes, bytes]:
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
    return Rows([PartitionRecords(topic_partition=tp, columns=columns, next=behind, deserialized_keys=keys)])


def taken(lanes: Lanes[bytes, bytes], most: int = 1) -> list[tuple[str, int]]:
    """All that can be taken, none being done."""
    found = []
    while (work := lanes.take(most)) is not None:
        found += [(each.topic, each.offset) for each in work.records]
    return found


def test_a_partition_is_one_lane() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.PARTITION)
    lanes.add([record(A, 0), record(A, 1)])
    lanes.add([record(B, 0)])
    first = lanes.take()
    assert first is not None
    assert taken(lanes) == [("b", 0)]
    lanes.done(first)
    assert taken(lanes) == [("a", 1)]


def test_keys_overtake_each_other_but_not_themselves() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.KEY)
    lanes.add([record(A, 0, b"x"), record(A, 1, b"x"), record(A, 2, b"y")])
    lanes.add([record(B, 0, b"x")])
    assert taken(lanes) == [("a", 0), ("b", 0), ("a", 2)]
    assert (lanes.waiting, lanes.in_work) == (1, 3)


@pytest.mark.parametrize(("ordering", "key"), [(Ordering.NONE, b"x"), (Ordering.KEY, None)])
def test_where_nothing_keeps_its_order_all_can_be_taken(ordering: Ordering, key: bytes | None) -> None:
    lanes: Lanes[bytes, bytes] = Lanes(ordering)
    lanes.add([record(A, offset, key) for offset in range(3)])
    assert taken(lanes) == [("a", 0), ("a", 1), ("a", 2)]


def test_several_records_of_a_lane_can_be_one_piece_of_work() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.PARTITION)
    lanes.add([record(A, 0), record(A, 1), record(A, 2)])
    work = lanes.take(most=2)
    assert work is not None
    assert [each.offset for each in work.records] == [0, 1]
    lanes.done(work)
    assert taken(lanes, most=2) == [("a", 2)]


def test_a_mixed_piece_has_records_of_all_lanes_that_are_open() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.KEY)
    lanes.add([record(A, offset, key) for offset, key in enumerate([b"x", b"x", b"y", b"z", b"y"])])
    slow = lanes.take(mixing=Mixing.OPEN_LANES)
    assert slow is not None
    work = lanes.take(most=10, mixing=Mixing.OPEN_LANES)
    assert work is not None
    assert [each.offset for each in work.records] == [2, 3, 4]
    assert lanes.take(most=10, mixing=Mixing.OPEN_LANES) is None
    lanes.done(slow)
    assert taken(lanes) == [("a", 1)]


def test_a_whole_slice_waits_for_the_lanes_of_its_records() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.KEY)
    lanes.add([record(A, offset, key) for offset, key in enumerate([b"x", b"y", b"z", b"x"])])
    first = lanes.take(2, Mixing.WHOLE_SLICES)
    assert first is not None
    assert lanes.take(2, Mixing.WHOLE_SLICES) is None
    lanes.done(first)
    second = lanes.take(2, Mixing.WHOLE_SLICES)
    assert second is not None
    assert [each.offset for each in second.records] == [2, 3]


@pytest.mark.parametrize("ordering", Ordering)
def test_many_that_nobody_has_made_are_taken_as_they_are(ordering: Ordering) -> None:
    lanes: Lanes[bytes, bytes] = Lanes(ordering)
    lanes.add(rows(A, 0, [b"x", b"y"] * 25))
    lanes.add(rows(A, 50, [b"x", None] * 50))
    lanes.add(rows(A, 150, [b"y", b"x"] * 25))
    first = lanes.take(180, Mixing.WHOLE_SLICES)
    assert first is not None
    assert isinstance(first.records, Rows)
    assert first.records.offsets() == list(range(150))
    lanes.done(first)
    second = lanes.take(180, Mixing.WHOLE_SLICES)
    assert second is not None
    assert [each.offset for each in second.records] == list(range(150, 200))


def test_rows_of_a_closed_lane_wait_for_it_and_go_round_it_when_that_takes_long() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.KEY)
    lanes.add([record(A, 0, b"x")])
    slow = lanes.take()
    lanes.add(rows(A, 1, [b"x", b"y"] * 50))
    assert slow is not None
    assert lanes.take(100, Mixing.WHOLE_SLICES) is None
    assert lanes.waiting == 100
    work = lanes.take(100, Mixing.OPEN_LANES)
    assert work is not None
    assert [each.offset for each in work.records] == list(range(2, 101, 2))
    lanes.done(slow)
    assert taken(lanes, 100) == [("a", offset) for offset in range(1, 101, 2)]


@pytest.mark.parametrize("ordering", Ordering)
def test_records_behind_a_slow_one_can_be_given_back(ordering: Ordering) -> None:
    lanes: Lanes[bytes, bytes] = Lanes(ordering)
    lanes.add([record(A, offset, key) for offset, key in enumerate([b"x", b"y", b"x", b"y", b"z", b"x", None])])
    work = lanes.take(most=5, mixing=Mixing.OPEN_LANES)
    assert work is not None
    lanes.give_back(work, 1)
    assert (lanes.waiting, lanes.in_work) == (5, 1)
    free = {Ordering.PARTITION: [], Ordering.KEY: [2, 4, 6], Ordering.NONE: [2, 3, 4, 5, 6]}[ordering]
    assert sorted(offset for _, offset in taken(lanes)) == free, "what stays in work has the key y"
    lanes.done(work)
    assert [offset for _, offset in taken(lanes)] == {Ordering.PARTITION: [2], Ordering.KEY: [3], Ordering.NONE: []}[
        ordering
    ]


@pytest.mark.parametrize("mixing", Mixing)
def test_what_was_dropped_and_comes_again_does_not_pass_what_is_in_work(mixing: Mixing) -> None:
    """A key that had been ready when it was dropped must not be taken for ready when records of it wait again."""
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.KEY)
    lanes.add([record(A, 0, b"x"), record(A, 1, b"x"), record(A, 2, b"y")])
    first = lanes.take(mixing=mixing)
    assert taken(lanes) == [("a", 2)]
    assert first is not None
    lanes.done(first)
    assert lanes.drop([A]) == [record(A, 1, b"x")]
    lanes.add([record(A, 1, b"x"), record(A, 2, b"x")])
    assert taken(lanes) == [("a", 1)]


def test_who_waited_longest_goes_first() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.PARTITION)
    lanes.add([record(A, 0), record(A, 1)])
    lanes.add([record(B, 0), record(B, 1)])
    work = lanes.take()
    assert work is not None
    lanes.done(work)
    assert taken(lanes) == [("b", 0), ("a", 1)]


def test_a_partition_that_leaves_and_returns_waits_for_what_was_in_work() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.KEY)
    lanes.add([record(A, 0, b"x"), record(A, 1, b"x")])
    lanes.add([record(B, 0, b"x")])
    work = lanes.take()
    assert work is not None
    assert lanes.drop([A]) == [record(A, 1, b"x")]
    assert lanes.in_work_of([A]) == 1
    lanes.add([record(A, 0, b"x")])
    assert taken(lanes) == [("b", 0)]
    lanes.done(work)
    assert taken(lanes) == [("a", 0)]


def test_work_is_done_once() -> None:
    lanes: Lanes[bytes, bytes] = Lanes(Ordering.PARTITION)
    lanes.add([record(A, 0), record(A, 1)])
    work = lanes.take()
    assert work is not None
    lanes.done(work)
    with pytest.raises(IllegalStateError, match="only once"):
        lanes.done(work)
    lanes.take()
    with pytest.raises(IllegalStateError, match="only once"):
        lanes.done(work)


@pytest.mark.parametrize("key", [[1], (1, [2])])
def test_a_key_that_cannot_be_looked_up_is_refused(key: object) -> None:
    lanes: Lanes[object, bytes] = Lanes(Ordering.KEY)
    bad: Record[object, bytes] = Record(*A, 7, -1, TimestampType.CREATE_TIME, key, b"", (), None, -1, 0)
    with pytest.raises(InvalidArgumentError, match=r"a-0 offset 7: .* cannot"):
        lanes.add([bad])


class AnyOrder(RuleBasedStateMachine):
    """Records come, made or not, are worked on side by side, finish in any order, and partitions come and go."""

    @initialize(ordering=st.sampled_from(Ordering), few=st.sampled_from([1, 3, 64]))
    def begin(self, ordering: Ordering, few: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(kwire.processing.partition_lanes, "FEW_ROWS", few)
        self.ordering = ordering
        self.lanes: Lanes[bytes, bytes] = Lanes(ordering)
        self.expected: dict[object, list[Record[bytes, bytes]]] = {}
        self.in_work: list[Work[bytes, bytes]] = []
        self.offset = 0

    def lane(self, each: Record[bytes, bytes]) -> object:
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
        self.lanes.add(new if are_made or not new else rows(tp, self.offset, keys))
        self.offset += len(new)
        for each in new:
            self.expected.setdefault(self.lane(each), []).append(each)

    @rule(most=st.integers(1, 5), mixing=st.sampled_from(Mixing))
    def take(self, most: int, mixing: Mixing) -> None:
        busy = {self.lane(each) for work in self.in_work for each in work.records} - {None}
        work = self.lanes.take(most, mixing)
        if work is None:
            in_work = {each.topic_partition for work in self.in_work for each in work.records}
            for lane, waiting in self.expected.items():
                whole_waits = mixing is Mixing.WHOLE_SLICES and waiting and waiting[0].topic_partition in in_work
                assert not waiting or lane in busy or whole_waits, "nothing is left lying"
            return
        assert 1 <= len(work.records) <= most
        assert len({each.topic_partition for each in work.records}) == 1
        assert mixing is not Mixing.ONE_LANE or len({self.lane(each) for each in work.records}) == 1
        for each in work.records:
            lane = self.lane(each)
            assert lane not in busy, "one after the other"
            waiting = self.expected[lane]
            assert each in waiting
            assert lane is None or each == waiting[0], "in order"
            waiting.remove(each)
        self.in_work.append(work)

    @precondition(lambda self: bool(self.in_work))
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        """One takes its time."""
        work = data.draw(st.sampled_from(self.in_work))
        at = data.draw(st.integers(0, len(work.records) - 1))
        behind = work.records[at + 1 :]
        self.lanes.give_back(work, at)
        for each in reversed(behind):
            self.expected[self.lane(each)].insert(0, each)

    @precondition(lambda self: bool(self.in_work))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.lanes.done(self.in_work.pop(data.draw(st.integers(0, len(self.in_work) - 1))))

    @rule(tp=st.sampled_from([A, B]), data=st.data())
    def drop(self, tp: TopicPartition, data: st.DataObject) -> None:
        """All of a partition, or what comes again from an offset on."""
        first = data.draw(st.integers(0, self.offset))
        gone = 0
        for waiting in self.expected.values():
            here = [each for each in waiting if each.topic_partition == tp and each.offset >= first]
            gone += len(here)
            waiting[:] = [each for each in waiting if each not in here]
        assert len(self.lanes.drop({tp}, EVERYTHING[first:])) == gone
        assert self.lanes.in_work_of({tp}) == sum(
            len(work.records) for work in self.in_work if work.records[0].topic_partition == tp
        )

    def teardown(self) -> None:
        if hasattr(self, "lanes"):
            self.patch.undo()
            assert self.lanes.waiting == sum(map(len, self.expected.values()))
            assert self.lanes.in_work == sum(len(work.records) for work in self.in_work)


TestAnyOrder = AnyOrder.TestCase
