"""Records worked on side by side: those of a lane one after the other, in order, whatever comes between."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kwire import Record, TimestampType, TopicPartition
from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.processing.lanes import Lanes, Ordering, Work

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def record(tp: TopicPartition, offset: int, key: bytes | None = None) -> Record[bytes, bytes]:
    return Record(*tp, offset, -1, TimestampType.CREATE_TIME, key, b"", (), None, -1, 0)


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
    assert taken(lanes) == [("a", 0), ("a", 2), ("b", 0)]
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
    """Records come, are worked on side by side, finish in any order, and partitions come and go."""

    @initialize(ordering=st.sampled_from([Ordering.PARTITION, Ordering.KEY]))
    def begin(self, ordering: Ordering) -> None:
        self.ordering = ordering
        self.lanes: Lanes[bytes, bytes] = Lanes(ordering)
        self.expected: dict[object, list[Record[bytes, bytes]]] = {}
        self.in_work: list[Work[bytes, bytes]] = []
        self.offset = 0

    def lane(self, each: Record[bytes, bytes]) -> object:
        return each.topic_partition if self.ordering is Ordering.PARTITION else (each.topic_partition, each.key)

    @rule(tp=st.sampled_from([A, B]), keys=st.lists(st.sampled_from([b"x", b"y", b"z"]), max_size=6))
    def add(self, tp: TopicPartition, keys: list[bytes]) -> None:
        new = []
        for key in keys:
            new.append(record(tp, self.offset, key))
            self.offset += 1
        self.lanes.add(new)
        for each in new:
            self.expected.setdefault(self.lane(each), []).append(each)

    @rule(most=st.integers(1, 3))
    def take(self, most: int) -> None:
        busy = {self.lane(work.records[0]) for work in self.in_work}
        work = self.lanes.take(most)
        if work is None:
            assert all(lane in busy for lane, waiting in self.expected.items() if waiting), "nothing is left lying"
            return
        lane = self.lane(work.records[0])
        assert lane not in busy, "one after the other"
        waiting = self.expected[lane]
        assert list(work.records) == waiting[: len(work.records)], "in order"
        del waiting[: len(work.records)]
        self.in_work.append(work)

    @precondition(lambda self: bool(self.in_work))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.lanes.done(self.in_work.pop(data.draw(st.integers(0, len(self.in_work) - 1))))

    @rule(tp=st.sampled_from([A, B]))
    def drop(self, tp: TopicPartition) -> None:
        gone = 0
        for waiting in self.expected.values():
            if waiting and waiting[0].topic_partition == tp:
                gone += len(waiting)
                waiting.clear()
        assert len(self.lanes.drop({tp})) == gone
        assert self.lanes.in_work_of({tp}) == sum(
            len(work.records) for work in self.in_work if work.records[0].topic_partition == tp
        )

    def teardown(self) -> None:
        if hasattr(self, "lanes"):
            assert self.lanes.waiting == sum(map(len, self.expected.values()))
            assert self.lanes.in_work == sum(len(work.records) for work in self.in_work)


TestAnyOrder = AnyOrder.TestCase
