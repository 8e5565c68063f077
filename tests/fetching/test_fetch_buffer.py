"""The buffer between the threads: order, bytes, and who is told that there is room."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from linecache import getline
from types import FrameType
from typing import TypeAlias

import pytest

from kwire.epochs import AssignmentEpoch
from kwire.fetching.buffer import MIN_SHARE, FetchBuffer
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.model import TopicPartition

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)
C = TopicPartition("c", 0)
MIB = 1024 * 1024
Trace: TypeAlias = "Callable[[FrameType, str, object], Trace | None]"


def fetch(tp: TopicPartition = A, size_bytes: int = 100) -> CompletedFetch:
    return CompletedFetch(topic_partition=tp, epoch=AssignmentEpoch(1), fetch_offset=0, records=b"x" * size_bytes)


def answered(*answers: list[CompletedFetch]) -> FetchBuffer:
    """A buffer with what came in these answers."""
    buffer = FetchBuffer()
    for answer in answers:
        buffer.put(answer)
    return buffer


def collect(buffer: FetchBuffer, paused: Collection[TopicPartition] = ()) -> CompletedFetch:
    """As the application does: the fetch at the front, from beginning to end."""
    taken = buffer.front(paused)
    assert taken is not None
    buffer.release(taken)
    return taken


def is_drained(buffer: FetchBuffer) -> bool:
    """As the application does, which tells the network thread."""
    refusal = buffer.drained()
    if refusal is not None:
        buffer.drain_told(refusal)
    return refusal is not None


def test_fetches_of_a_partition_come_out_in_the_order_they_went_in() -> None:
    buffer, fetches = FetchBuffer(), [fetch(A), fetch(A), fetch(A)]
    buffer.put(fetches)
    assert [collect(buffer) for _ in fetches] == fetches
    assert buffer.front() is None


def test_partitions_take_turns() -> None:
    """However much of one the application has not taken yet."""
    a, b = [fetch(A) for _ in range(4)], fetch(B)
    buffer = answered(*([each] for each in a))
    assert buffer.front() is a[0]
    buffer.put([b])
    assert buffer.first(3) == [b, a[1], a[2]]
    assert [collect(buffer) for _ in range(3)] == [a[0], b, a[1]]


def test_a_turn_may_end_in_the_middle_of_a_fetch() -> None:
    a, b = fetch(A), fetch(B)
    buffer = answered([a], [b])
    assert buffer.front() is a
    assert buffer.has_others(A, ())
    assert not buffer.has_others(A, {B})
    buffer.end_turn(A)
    assert buffer.front() is b
    buffer.end_turn(B)
    assert buffer.front() is a
    assert list(buffer.taken) == [a, b]


def test_the_front_stays_the_same_until_it_is_released() -> None:
    """An exception of a signal handler may strike before anybody has noted which one it was."""
    buffer = answered([fetch(A), fetch(B)])
    assert buffer.front() is buffer.front()


def test_withheld_partitions_are_passed_by_and_keep_their_order() -> None:
    buffer, fetches = FetchBuffer(), [fetch(A), fetch(B), fetch(A)]
    buffer.put(fetches)
    assert collect(buffer, {A}) is fetches[1]
    assert buffer.front({A}) is None
    assert [collect(buffer), collect(buffer)] == [fetches[0], fetches[2]]


def test_bytes_count_until_they_are_released() -> None:
    buffer = answered([fetch(A, 100)], [fetch(B, 50)])
    taken = buffer.front()
    assert buffer.size_bytes == 150
    assert taken is not None
    buffer.release(taken)
    assert buffer.size_bytes == 50
    assert buffer.room_bytes(60, ()) == 10


def test_an_answer_counts_as_a_whole_until_the_last_of_it_is_released() -> None:
    """Its fetches are views of one frame. While they counted one by one, a slow reader of a hundred partitions came to
    hold a quarter more than the bound: what was released was fetched anew, and the frame was there still."""
    buffer = answered([fetch(A, 100), fetch(B, 50)], [fetch(A, 30)])
    collect(buffer)
    assert buffer.size_bytes == 180
    assert buffer.room_bytes(200, ()) == 20
    collect(buffer)
    assert buffer.size_bytes == 30


def test_an_answer_that_only_what_is_paused_keeps_does_not_count() -> None:
    buffer = answered([fetch(A, 100), fetch(B, 50), fetch(C, 30)])
    collect(buffer, paused={A})
    assert buffer.room_bytes(200, {A}) == 200 - 50 - 30, "going on makes room of these"
    collect(buffer, paused={A})
    assert buffer.room_bytes(200, {A}) == 200
    assert buffer.room_bytes(200, ()) == 200 - 180


def test_room_is_reported_when_only_what_is_paused_keeps_an_answer() -> None:
    """Collecting has made room of what counts then, though nothing has left the memory."""
    buffer = answered([fetch(A, 100), fetch(B, 50)])
    assert buffer.room_bytes(50, {A}) <= 0
    collect(buffer, paused={A})
    assert buffer.size_bytes == 150
    assert is_drained(buffer)


def test_room_is_reported_beside_however_much_is_paused() -> None:
    """The quarter is one of the bound: of all that is held, paused or not, nobody may ever get as much free."""
    buffer = answered([fetch(A, 1_000)], [fetch(B, 100)])
    assert buffer.room_bytes(100, {A}) <= 0
    collect(buffer, paused={A})
    assert is_drained(buffer)


def test_what_is_paused_beyond_the_limit_leaves_less_room_and_always_some() -> None:
    """Partitions that are paused in turn filled the buffer once each: 1.2 GB of 32 partitions, at 64 MiB."""
    buffer = answered([fetch(A, 4 * MIB)])
    assert buffer.room_bytes(4 * MIB, {A}) == 4 * MIB
    buffer.put([fetch(A, 2 * MIB)])
    assert buffer.room_bytes(4 * MIB, {A}) == 2 * MIB
    buffer.put([fetch(A, 4 * MIB)])
    assert buffer.room_bytes(4 * MIB, {A}) == 4 * MIB * MIN_SHARE


def test_room_is_reported_where_paused_partitions_leave_little() -> None:
    buffer = answered([fetch(A, 10 * MIB)], [fetch(B, int(4 * MIB * MIN_SHARE))])
    assert buffer.room_bytes(4 * MIB, {A}) == 0
    assert not is_drained(buffer)
    collect(buffer, {A})
    assert is_drained(buffer)


def test_dropping_forgets_a_partition_and_its_bytes_but_not_what_is_being_collected() -> None:
    buffer = answered([fetch(A, 100)], [fetch(A, 10)], [fetch(B, 50)])
    taken = buffer.front()
    buffer.drop({A})
    assert buffer.size_bytes == 150
    assert taken is not None
    buffer.release(taken)
    assert buffer.size_bytes == 50
    assert collect(buffer).topic_partition == B
    assert buffer.front() is None


def test_dropping_what_is_not_there_changes_nothing() -> None:
    buffer = FetchBuffer()
    buffer.put([fetch(A)])
    buffer.drop({B})
    buffer.drop(set())
    assert buffer.size_bytes == 100


def test_a_buffer_that_is_cleared_holds_nothing_and_a_late_release_does_no_harm() -> None:
    buffer = answered([fetch(A, 10), fetch(B, 5)], [fetch(A, 7)])
    taken = buffer.front()
    assert taken is not None
    for _ in range(2):
        buffer.clear()
        assert buffer.front() is None
        assert (list(buffer.taken), buffer.size_bytes) == ([], 0)
        buffer.release(taken)
    buffer.put([fetch(C, 3)])
    assert buffer.size_bytes == 3


def test_what_is_paused_does_not_count() -> None:
    buffer = answered([fetch(A, 100), fetch(B, 50)])
    assert buffer.room_bytes(120, ()) == -30
    assert buffer.room_bytes(120, {A}) == 70


def test_room_is_reported_once_when_a_quarter_is_free_and_only_if_somebody_lacked_it() -> None:
    buffer = answered(*([fetch(A, 30)] for _ in range(4)))
    assert not is_drained(buffer)
    assert buffer.room_bytes(120, ()) == 0
    reported = []
    while (taken := buffer.front()) is not None:
        buffer.release(taken)
        reported.append(is_drained(buffer))
    assert reported == [True, False, False, False]


def test_whoever_finds_room_is_not_waiting_for_it() -> None:
    buffer = FetchBuffer()
    buffer.put([fetch(A, 100)])
    assert buffer.room_bytes(100, ()) <= 0
    assert buffer.room_bytes(1_000, ()) > 0
    buffer.drop({A})
    assert not is_drained(buffer)


def test_the_network_thread_is_told_when_nothing_is_left_of_a_partition_if_it_asks() -> None:
    buffer = answered([fetch(A, 10)], [fetch(B, 90)])
    assert not buffer.has_room_again(80, ())
    collect(buffer)
    assert not is_drained(buffer), "nobody has asked"
    buffer.tells_run_out = True
    assert is_drained(buffer)
    assert not is_drained(buffer), "it is told once"


@pytest.mark.parametrize("line", range(25))
def test_the_network_thread_is_told_although_an_exception_cuts_the_release_short(line: int) -> None:
    """The collector releases the fetch again after the exception."""
    buffer, a = FetchBuffer(), fetch(A, 10)
    buffer.put([a])
    buffer.put([fetch(B, 90)])
    assert not buffer.has_room_again(80, ())
    buffer.tells_run_out = True
    assert buffer.front() is a
    with struck_at_line(line), suppress(InterruptedError):
        buffer.release(a)
    buffer.release(a)
    assert buffer.size_bytes == 90
    assert is_drained(buffer)


@contextmanager
def struck_at_line(number: int) -> Iterator[None]:
    """An exception comes before that line of the buffer's code, but for those that take its lock."""
    left, file = number, FetchBuffer.release.__code__.co_filename

    def trace(frame: FrameType, event: str, _: object) -> Trace | None:
        nonlocal left
        if frame.f_code.co_filename != file:
            return None
        if event == "line" and not getline(file, frame.f_lineno).lstrip().startswith("with"):
            left -= 1
            if left == -1:
                raise InterruptedError
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def test_two_threads_lose_no_fetch_and_no_byte() -> None:
    buffer, rounds = FetchBuffer(), 300
    fetches = [fetch(A, size) for size, _ in zip(count(1), range(rounds), strict=False)]

    def put_all() -> None:
        for each in fetches:
            buffer.put([each])

    producer = threading.Thread(target=put_all)
    producer.start()
    taken: list[CompletedFetch] = []
    while len(taken) < rounds:
        one = buffer.front()
        if one is not None:
            taken.append(one)
            buffer.release(one)
    producer.join()
    assert taken == fetches
    assert buffer.size_bytes == 0
