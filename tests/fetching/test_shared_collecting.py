"""Who is collected from first, and how much: what is new, and what is being caught up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from kwire.epochs import AssignmentEpoch
from kwire.errors import RecordDeserializationError
from kwire.events import AssignmentView
from kwire.fetching.buffer import FetchBuffer
from kwire.fetching.collector import FetchCollector
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.cursor_collector import Collected
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.deserializing import Deserializers
from kwire.fetching.partition_records import PartitionRecords
from kwire.model import Cursor, TopicPartition

if TYPE_CHECKING:
    from tests.record_batches import batch, damaged
else:
    from record_batches import batch, damaged

pytestmark = pytest.mark.usefixtures("in_c_and_in_python", "few_and_many_batches")

TP = TopicPartition("orders", 0)
MAIN_EPOCH, CHILD_EPOCH = AssignmentEpoch(2), AssignmentEpoch(3)
VIEW = AssignmentView(epochs={TP: MAIN_EPOCH}, children=(AssignmentView(epochs={TP: CHILD_EPOCH}),))
MOST = 8
UNREADABLE = b"no number"


def refuse(value: bytes) -> bytes:
    if value == UNREADABLE:
        raise ValueError("not this one")
    return value


class Cursors:
    """A main cursor at 100 and a child at 0, with what was fetched for each."""

    def __init__(self, head_share: float = 0.5, max_bytes: float = math.inf) -> None:
        self.main = FetchBuffer(children=1)
        (self.child,) = self.main.children
        self.collector: FetchCollector[bytes, bytes] = FetchCollector(
            self.main,
            Deserializers[bytes, bytes](value=refuse),
            max_bytes=max_bytes,
            read_committed=False,
            check_crcs=True,
            head_share=head_share,
        )

    def fetch(self, cursor: Cursor, *batches: bytes, at: int, stop: int | None = None) -> None:
        is_main = cursor is Cursor.MAIN
        fetch = CompletedFetch(
            topic_partition=TP,
            epoch=MAIN_EPOCH if is_main else CHILD_EPOCH,
            fetch_offset=at,
            records=b"".join(batches),
            cursor=cursor,
            stop_offset=stop,
        )
        (self.main if is_main else self.child).put([fetch])

    def collect_some(self, polls: int) -> tuple[list[tuple[Cursor, int]], int]:
        """What they return, and how many of them raise an error instead."""
        found, errors = list[tuple[Cursor, int]](), 0
        for _ in range(polls):
            try:
                found += self.collect()
            except RecordDeserializationError:
                errors += 1
        return found, errors

    def collect(self, view: AssignmentView = VIEW) -> list[tuple[Cursor, int]]:
        return [(chunk.cursor, int(offset)) for chunk in self.chunks(view) for offset in chunk.columns.offsets]

    def chunks(self, view: AssignmentView = VIEW) -> list[PartitionRecords[bytes, bytes]]:
        pending: list[Collected[bytes, bytes]] = []
        self.collector.collect(view, pending, MOST, 0.0)
        return [entry.chunk for entry in pending]


def main(*offsets: int) -> list[tuple[Cursor, int]]:
    return [(Cursor.MAIN, offset) for offset in offsets]


def child(*offsets: int) -> list[tuple[Cursor, int]]:
    return [(Cursor.CHILD, offset) for offset in offsets]


@pytest.fixture
def cursors() -> Cursors:
    return Cursors()


def test_of_equal_shares_each_poll_has_half(cursors: Cursors) -> None:
    cursors.fetch(Cursor.MAIN, batch(*range(500, 520)), at=500)
    cursors.fetch(Cursor.CHILD, batch(*range(100, 120)), at=100)
    for start in (0, 4, 8):
        found = set(cursors.collect())
        assert found == {*main(*range(500 + start, 504 + start)), *child(*range(100 + start, 104 + start))}


def test_nothing_is_at_hand_for_one_of_several(cursors: Cursors) -> None:
    """The others would wait until it has no more."""
    cursors.fetch(Cursor.MAIN, batch(*range(500, 520)), at=500)
    cursors.collect()
    assert cursors.collector.at_hand(VIEW, MOST, 0.0) is None
    alone = AssignmentView(epochs={TP: MAIN_EPOCH})
    assert cursors.collector.at_hand(alone, MOST, 0.0) is not None


def test_all_together_have_enough_with_the_bytes_of_one_poll() -> None:
    cursors = Cursors(max_bytes=1_500)
    for offset in range(3):
        cursors.fetch(Cursor.MAIN, batch(500 + offset, values={500 + offset: bytes(1_000)}), at=500 + offset)
        cursors.fetch(Cursor.CHILD, batch(100 + offset, values={100 + offset: bytes(1_000)}), at=100 + offset)
    polls = [cursors.collect() for _ in range(4)]
    assert [len(found) for found in polls] == [2, 2, 2, 0]
    assert {each for found in polls for each in found} == {*main(500, 501, 502), *child(100, 101, 102)}


def test_a_larger_share_has_more_bytes() -> None:
    cursors = Cursors(head_share=0.75)
    cursors.fetch(Cursor.MAIN, batch(*range(100, 200)), at=100)
    cursors.fetch(Cursor.CHILD, batch(*range(100)), at=0)
    found = [cursor for _ in range(10) for cursor, _ in cursors.collect()]
    assert 0.65 < found.count(Cursor.MAIN) / len(found) < 0.85


def test_long_keys_count_towards_a_share_as_values_do(cursors: Cursors) -> None:
    for nth in range(40):
        cursors.fetch(Cursor.MAIN, batch(500 + nth, key=bytes(1_000)), at=500 + nth)
        cursors.fetch(Cursor.CHILD, batch(100 + nth, values={100 + nth: bytes(1_000)}), at=100 + nth)
    found = [cursor for _ in range(5) for cursor, _ in cursors.collect()]
    assert len(found) == 40
    assert 18 <= found.count(Cursor.MAIN) <= 22


def test_whoever_has_nothing_leaves_its_share_to_the_other(cursors: Cursors) -> None:
    cursors.fetch(Cursor.CHILD, batch(*range(20)), at=0)
    assert cursors.collect() == child(*range(8))


def test_whoever_is_alone_is_collected_in_one_piece(cursors: Cursors) -> None:
    cursors.fetch(Cursor.CHILD, batch(*range(20)), at=0)
    assert [len(chunk) for chunk in cursors.chunks()] == [MOST]


def test_what_is_new_comes_first_however_long_the_lag_was_alone(cursors: Cursors) -> None:
    cursors.fetch(Cursor.CHILD, batch(*range(100)), at=0)
    for _ in range(5):
        cursors.collect()
    cursors.fetch(Cursor.MAIN, batch(100, 101), at=100)
    assert cursors.collect()[:2] == main(100, 101)


def test_a_lag_is_not_starved_by_what_is_new(cursors: Cursors) -> None:
    cursors.fetch(Cursor.CHILD, batch(*range(16)), at=0)
    cursors.fetch(Cursor.MAIN, batch(*range(100, 200)), at=100)
    found = [entry for _ in range(5) for entry in cursors.collect()]
    assert set(child(*range(16))) <= set(found)


def test_a_child_stops_where_its_range_ends_though_the_batch_goes_on(cursors: Cursors) -> None:
    cursors.fetch(Cursor.CHILD, batch(*range(5)), batch(*range(5, 10)), at=3, stop=7)
    chunks = cursors.chunks()
    assert [int(offset) for chunk in chunks for offset in chunk.columns.offsets] == [3, 4, 5, 6]
    assert chunks[-1].next.offset == 7


def test_a_range_whose_last_records_were_compacted_away_is_over_at_its_end(cursors: Cursors) -> None:
    cursors.fetch(Cursor.CHILD, batch(3, 4), batch(20, 21), at=3, stop=7)
    chunks = cursors.chunks()
    assert [int(offset) for chunk in chunks for offset in chunk.columns.offsets] == [3, 4]
    assert chunks[-1].next.offset == 7


def test_nothing_of_a_partition_that_is_being_given_up_is_returned(cursors: Cursors) -> None:
    cursors.fetch(Cursor.CHILD, batch(0, 1), at=0)
    withheld = AssignmentView(epochs={TP: MAIN_EPOCH}, withheld=frozenset({TP}), children=VIEW.children)
    assert cursors.collect(withheld) == []
    assert cursors.collect() == child(0, 1)


def test_nothing_of_a_partition_that_was_given_up_is_returned(cursors: Cursors) -> None:
    """The main cursor's view is what counts: the child may not have heard of it yet."""
    cursors.fetch(Cursor.CHILD, batch(0, 1), at=0)
    assert cursors.collect(AssignmentView(children=VIEW.children)) == []


def test_damage_in_the_lag_is_raised_once_what_is_new_has_been_returned(cursors: Cursors) -> None:
    cursors.fetch(Cursor.MAIN, batch(100), at=100)
    cursors.fetch(Cursor.CHILD, damaged(batch(0, 1)), at=0)
    assert cursors.collect() == main(100)
    with pytest.raises(CorruptPartitionError) as raised:
        cursors.collect()
    assert (raised.value.epoch, raised.value.position.offset) == (CHILD_EPOCH, 0)


def test_damage_of_an_epoch_that_is_over_is_not_raised(cursors: Cursors) -> None:
    cursors.fetch(Cursor.MAIN, batch(100), at=100)
    cursors.fetch(Cursor.CHILD, damaged(batch(0, 1)), at=0)
    assert cursors.collect() == main(100)
    later = AssignmentView(epochs={TP: MAIN_EPOCH}, children=(AssignmentView(epochs={TP: AssignmentEpoch(4)}),))
    assert cursors.collect(later) == []


def test_what_is_new_keeps_coming_though_a_record_of_the_lag_cannot_be_read(cursors: Cursors) -> None:
    """The lag was asked first again and again once something new had come, as it had had less of its share."""
    cursors.fetch(Cursor.CHILD, batch(0, 1, values={0: UNREADABLE}), at=0)
    for offset in range(100, 105):
        cursors.fetch(Cursor.MAIN, batch(offset), at=offset)
        found, errors = cursors.collect_some(2)
        assert (found, errors) == (main(offset), 1)


def test_the_lag_keeps_coming_though_a_new_record_cannot_be_read(cursors: Cursors) -> None:
    cursors.fetch(Cursor.MAIN, batch(100, values={100: UNREADABLE}), at=100)
    for offset in range(5):
        cursors.fetch(Cursor.CHILD, batch(offset), at=offset)
        found, errors = cursors.collect_some(2)
        assert (found, errors) == (child(offset), 1)


def test_what_cannot_be_read_is_told_though_the_other_cursor_always_fills_a_poll(cursors: Cursors) -> None:
    cursors.fetch(Cursor.CHILD, batch(0, values={0: UNREADABLE}), at=0)
    cursors.fetch(Cursor.MAIN, batch(*range(100, 200)), at=100)
    found, errors = cursors.collect_some(8)
    assert found == main(*range(100, 100 + len(found)))
    assert errors >= 2


@pytest.mark.parametrize(
    "lag", [damaged(batch(0, 1)), batch(0, 1, values={0: UNREADABLE})], ids=["damaged", "unreadable"]
)
def test_an_error_behind_a_position_that_moves_without_records_is_raised_at_once(cursors: Cursors, lag: bytes) -> None:
    """Where transactions were aborted, for example. It was kept for the next poll, though this one had nothing else to
    return, and waited."""
    cursors.fetch(Cursor.MAIN, batch(98, 99), at=100)
    cursors.fetch(Cursor.CHILD, lag, at=0)
    with pytest.raises((CorruptPartitionError, RecordDeserializationError)):
        cursors.collect()


def test_without_a_child_the_main_cursor_has_all_of_a_poll(cursors: Cursors) -> None:
    cursors.fetch(Cursor.MAIN, batch(*range(100, 110)), at=100)
    assert cursors.collect(AssignmentView(epochs={TP: MAIN_EPOCH})) == main(*range(100, 108))
