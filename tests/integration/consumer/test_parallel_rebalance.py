"""Parallel rebalance against Kafka, under both protocols: after a crash the newest records first, and nothing lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire import Consumer, Cursor, OffsetAndMetadata

if TYPE_CHECKING:
    from tests.integration.consumer.lag_story import Story

pytestmark = pytest.mark.slow


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


def test_the_worked_example_of_the_proposal_offset_by_offset(story: Story) -> None:
    """Committed 70, crash at 100, the end at 120; then committed 140, crash at 170, the end at 190."""
    tp = story.tp
    story.produce_up_to(100)
    first = story.start()
    story.read(first, main=range(100), child=range(0))
    assert not first.child_consumer_is_alive()
    first.commit_sync({tp: at(70)})
    story.crash(first)
    assert (story.group_log().offset, story.group_log().token, story.head_log().offset) == (70, None, None)

    story.produce_up_to(120)
    second = story.start()
    story.read(second, main=range(0), child=range(70, 120))
    assert second.child_consumer_is_alive()
    assert second.position(tp) == 120
    assert second.committed([tp]) == {tp: at(70)}
    token = story.claim_of(second)
    assert (story.group_log().offset, token.undone, token.head) == (70, (range(70, 120),), 120)
    assert story.head_log().offset is None

    story.produce_up_to(170)
    story.read(second, main=range(120, 170), child=range(0))
    second.commit_sync({tp: at(100)})
    second.commit_sync({tp: at(130)})
    assert (story.group_log().offset, story.head_log().offset) == (100, 130)
    assert second.committed([tp])[tp] == at(100)
    mark, written = story.head_log().mark, story.group_log().token
    assert mark is not None
    assert written is not None
    assert mark.incarnation == written.incarnation == token.incarnation
    assert written.undone == (range(100, 120),)
    second.commit_sync({tp: at(120)})
    assert second.committed([tp])[tp] is not None
    assert (story.group_log().offset, story.group_log().metadata) == (130, "")
    second.commit_sync({tp: at(140)})
    assert (story.group_log().offset, story.group_log().metadata, story.head_log().offset) == (140, "", 130)
    assert second.child_consumer_is_alive()
    story.crash(second)

    story.produce_up_to(190)
    third = story.start()
    story.read(third, main=range(0), child=range(140, 190))
    assert third.position(tp) == 190
    token = story.claim_of(third)
    assert (story.group_log().offset, token.undone, token.head) == (140, (range(140, 190),), 190)
    story.produce_up_to(200)
    story.read(third, main=range(190, 200), child=range(0))
    third.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (200, "")
    story.crash(third)


def test_a_second_crash_while_catching_up_adds_its_lag_to_what_is_left_of_the_first(story: Story) -> None:
    """The child had committed 100 of [70, 120), the head 140; the log has grown to 190."""
    tp = story.tp
    story.produce_up_to(100)
    first = story.start()
    story.read(first, main=range(100), child=range(0))
    first.commit_sync({tp: at(70)})
    story.crash(first)
    story.produce_up_to(120)
    second = story.start()
    story.read(second, main=range(0), child=range(70, 120))
    story.produce_up_to(170)
    story.read(second, main=range(120, 170), child=range(0))
    second.commit_sync({tp: at(100)})
    second.commit_sync({tp: at(140)})
    assert (story.group_log().offset, story.head_log().offset) == (100, 140)
    story.crash(second)

    story.produce_up_to(190)
    third = story.start()
    story.read(third, main=range(0), child=[*range(100, 120), *range(140, 190)])
    assert third.committed([tp])[tp] == at(100)
    third.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (190, "")


# --- what the calls of the consumer mean ---


def test_a_poll_returns_what_both_cursors_have_and_says_which(story: Story) -> None:
    consumer = story.lag(70, 120)
    story.read(consumer, main=[], child=range(70, 120))
    story.produce_up_to(125)
    found: list[int] = []
    while found[-1:] != [124]:  # a fetch that waited may have met the first of the producer's batches alone
        records = consumer.poll(10.0)
        assert {chunk.cursor for chunk in records.chunks()} == {Cursor.MAIN}
        assert not records.of(Cursor.CHILD)
        found += [record.offset for record in records]
    assert found == [*range(120, 125)]


def test_pause_and_resume_act_on_both_cursors(story: Story) -> None:
    tp = story.tp
    consumer = story.lag(70, 120)
    before = list[int]()
    while not consumer.assignment():
        before += [record.offset for record in consumer.poll(0.01)]
    consumer.pause([tp])
    story.produce_up_to(130)
    polled = [record.offset for _ in range(10) for record in consumer.poll(0.05)]
    assert not polled
    assert consumer.paused() == {tp}
    consumer.resume([tp])
    story.read_all(consumer, sorted({*range(70, 130)} - {*before}))


def test_auto_commit_commits_each_cursor_in_its_log(story: Story) -> None:
    consumer = story.lag(70, 120, enable_auto_commit=True, auto_commit_interval_ms=100, max_poll_records=10)
    assert len(consumer.poll(10.0)) == 10
    story.produce_up_to(125)
    seen: set[int] = set()
    while not set(range(120, 125)) <= seen:
        seen |= {record.offset for record in consumer.poll(10.0)}
    consumer.pause([story.tp])
    story.until(lambda: story.head_log().offset == 125 or story.group_log().offset == 125, consumer)


def test_what_is_closed_with_auto_commit_is_not_returned_again(story: Story) -> None:
    """Leaving by the door: what both cursors returned is committed."""
    consumer = story.lag(70, 120, enable_auto_commit=True)
    story.read(consumer, main=[], child=range(70, 120))
    story.produce_up_to(130)
    story.read(consumer, main=range(120, 130), child=[])
    consumer.close()
    assert (story.group_log().offset, story.group_log().metadata) == (130, "")


def test_the_users_metadata_survives_the_token(story: Story) -> None:
    tp = story.tp
    consumer = story.lag(70, 120)
    story.read(consumer, main=[], child=range(70, 120))
    consumer.commit_sync({tp: OffsetAndMetadata(80, "a note")})
    assert story.group_log().token is not None
    assert consumer.committed([tp]) == {tp: OffsetAndMetadata(80, "a note")}
    story.crash(consumer)
    plain = story.start(enable_parallel_rebalance=False)
    assert plain.committed([tp]) == {tp: OffsetAndMetadata(80, "a note")}


def test_next_offsets_of_a_poll_never_commit_past_the_lag(story: Story) -> None:
    """What everybody does with a poll's records is safe: of both cursors, the child's position is committed."""
    tp = story.tp
    consumer = story.lag(70, 120, max_poll_records=20)
    story.produce_up_to(130)
    seen: set[int] = set()
    while len(seen) < 60:
        records = consumer.poll(10.0)
        seen |= {record.offset for record in records}
        consumer.commit_sync(records.next_offsets())
        low = consumer.committed([tp])[tp]
        assert low is not None
        assert set(range(70, low.offset)) <= seen
    consumer.commit_sync()
    assert story.group_log().offset == 130


def test_a_commit_of_the_main_cursors_position_leaves_the_lag(story: Story) -> None:
    tp = story.tp
    consumer = story.lag(70, 120)
    records = consumer.poll(10.0)
    assert {chunk.cursor for chunk in records.chunks()} == {Cursor.CHILD}
    consumer.poll(0.0)
    position = consumer.position(tp)
    assert position == 120
    story.produce_up_to(150)
    consumer.commit_sync({tp: at(140)})
    assert consumer.committed([tp]) == {tp: at(70)}


def test_a_seek_forward_within_the_lag_passes_over_what_lies_between(story: Story) -> None:
    """The child is meant: it reads what the seek is about. The main cursor stays where it is."""
    tp = story.tp
    consumer = story.lag(70, 120, max_poll_records=10)
    first = [record.offset for record in consumer.poll(10.0)]
    consumer.poll(0.0).count()
    consumer.seek(tp, 110)
    assert consumer.position(tp) == 120
    story.produce_up_to(122)
    rest: list[int] = []
    while not rest or max(rest) < 121:
        rest += [record.offset for record in consumer.poll(5.0)]
    while set(range(110, 122)) - set(rest):
        rest += [record.offset for record in consumer.poll(5.0)]
    assert first[0] == 70
    assert sorted(rest) == list(range(110, 122))
    consumer.commit_sync()
    assert story.group_log().offset == 122


def test_a_seek_back_returns_everything_from_there_on(story: Story) -> None:
    tp = story.tp
    consumer = story.lag(70, 120)
    story.read(consumer, main=[], child=range(70, 120))
    story.produce_up_to(130)
    story.read(consumer, main=range(120, 130), child=[])
    consumer.seek(tp, 60)
    story.read(consumer, main=range(60, 130), child=[])
    consumer.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (130, "")


def test_a_seek_back_within_the_last_poll_returns_everything_from_there_on(story: Story) -> None:
    """The network thread did not know how far the child had got, and took it for a seek forward."""
    consumer = story.lag(70, 120, max_poll_records=10)
    for record in consumer:
        if record.offset == 77:
            consumer.seek(story.tp, 73)
            break
    found: set[int] = set()
    for _ in range(150):
        found |= {record.offset for record in consumer.poll(0.1).of(Cursor.MAIN)}
        if 119 in found:
            break
    assert found == set(range(73, 120))


def test_the_ends_of_the_log_are_those_of_both_cursors(story: Story) -> None:
    tp = story.tp
    consumer = story.lag(70, 120)
    story.read(consumer, main=[], child=range(70, 120))
    assert consumer.beginning_offsets([tp]) == {tp: 0}
    assert consumer.end_offsets([tp]) == {tp: 120}


def catch_up_metrics(consumer: Consumer[bytes, bytes]) -> dict[str, float]:
    found = consumer.metrics().items()
    return {name.name: value for name, value in found if name.group == "consumer-catch-up-metrics"}


def test_progress_is_told_until_the_lag_is_done(story: Story) -> None:
    tp = story.tp
    consumer = story.lag(70, 120, max_poll_records=20)
    assert len(consumer.poll(10.0)) == 20
    progress = consumer.catch_up_progress()[tp]
    assert (progress.ranges, progress.done, progress.left) == ((range(70, 120),), 20, 30)
    numbers = catch_up_metrics(consumer)
    assert (numbers["catch-up-start-offset"], numbers["catch-up-end-offset"]) == (70, 120)
    assert (numbers["catch-up-done-total"], numbers["catch-up-left"]) == (20, 30)
    story.read(consumer, main=[], child=range(90, 120))
    consumer.commit_sync()
    assert consumer.catch_up_progress() == {}
    assert catch_up_metrics(consumer) == {}
    assert consumer.child_consumer_is_alive()
    consumer.close()
    assert not consumer.child_consumer_is_alive()


def test_a_loop_that_is_left_returns_of_both_cursors_what_it_has_not_seen(story: Story) -> None:
    consumer = story.lag(70, 120)
    seen: list[int] = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 7:
            break
    story.produce_up_to(125)
    consumer.commit_sync()
    assert story.group_log().offset == 77
    rest: list[int] = []
    while len(rest) < 48:
        rest += [record.offset for record in consumer.poll(5.0)]
    assert sorted(seen + rest) == list(range(70, 125))
    consumer.commit_sync()
    assert story.group_log().offset == 125


# --- when a child is worth it ---


def test_a_lag_below_the_thresholds_is_read_in_order(story: Story) -> None:
    consumer = story.lag(70, 120, parallel_rebalance_min_lag_records=51)
    story.read(consumer, main=range(70, 120), child=[])
    assert not consumer.child_consumer_is_alive()


def test_a_short_lag_that_is_old_is_caught_up_with(story: Story) -> None:
    consumer = story.lag(
        70, 120, parallel_rebalance_min_lag_records=1_000, parallel_rebalance_min_lag_ms=1, fetch_max_wait_ms=100
    )
    story.read(consumer, main=[], child=range(70, 120))


def test_a_long_lag_is_shared_by_several_children(story: Story) -> None:
    consumer = story.lag(5, 40_000, parallel_rebalance_children=3, max_poll_records=5_000)
    offsets: list[int] = []
    starts: set[int] = set()
    while len(offsets) < 39_995:
        for chunk in consumer.poll(5.0).chunks():
            if chunk.epoch not in starts and chunk.epoch is not None:
                starts.add(chunk.epoch)
            offsets += chunk.columns.offsets.tolist()
    assert sorted(offsets) == list(range(5, 40_000))
    assert len(starts) >= 3
    consumer.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (40_000, "")
