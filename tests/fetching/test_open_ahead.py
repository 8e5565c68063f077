"""Opening the next fetch ahead, so that a thread can inflate it; what comes of it is `test_fetch_collector.py`'s."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kwire import speedups
from kwire.consumer import polling
from kwire.epochs import AssignmentEpoch
from kwire.events import AssignmentView
from kwire.fetching import open_fetch
from kwire.fetching.buffer import FetchBuffer
from kwire.fetching.completed_fetch import CompletedFetch
from kwire.fetching.cursor_collector import Collected, CursorCollector
from kwire.fetching.deserializing import Deserializers
from kwire.fetching.open_ahead import OpenAhead
from kwire.fetching.open_fetch import OpenFetch
from kwire.model import TopicPartition
from kwire.protocol import inflation_in_c, record_payloads
from kwire.protocol.inflation_in_c import InflationInC
from kwire.protocol.records import Codec, decode_available
from kwire.testing.cluster.batches import build_batch, placed

if TYPE_CHECKING:
    from collections.abc import Sequence

A = TopicPartition("a", 0)
EACH = 10
NOISE = np.random.default_rng(1).bytes(100_000)


@pytest.fixture(autouse=True)
def one_batch_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if speedups.module is None:
        pytest.skip("kwire._speedups was not built, or is not wanted")
    monkeypatch.setattr(record_payloads, "MIN_AHEAD_BYTES", 1)
    monkeypatch.setattr(inflation_in_c, "PROCESSORS", 2)
    monkeypatch.setattr("kwire.fetching.cursor_collector.is_free_threaded", lambda: False)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many payloads there were each time that a thread began."""
    counts: list[int] = []
    begin = InflationInC.begin

    def noted(inflation: InflationInC) -> None:
        counts.append(len(inflation._behind))
        begin(inflation)

    monkeypatch.setattr(InflationInC, "begin", noted)
    return counts


def values(number: int) -> list[bytes]:
    return [NOISE[(number * EACH + nth) * 1_000 :][:1_000] for nth in range(EACH)]


def fetched(*numbers: int, codec: int = Codec.LZ4, tp: TopicPartition = A) -> CompletedFetch:
    """Batches of ten records, each by its number."""
    records = b"".join(
        placed(build_batch(values(number), timestamp_ms=1, codec=codec), number * EACH, 0) for number in numbers
    )
    return CompletedFetch(topic_partition=tp, epoch=AssignmentEpoch(1), fetch_offset=numbers[0] * EACH, records=records)


def opened(fetch: CompletedFetch) -> OpenFetch:
    return OpenFetch(fetch, read_committed=False, check_crcs=True)


def collector_of(fetches: Sequence[CompletedFetch]) -> CursorCollector[bytes, bytes]:
    buffer = FetchBuffer()
    buffer.put(fetches)
    return CursorCollector(buffer, Deserializers(key=None, value=None), read_committed=False, check_crcs=True)


def poll(
    collector: CursorCollector[bytes, bytes], max_records: int, withheld: Sequence[TopicPartition] = ()
) -> list[bytes | None]:
    """What a poll of so many records collects; partitions are numbered from 0."""
    found: list[Collected[bytes, bytes]] = []
    epochs = {TopicPartition("a", number): AssignmentEpoch(1) for number in range(10)}
    view = AssignmentView(epochs=epochs, withheld=frozenset(withheld))
    collector.collect(view, found, max_records, 1e9, 0.0, keep_failures=False)
    return [value for entry in found for value in entry.chunk.values()]


def collected(fetches: Sequence[CompletedFetch], max_records: int) -> list[list[bytes | None]]:
    """What each poll collects."""
    return list(iter(partial(poll, collector_of(fetches), max_records), []))


def test_a_fetch_is_opened_once_and_taken_once(begun: list[int]) -> None:
    ahead, fetch, other = OpenAhead(opened), fetched(0, 1), fetched(2)
    assert ahead.take(fetch) is None
    ahead.begin([fetch])
    ahead.begin([fetch])
    assert begun == [2]
    assert ahead.take(other) is None
    taken = ahead.take(fetch)
    assert taken is not None
    assert taken.next_rows(100)[0].values() == values(0) + values(1)
    assert ahead.take(fetch) is None


def test_one_that_is_not_next_any_more_is_let_go_of(begun: list[int]) -> None:
    """Its bytes are a whole answer's, and nobody may ask for it again: a rebalance has dropped it."""
    ahead, fetch = OpenAhead(opened), fetched(0, 1)
    ahead.begin([fetch])
    ahead.begin([])
    assert ahead.take(fetch) is None
    ahead.begin([fetch])
    ahead.begin([fetched(2)])
    assert ahead.take(fetch) is None
    assert begun == [2, 2, 1]


def test_two_fetches_of_a_portion_each_are_begun_and_a_third_when_one_is_taken(begun: list[int]) -> None:
    ahead, fetches = OpenAhead(opened), [fetched(0), fetched(1, 2), fetched(3, 4, 5)]
    ahead.begin(fetches[:2])
    assert begun == [1, 2]
    first = ahead.take(fetches[0])
    ahead.begin(fetches[1:])
    assert begun == [1, 2, 3]
    second, third = ahead.take(fetches[1]), ahead.take(fetches[2])
    assert [each.next_rows(100)[0].values() for each in (first, second, third) if each is not None] == [
        values(0),
        values(1) + values(2),
        values(3) + values(4) + values(5),
    ]


def test_one_that_is_not_next_any_more_is_let_go_of_also_when_the_one_before_was_taken() -> None:
    ahead, first, dropped = OpenAhead(opened), fetched(0), fetched(1)
    ahead.begin([first, dropped])
    assert ahead.take(first) is not None
    ahead.begin(())
    assert ahead.take(dropped) is None


def test_behind_a_fetch_of_several_portions_none_is_begun(begun: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second portion is the other one that is ahead, once its first is decoded."""
    monkeypatch.setattr(open_fetch, "LAST_BYTES", 1_500 * EACH)
    ahead, long, short = OpenAhead(opened), fetched(0, 1), fetched(2)
    ahead.begin([long, short])
    assert begun == [2]
    ahead.begin([short, long])
    assert begun == [2, 1]
    assert ahead.take(long) is not None


def test_behind_a_fetch_that_no_thread_inflates_none_is_begun(begun: list[int]) -> None:
    ahead, other = OpenAhead(opened), fetched(1)
    ahead.begin([fetched(0, codec=Codec.GZIP), other])
    assert ahead.take(other) is None
    assert begun == []


def test_of_many_small_fetches_two_are_inflated_while_one_is_handed_out(begun: list[int]) -> None:
    """As of a topic with many partitions. The first of all was begun by nobody."""
    fetches = [fetched(number) for number in range(5)]
    collector = collector_of(fetches)
    begun_after = []
    for number in range(5):
        assert poll(collector, EACH) == values(number)
        begun_after.append(len(begun))
    assert begun_after == [2, 3, 4, 4, 4]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_what_no_thread_inflates_is_not_opened_ahead(codec: int, begun: list[int]) -> None:
    ahead, fetch = OpenAhead(opened), fetched(0, 1, codec=codec)
    ahead.begin([fetch])
    assert ahead.take(fetch) is None
    assert begun == []


def test_what_takes_less_time_than_a_thread_is_not_opened_ahead(
    begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = fetched(0, 1)
    monkeypatch.setattr(record_payloads, "MIN_AHEAD_BYTES", len(fetch.records) + 1)
    ahead = OpenAhead(opened)
    ahead.begin([fetch])
    assert ahead.take(fetch) is None
    assert opened(fetch).next_rows(100)[0].values() == values(0) + values(1)
    assert begun == []


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("max_records", [1, 7, 10, 1000])
def test_while_a_portion_is_handed_out_the_next_one_is_inflated_also_of_the_next_fetch(
    codec: int, max_records: int, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches make a portion. Nobody had begun with the first of all."""
    monkeypatch.setattr(open_fetch, "PORTION_BYTES", 2 * 1_000 * EACH)
    monkeypatch.setattr(open_fetch, "LAST_BYTES", 1_500 * EACH)
    fetches = [fetched(0, 1, 2, 3, 4, codec=codec), fetched(5, 6, 7, codec=codec), fetched(8, codec=codec)]
    found = collected(fetches, max_records)
    assert [value for poll in found for value in poll] == [value for nth in range(9) for value in values(nth)]
    assert all(len(poll) == max_records for poll in found[:-1])
    assert begun == [3, 1, 3, 1, 1]


def test_a_poll_ends_with_a_portion() -> None:
    """Else it would wait for the thread that inflates the next one. (`import kwire` does without what decodes.)"""
    assert polling.MAX_POLL_BYTES == open_fetch.PORTION_BYTES


def test_on_a_single_processor_nothing_is_inflated_ahead(begun: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflation_in_c, "PROCESSORS", 1)
    found = collected([fetched(0, 1), fetched(2)], 10)
    assert [value for poll in found for value in poll] == [value for nth in range(3) for value in values(nth)]
    assert begun == []


def test_of_many_paused_partitions_only_some_are_inflated_ahead(
    begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is paused when it has returned a record: what was inflated for it stays in memory until it is resumed."""
    monkeypatch.setattr(open_fetch, "PORTION_BYTES", 1_000 * EACH)
    monkeypatch.setattr(open_fetch, "LAST_BYTES", 0)
    partitions = [TopicPartition("a", number) for number in range(9)]
    collector = collector_of([fetched(0, 1, 2, tp=tp) for tp in partitions])
    assert [poll(collector, 1, partitions[:paused]) for paused in range(9)] == [values(0)[:1]] * 9
    assert begun == [2] * open_fetch.MAX_AHEAD
    rest = list(iter(partial(poll, collector, 100), []))
    whole = values(0) + values(1) + values(2)
    assert sorted(value for each in rest for value in each if value is not None) == sorted(whole[1:] * 9)


def test_what_a_thread_has_inflated_is_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a signal handler strikes behind that: the next poll inflates anew."""
    fetch = opened(fetched(0, 1))
    fetch.inflate_ahead()

    def struck(*arguments: object, **options: object) -> object:
        decode_available(*arguments, **options)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(open_fetch, "decode_available", struck)
        with pytest.raises(KeyboardInterrupt):
            fetch.next_rows(100)
    assert fetch.next_rows(100)[0].values() == values(0) + values(1)
