"""One process after the other works on a log: what was acknowledged as finished does not run again, and nothing is
committed that is not done."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.processing.completion_tracker import CompletionTracker, Offers
from kwire.processing.offset_map import decode
from kwire.processing.tracker import Tracker

TP = TopicPartition("orders", 0)
END = 61


class Lives(RuleBasedStateMachine):
    """A log with holes, worked on in any order, by one process after the other: each is killed, and the next goes on
    from what the broker acknowledged. `done` and `log` are the truth."""

    tracker_type: type[Tracker] = Tracker

    @initialize(holes=st.sets(st.integers(0, END - 1), max_size=20))
    def begin(self, holes: set[int]) -> None:
        self.log = [offset for offset in range(END) if offset not in holes]
        self.done: set[int] = set()
        self.committed = OffsetAndMetadata(0)
        self.live()

    def live(self) -> None:
        self.completion = CompletionTracker(with_map=True)
        self.completion.open({TP: self.committed}, {TP.topic: UUID(int=1)})
        progress = self.completion.progress(TP)
        assert progress is not None
        assert progress.main is not None
        self.tracker = progress.main.tracker = self.tracker_type(self.committed.offset)
        self.position, self.told = self.committed.offset, self.claims(self.committed)
        self.in_work: list[int] = []
        self.under_way: Offers = {}

    def claims(self, commit: OffsetAndMetadata) -> set[int]:
        """The records that a commit says are done."""
        found = decode(commit.offset, commit.metadata)
        finished = found.finished if found is not None else ()
        assert all(each.start > commit.offset for each in finished)
        return {o for o in self.log if o < commit.offset or any(o in each for each in finished)}

    @rule(count=st.integers(0, 20))
    def deliver(self, count: int) -> None:
        behind = min(END, self.position + count)
        if behind > self.position:
            there = [offset for offset in self.log if self.position <= offset < behind]
            end = OffsetAndMetadata(behind, leader_epoch=0)
            wanted = self.completion.deliver(TP, there, lambda: [0] * len(there), end)
            assert set(wanted) == set(there) - self.told
            self.in_work += wanted
            self.position = behind

    @precondition(lambda self: bool(self.in_work))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        offset = self.in_work.pop(data.draw(st.integers(0, len(self.in_work) - 1)))
        self.done.add(offset)
        self.completion.finish(TP, [offset])

    @rule()
    def commit(self) -> None:
        self.under_way = self.completion.offers()

    @precondition(lambda self: bool(self.under_way))
    @rule(is_answer_lost=st.booleans())
    def acknowledge(self, is_answer_lost: bool) -> None:
        position = self.under_way[TP].position
        assert position is not None
        self.committed = position
        if not is_answer_lost:
            self.completion.acknowledged(self.under_way, self.completion.progress_of([TP]))
        self.under_way = {}

    @rule()
    def be_killed(self) -> None:
        self.live()

    @invariant()
    def nothing_is_offered_that_is_not_done(self) -> None:
        if hasattr(self, "completion") and not self.under_way and (offers := self.completion.offers()):
            position = offers[TP].position
            assert position is not None
            assert self.claims(position) <= self.done
            assert position.offset >= self.committed.offset

    def teardown(self) -> None:
        if hasattr(self, "completion"):
            assert self.tracker.unfinished == len(self.in_work)


TestLives = Lives.TestCase


class SummingUp(Tracker):
    """Does soon what others do when there are many deliveries."""

    FEW_DELIVERIES = 0


class LivesOfTrackersThatSumUp(Lives):
    """What they say is the same."""

    tracker_type = SummingUp


TestLivesOfTrackersThatSumUp = LivesOfTrackersThatSumUp.TestCase
