"""Decoding the next fetch ahead, where the interpreter has no lock; what comes of it is `test_fetch_collector.py`'s."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kwire.epochs import AssignmentEpoch
from kwire.events import AssignmentView
from kwire.fetching.buffer import FetchBuffer
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.cursor_collector import Collected, CursorCollector
from kwire.fetching.decode_ahead import DecodeAhead
from kwire.fetching.deserializing import Deserializers
from kwire.fetching.open_fetch import OpenFetch
from kwire.interpreter_lock import for_another_thread, is_free_threaded
from kwire.model import TopicPartition

if TYPE_CHECKING:
    from tests.record_batches import batch
else:
    from record_batches import batch

A = TopicPartition("a", 0)


def fetched(*offsets: int) -> CompletedFetch:
    return CompletedFetch(topic_partition=A, epoch=AssignmentEpoch(1), fetch_offset=offsets[0], records=batch(*offsets))


def opened(fetch: CompletedFetch) -> OpenFetch:
    return OpenFetch(fetch, read_committed=False, check_crcs=True)


def test_a_fetch_is_decoded_once_in_a_thread_of_its_own_and_taken_once() -> None:
    threads: list[str] = []

    def decoded(fetch: CompletedFetch) -> OpenFetch:
        threads.append(threading.current_thread().name)
        return opened(fetch)

    ahead, fetch, other = DecodeAhead(decoded), fetched(0), fetched(1)
    assert ahead.take(fetch) is None
    ahead.begin([fetch, other])
    ahead.begin([fetch, other])
    ahead.begin([])
    assert ahead.take(other) is None
    taken = ahead.take(fetch)
    assert taken is not None
    assert taken.fetch is fetch
    assert ahead.take(fetch) is None
    assert threads == ["kwire-decode"]


def test_what_decoding_raises_is_raised_once_where_the_fetch_is_taken() -> None:
    def decoded(fetch: CompletedFetch) -> OpenFetch:
        raise MemoryError(len(fetch.records))

    ahead, fetch = DecodeAhead(decoded), fetched(0)
    ahead.begin([fetch])
    with pytest.raises(MemoryError):
        ahead.take(fetch)
    assert ahead.take(fetch) is None


def test_without_a_thread_nothing_is_decoded_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    ahead, fetch = DecodeAhead(opened), fetched(0)
    ahead.begin([fetch])
    assert ahead.take(fetch) is None


@pytest.mark.parametrize(("is_without", "expected"), [(True, {"kwire-decode"}), (False, set[str]())])
def test_while_one_fetch_is_handed_out_the_next_one_is_decoded_if_there_is_no_lock(
    is_without: bool, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.fetching.cursor_collector.is_free_threaded", lambda: is_without)
    threads: set[str] = set()
    decode = OpenFetch.decode

    def noted(fetch: OpenFetch) -> None:
        threads.add(threading.current_thread().name)
        decode(fetch)

    monkeypatch.setattr(OpenFetch, "decode", noted)
    buffer = FetchBuffer()
    collector: CursorCollector[bytes, bytes] = CursorCollector(
        buffer, Deserializers(key=None, value=None), read_committed=False, check_crcs=True
    )
    buffer.put([fetched(0, 1, 2), fetched(3, 4, 5), fetched(6, 7, 8)])
    found: list[Collected[bytes, bytes]] = []
    for _ in range(9):
        collector.collect(AssignmentView(epochs={A: AssignmentEpoch(1)}), found, 1, 1e9, 0.0, keep_failures=False)
    assert [entry.chunk.values() for entry in found] == [[str(offset).encode()] for offset in range(9)]
    assert threads - {threading.current_thread().name} == expected


def test_the_first_fetches_are_those_that_are_taken_next() -> None:
    buffer, fetches = FetchBuffer(), [fetched(0), fetched(1), fetched(2)]
    assert buffer.first(2) == []
    buffer.put(fetches)
    assert buffer.first(2, {A}) == []
    assert buffer.first(2) == fetches[:2]
    assert buffer.front() is fetches[0]
    assert buffer.first(2) == fetches[1:]


def test_bytes_for_another_thread_are_a_copy_only_where_there_is_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    data = memoryview(b"records")
    monkeypatch.setattr("sys._is_gil_enabled", lambda: True, raising=False)
    assert for_another_thread(data) is data
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    assert is_free_threaded()
    assert type(for_another_thread(data)) is bytes
    monkeypatch.delattr("sys._is_gil_enabled")
    assert not is_free_threaded()
