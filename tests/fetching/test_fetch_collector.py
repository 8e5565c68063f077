"""The collector: what of the buffer is handed out, in which portions, and where errors are raised."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from kwire.epochs import AssignmentEpoch
from kwire.errors import CorruptRecordError, RecordDeserializationError
from kwire.events import AssignmentView, Delivered
from kwire.fetching.buffer import FetchBuffer
from kwire.fetching.collector import FetchCollector
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.cursor_collector import MAX_PARTLY_HANDED_OUT, TURN_MS, Collected
from kwire.fetching.damage import CorruptPartitionError
from kwire.fetching.deserializing import Deserializers
from kwire.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from tests.record_batches import ABORT, COMMIT, batch, damaged, marker, misframed, transactional
else:
    from record_batches import ABORT, COMMIT, batch, damaged, marker, misframed, transactional


def refusing(value: bytes) -> bytes:
    if value == b"bad":
        raise ValueError("not this one")
    return value


pytestmark = pytest.mark.usefixtures("in_c_and_in_python", "few_and_many_batches")

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)
Rows = list[tuple[str, list[bytes]]]


class Harness:
    """A buffer, a collector, and the view that the network thread would have published.

    Attributes:
        looks_at_hand: Whether what is at hand is taken first, as polls do.
    """

    looks_at_hand = False

    def __init__(
        self,
        *,
        max_poll_records: int = 500,
        max_bytes: float = math.inf,
        read_committed: bool = False,
        check_crcs: bool = True,
        value: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.max_records = max_poll_records
        self.now_ms = 0.0
        self.buffer = FetchBuffer()
        self.pending: list[Collected[bytes, bytes]] = []
        self.epochs: dict[TopicPartition, AssignmentEpoch] = dict.fromkeys((A, B), AssignmentEpoch(1))
        self.paused: set[TopicPartition] = set()
        self.collector: FetchCollector[bytes, bytes] = FetchCollector(
            self.buffer,
            Deserializers(key=None, value=value),
            max_bytes=max_bytes,
            read_committed=read_committed,
            check_crcs=check_crcs,
        )

    def put(
        self,
        tp: TopicPartition,
        offset: int,
        *data: bytes,
        aborted: Mapping[int, int] | None = None,
        epoch: int = 1,
        fetch_epoch: int | None = None,
    ) -> None:
        fetch = CompletedFetch(
            topic_partition=tp,
            epoch=AssignmentEpoch(epoch),
            fetch_offset=offset,
            records=b"".join(data),
            aborted=tuple((aborted or {}).items()),
            fetch_epoch=fetch_epoch,
        )
        self.buffer.put([fetch])

    def collect(self) -> tuple[Rows, dict[TopicPartition, int]]:
        """The values by chunk, and the positions behind what was delivered."""
        view = AssignmentView(epochs=dict(self.epochs), withheld=frozenset(self.paused))
        try:
            opened = self.collector.at_hand(view, self.max_records, self.now_ms) if self.looks_at_hand else None
            if opened is not None:
                self.collector.take(opened, view, self.pending, self.max_records)
            else:
                self.collector.collect(view, self.pending, self.max_records, self.now_ms)
        except CorruptPartitionError as corrupt:
            self.collector.note_damage(corrupt)
            raise
        chunks, self.pending = [entry.chunk for entry in self.pending], []
        self.delivered: list[Delivered] = [chunk.delivered for chunk in chunks]
        rows = [(str(chunk.topic_partition), [value or b"" for value in chunk.values()]) for chunk in chunks if chunk]
        return rows, {tp: position.offset for tp, _, position in self.delivered}


@pytest.fixture(autouse=True, params=[False, True], ids=["with the lock", "without the lock"])
def is_free_threaded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the interpreter runs without its lock: then fetches are decoded ahead."""
    monkeypatch.setattr("kwire.fetching.cursor_collector.is_free_threaded", lambda: request.param)


@pytest.fixture(autouse=True, params=[False, True], ids=["collected", "at hand"])
def looks_at_hand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Harness, "looks_at_hand", request.param)


@pytest.fixture
def harness() -> Iterator[Harness]:
    made = Harness()
    yield made
    made.collect()
    assert made.buffer.size_bytes == 0, "everything that was taken out is given back"


# --- portions ---------------------------------------------------------------------------------------------------


def test_records_come_with_the_position_behind_them(harness: Harness) -> None:
    harness.put(A, 0, batch(0, 1, 2))
    assert harness.collect() == ([("a-0", [b"0", b"1", b"2"])], {A: 3})
    assert harness.delivered[0] == (A, 1, OffsetAndMetadata(3, leader_epoch=5))
    assert harness.collect() == ([], {})


def test_max_poll_records_counts_across_fetches_and_a_fetch_is_gone_on_with() -> None:
    harness = Harness(max_poll_records=4)
    harness.put(A, 0, batch(0, 1, 2))
    harness.put(B, 0, batch(0, 1, 2))
    assert harness.collect() == ([("a-0", [b"0", b"1", b"2"]), ("b-0", [b"0"])], {A: 3, B: 1})
    assert harness.buffer.size_bytes > 0
    assert harness.collect() == ([("b-0", [b"1", b"2"])], {B: 3})
    assert harness.buffer.size_bytes == 0


def test_a_poll_has_enough_with_so_many_bytes_however_few_records_they_are() -> None:
    harness = Harness(max_bytes=1_500)
    large = [b"%d" % number * 1_000 for number in range(4)]
    for offset, value in enumerate(large):
        harness.put(A, offset, batch(offset, values={offset: value}))
    assert [harness.collect()[0] for _ in range(3)] == [
        [("a-0", large[:1]), ("a-0", large[1:2])],
        [("a-0", large[2:3]), ("a-0", large[3:])],
        [],
    ]


def test_the_rest_of_a_poll_that_had_enough_comes_with_the_next_one() -> None:
    harness = Harness(max_poll_records=2, max_bytes=1)
    harness.put(A, 0, batch(0, 1, 2))
    harness.put(B, 0, batch(0))
    assert [harness.collect()[0] for _ in range(4)] == [
        [("a-0", [b"0", b"1"])],
        [("a-0", [b"2"])],
        [("b-0", [b"0"])],
        [],
    ]


def test_a_fetch_is_let_go_with_its_last_record_though_the_poll_is_full() -> None:
    harness = Harness(max_poll_records=3)
    harness.put(A, 0, batch(0, 1, 2))
    assert harness.collect() == ([("a-0", [b"0", b"1", b"2"])], {A: 3})
    assert harness.buffer.size_bytes == 0


def test_no_record_is_lost_or_repeated_whatever_the_portions() -> None:
    for size in (1, 2, 3, 5, 7, 100):
        harness = Harness(max_poll_records=size)
        harness.put(A, 0, batch(0, 1, 2), batch(3), batch(4, 5))
        harness.put(A, 6, batch(6, 7))
        values: list[bytes] = []
        while (found := harness.collect())[0]:
            assert sum(len(chunk) for _, chunk in found[0]) <= size
            values += [value for _, chunk in found[0] for value in chunk]
        assert values == [b"%d" % offset for offset in range(8)]
        assert harness.buffer.size_bytes == 0


def test_a_fetch_that_starts_inside_a_batch_delivers_only_from_its_offset(harness: Harness) -> None:
    harness.put(A, 2, batch(0, 1, 2, 3))
    assert harness.collect() == ([("a-0", [b"2", b"3"])], {A: 4})


def test_a_batch_that_ends_before_the_offset_is_passed_by(harness: Harness) -> None:
    harness.put(A, 5, batch(0, 1), batch(5, 6))
    assert harness.collect() == ([("a-0", [b"5", b"6"])], {A: 7})


def test_a_part_of_a_batch_at_the_end_is_not_there(harness: Harness) -> None:
    harness.put(A, 0, batch(0, 1), batch(2, 3)[:-4])
    assert harness.collect() == ([("a-0", [b"0", b"1"])], {A: 2})


def at_hand(harness: Harness) -> int | None:
    """From where the next poll can take all of its records as they are decoded."""
    view = AssignmentView(epochs=harness.epochs, withheld=frozenset(harness.paused))
    found = harness.collector.at_hand(view, harness.max_records, 0.0)
    return None if found is None else found.progress.position.offset


def test_at_hand_is_what_is_decoded_while_there_is_more_of_it_than_a_poll_returns() -> None:
    harness = Harness(max_poll_records=2)
    harness.put(A, 0, batch(0, 1, 2, 3, 4, 5))
    assert at_hand(harness) is None
    harness.collect()
    assert at_hand(harness) == 2
    harness.paused = {A}
    assert at_hand(harness) is None
    harness.paused = set()
    harness.collect()
    assert at_hand(harness) is None, "with the last ones the fetch is released"
    harness.collect()
    assert (at_hand(harness), harness.buffer.size_bytes) == (None, 0)


def test_what_was_fetched_for_an_older_assignment_is_not_at_hand() -> None:
    harness = Harness(max_poll_records=1)
    harness.put(A, 0, batch(0, 1, 2))
    harness.collect()
    harness.epochs[A] = AssignmentEpoch(2)
    assert at_hand(harness) is None
    harness.collect()


# --- turns ------------------------------------------------------------------------------------------------------


def polled(harness: Harness, polls: int, each_ms: float) -> list[str]:
    """The partition of each poll's records, with an application that handles them for so long."""
    found = []
    for _ in range(polls):
        found += [name for name, _ in harness.collect()[0]]
        harness.now_ms += each_ms
    return found


def with_backlog(*partitions: TopicPartition) -> Harness:
    """Polls of two records; one fetch of ten of each partition."""
    harness = Harness(max_poll_records=2)
    harness.epochs = dict.fromkeys(partitions, AssignmentEpoch(1))
    for tp in partitions:
        harness.put(tp, 0, batch(*range(10)))
    return harness


def test_a_slow_application_gets_records_of_another_partition_within_a_turn() -> None:
    """It need not have handled first what is buffered of the one before."""
    harness = with_backlog(A)
    harness.epochs[B] = AssignmentEpoch(1)
    harness.put(A, 10, batch(*range(10, 20)))
    assert polled(harness, 2, TURN_MS / 2) == ["a-0", "a-0"]
    harness.put(B, 0, batch(0))
    assert polled(harness, 3, TURN_MS / 2) == ["b-0", "a-0", "a-0", "a-0"]


def test_partitions_of_a_slow_application_take_turns() -> None:
    harness = with_backlog(A, B)
    assert polled(harness, 8, TURN_MS / 2) == ["a-0", "a-0", "b-0", "b-0"] * 2
    assert polled(harness, 2, TURN_MS / 2) == ["a-0", "b-0"]


def test_a_fast_application_reads_a_fetch_to_its_end() -> None:
    assert polled(with_backlog(A, B), 10, TURN_MS / 100) == ["a-0"] * 5 + ["b-0"] * 5


def test_a_partition_that_is_alone_or_beside_paused_ones_goes_on() -> None:
    harness = with_backlog(A, B)
    harness.paused = {B}
    assert polled(harness, 5, 2 * TURN_MS) == ["a-0"] * 5


def test_few_fetches_wait_in_the_middle_of_what_is_decoded() -> None:
    """The turn of the next one goes on to the end of its portion, for each that waits takes memory."""
    partitions = [TopicPartition("a", number) for number in range(MAX_PARTLY_HANDED_OUT + 1)]
    first = [f"a-{number}" for number in range(MAX_PARTLY_HANDED_OUT)]
    found = polled(with_backlog(*partitions), 5 * len(partitions), TURN_MS)
    assert found[: len(first) + 4] == [*first, *first[-1:] * 4]
    assert {name: found.count(name) for name in found} == {str(tp): 5 for tp in partitions}


def test_a_fetch_that_waits_behind_its_portion_keeps_nothing_decoded() -> None:
    partitions = [TopicPartition("a", number) for number in range(50)]
    harness = with_backlog(*partitions)
    for tp in partitions:
        harness.put(tp, 10, batch(*range(10, 20)))
    for _ in range(300):
        polled(harness, 1, TURN_MS)
        opened = harness.collector._main._opened.values()
        assert sum(len(each.progress.columns) > 0 for each in opened) <= MAX_PARTLY_HANDED_OUT + 1


def test_an_error_is_raised_again_however_late_the_next_poll_is() -> None:
    harness = Harness(max_poll_records=1, value=refusing)
    harness.put(A, 0, batch(0, 1, 2, 3, values={2: b"bad"}))
    harness.put(B, 0, batch(1))
    assert polled(harness, 2, 0.0) == ["a-0", "a-0"]
    for _ in range(3):
        with pytest.raises(RecordDeserializationError):
            harness.collect()
        harness.now_ms += 2 * TURN_MS


def test_a_turn_ends_after_an_error_that_a_seek_has_stepped_over() -> None:
    harness = Harness(max_poll_records=1, value=refusing)
    harness.put(A, 0, batch(0, 1, 2, 3, values={0: b"bad"}))
    harness.put(B, 0, batch(1))
    with pytest.raises(RecordDeserializationError):
        harness.collect()
    view = AssignmentView(epochs=harness.epochs)
    assert harness.collector.seek(A, OffsetAndMetadata(1), view) is not None
    assert polled(harness, 3, TURN_MS) == ["a-0", "b-0", "a-0"]


# --- compaction -------------------------------------------------------------------------------------------------


def test_gaps_are_passed(harness: Harness) -> None:
    harness.put(A, 0, batch(1, 4, 9, end=12))
    assert harness.collect() == ([("a-0", [b"1", b"4", b"9"])], {A: 13})


def test_batches_without_records_move_the_position(harness: Harness) -> None:
    harness.put(A, 0, batch(end=7))
    assert harness.collect() == ([], {A: 8})


def test_empty_batches_at_the_end_move_the_position_behind_the_last_record(harness: Harness) -> None:
    harness.put(A, 0, batch(0, 1), batch(end=7))
    assert harness.collect() == ([("a-0", [b"0", b"1"])], {A: 8})


def test_in_the_middle_of_a_fetch_the_position_is_behind_the_record() -> None:
    harness = Harness(max_poll_records=1)
    harness.put(A, 0, batch(1, 4, end=9))
    assert [harness.collect()[1] for _ in range(2)] == [{A: 2}, {A: 10}]


# --- transactions -----------------------------------------------------------------------------------------------

LOG = (
    transactional(0, 1, producer_id=7),
    transactional(2, 3, producer_id=8),
    batch(4),
    marker(5, ABORT, producer_id=7),
    transactional(6, producer_id=7),
    marker(7, COMMIT, producer_id=8),
    marker(8, COMMIT, producer_id=7),
)


def test_read_committed_leaves_out_what_was_aborted() -> None:
    harness = Harness(read_committed=True)
    harness.put(A, 0, *LOG, aborted={7: 0})
    assert harness.collect() == ([("a-0", [b"2", b"3", b"4", b"6"])], {A: 9})


def test_read_uncommitted_delivers_all_records_but_no_markers() -> None:
    harness = Harness()
    harness.put(A, 0, *LOG)
    assert harness.collect() == ([("a-0", [b"0", b"1", b"2", b"3", b"4", b"6"])], {A: 9})


def test_a_fetch_of_nothing_but_aborted_records_moves_the_position() -> None:
    harness = Harness(read_committed=True)
    harness.put(A, 0, transactional(0, 1, producer_id=7), marker(2, ABORT, producer_id=7), aborted={7: 0})
    assert harness.collect() == ([], {A: 3})
    assert harness.buffer.size_bytes == 0


# --- what the view says -----------------------------------------------------------------------------------------


def test_records_of_an_older_assignment_are_dropped(harness: Harness) -> None:
    harness.put(A, 0, batch(0, 1), epoch=1)
    harness.put(A, 50, batch(50), epoch=2)
    harness.epochs[A] = AssignmentEpoch(2)
    assert harness.collect() == ([("a-0", [b"50"])], {A: 51})


def test_records_of_a_partition_that_is_not_assigned_are_dropped(harness: Harness) -> None:
    harness.put(A, 0, batch(0, 1))
    del harness.epochs[A]
    assert harness.collect() == ([], {})


def test_a_fetch_that_is_being_collected_is_dropped_when_its_assignment_ends() -> None:
    harness = Harness(max_poll_records=1)
    harness.put(A, 0, batch(0, 1))
    harness.collect()
    harness.epochs[A] = AssignmentEpoch(2)
    assert harness.collect() == ([], {})
    assert harness.buffer.size_bytes == 0


def test_what_is_paused_waits_at_its_place(harness: Harness) -> None:
    harness.put(A, 0, batch(0))
    harness.put(B, 0, batch(0))
    harness.paused = {A}
    assert harness.collect() == ([("b-0", [b"0"])], {B: 1})
    harness.paused = set()
    assert harness.collect() == ([("a-0", [b"0"])], {A: 1})


def test_a_fetch_paused_while_it_is_collected_goes_on_where_it_was() -> None:
    harness = Harness(max_poll_records=1)
    harness.put(A, 0, batch(0, 1, 2))
    harness.put(B, 0, batch(0, 1))
    harness.put(A, 3, batch(3))
    assert harness.collect()[0] == [("a-0", [b"0"])]
    harness.paused = {A}
    assert harness.collect()[0] == [("b-0", [b"0"])]
    harness.paused = {A, B}
    assert harness.collect()[0] == []
    harness.paused = set()
    values: dict[str, list[bytes]] = {"a-0": [], "b-0": []}
    while (found := harness.collect()[0]) != []:
        for partition, chunk in found:
            values[partition] += chunk
    assert values == {"a-0": [b"1", b"2", b"3"], "b-0": [b"1"]}
    assert harness.buffer.size_bytes == 0


def test_a_fetch_put_aside_is_let_go_when_its_assignment_ends_though_the_partition_stays_paused() -> None:
    harness = Harness(max_poll_records=1)
    harness.put(A, 0, batch(0, 1))
    harness.collect()
    harness.paused = {A}
    harness.collect()
    harness.epochs[A] = AssignmentEpoch(2)
    assert harness.collect() == ([], {})
    assert harness.buffer.size_bytes == 0


# --- damage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [damaged, misframed], ids=["checksum", "framing"])
def test_records_in_front_of_damage_come_first_then_the_error_with_the_position(
    harness: Harness, spoil: Callable[[bytes], bytes]
) -> None:
    harness.put(A, 0, batch(0, 1), spoil(batch(2, 3)), batch(4))
    assert harness.collect() == ([("a-0", [b"0", b"1"])], {A: 2})
    with pytest.raises(CorruptPartitionError) as caught:
        harness.collect()
    error = caught.value
    assert (error.topic_partition, error.position) == (A, OffsetAndMetadata(2, leader_epoch=5))
    assert isinstance(error.error, CorruptRecordError)
    assert (error.error.topic, error.error.partition, error.error.offset) == ("a", 0, 2)


def test_the_position_in_front_of_damage_keeps_its_leader_epoch(harness: Harness) -> None:
    """The consumer goes back to it. Without the epoch nobody asked whether the log was truncated meanwhile, and what
    was written anew in front of the position was passed over."""
    harness.put(A, 7, damaged(batch(7)), fetch_epoch=4)
    with pytest.raises(CorruptPartitionError) as caught:
        harness.collect()
    assert caught.value.position == OffsetAndMetadata(7, leader_epoch=4)


def test_nothing_behind_damage_is_delivered_before_the_position_was_set_back(harness: Harness) -> None:
    """The next fetches were in the buffer already. The seek back to the damage travels to the network thread while the
    application polls again, and was overtaken: the records of the damaged batch were passed over silently."""
    harness.put(A, 0, damaged(batch(0, 1)))
    harness.put(A, 2, batch(2, 3))
    harness.put(B, 0, batch(0))
    with pytest.raises(CorruptPartitionError):
        harness.collect()
    assert harness.collect() == ([("b-0", [b"0"])], {B: 1})
    harness.epochs[A] = AssignmentEpoch(2)
    harness.put(A, 5, batch(5), epoch=2)
    assert harness.collect() == ([("a-0", [b"5"])], {A: 6})


@pytest.mark.parametrize("before", [5, 500], ids=["few", "many"])
@pytest.mark.parametrize("back_to", [-4, 2], ids=["a negative offset", "one that was delivered"])
def test_records_that_go_back_are_damage_of_a_broker(before: int, back_to: int) -> None:
    """They were returned once more, and the position went back with them; or each poll raised that an offset cannot be
    negative, and did not say of which partition."""
    harness = Harness(max_poll_records=1_000)
    harness.put(A, 0, batch(*range(before)), batch(back_to, before + 1), batch(before + 2))
    assert harness.collect() == ([("a-0", [b"%d" % number for number in range(before)])], {A: before})
    with pytest.raises(CorruptPartitionError) as caught:
        harness.collect()
    assert caught.value.error.problem == f"a record of offset {back_to} stands behind one of offset {before - 1}"
    assert caught.value.position.offset == before


def test_a_batch_whose_records_go_back_is_given_out_in_front_of_them() -> None:
    harness = Harness(max_poll_records=1)
    harness.put(A, 0, batch(0, -5, 2))
    assert harness.collect() == ([("a-0", [b"0"])], {A: 1})
    with pytest.raises(CorruptPartitionError):
        harness.collect()


def test_checksums_can_be_left_unchecked() -> None:
    harness = Harness(check_crcs=False)
    harness.put(A, 0, batch(0)[:17] + b"\0\0\0\0" + batch(0)[21:])
    assert harness.collect() == ([("a-0", [b"0"])], {A: 1})


def test_damage_inside_a_batch_with_a_good_checksum_is_found_when_it_is_decoded() -> None:
    harness = Harness(check_crcs=False)
    harness.put(A, 0, batch(0, 1), batch(2)[:61] + b"\x7f" * 9)
    assert harness.collect()[0] == [("a-0", [b"0", b"1"])]
    with pytest.raises(CorruptPartitionError) as caught:
        harness.collect()
    assert caught.value.position.offset == 2


# --- deserializers ----------------------------------------------------------------------------------------------


def refuse_two(data: bytes) -> bytes:
    if data == b"2":
        raise ValueError("two is not allowed")
    return data


def test_rows_in_front_of_a_bad_record_come_first_then_the_same_error_each_time_until_a_seek() -> None:
    harness = Harness(value=refuse_two)
    harness.put(A, 0, batch(0, 1, 2, 3))
    assert harness.collect() == ([("a-0", [b"0", b"1"])], {A: 2})
    for _ in range(3):
        with pytest.raises(RecordDeserializationError, match="two is not allowed") as caught:
            harness.collect()
        assert (caught.value.partition, caught.value.offset, caught.value.value_data) == (A, 2, b"2")
    harness.epochs[A] = AssignmentEpoch(2)
    harness.put(A, 3, batch(0, 1, 2, 3), epoch=2)
    assert harness.collect() == ([("a-0", [b"3"])], {A: 4})
    assert harness.buffer.size_bytes == 0


def test_records_of_another_partition_come_before_the_error() -> None:
    harness = Harness(value=refuse_two)
    harness.put(B, 0, batch(0))
    harness.put(A, 2, batch(2))
    assert harness.collect()[0] == [("b-0", [b"0"])]
    with pytest.raises(RecordDeserializationError):
        harness.collect()


def test_positions_that_moved_without_records_are_told_after_an_error_in_between() -> None:
    """They were only known to the call that raised; the position stayed behind until the partition had new records."""
    harness = Harness(value=refuse_two)
    harness.put(B, 0, batch(end=8))
    harness.put(A, 2, batch(2))
    for _ in range(2):
        with pytest.raises(RecordDeserializationError):
            harness.collect()
    harness.epochs[A] = AssignmentEpoch(2)
    assert harness.collect() == ([], {B: 9})
    assert harness.collect() == ([], {})
