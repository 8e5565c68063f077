"""The two commit logs of parallel rebalance, and which of them a commit is for.

The group's own log is the low-water mark, with the token of what is undone behind it: children's commits go there. The
head's log, the group `<group>.head`, has how far the main cursor got: its commits go there, once the group's log has a
token of this incarnation. Until then the token takes them along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kwire.events import ProcessedOffsets
from kwire.model import OffsetAndMetadata, Offsets, TopicPartition
from kwire.parallel_rebalance.catch_up import CatchUpManager
from kwire.parallel_rebalance.state import CatchUpState
from kwire.parallel_rebalance.token import decode
from kwire.subscription.subscription import Subscription


class Split(NamedTuple):
    """A commit, by where it goes."""

    low_water: Offsets
    head: Offsets


class CommitSplitter:
    """What commits mean for the states, and what each log is to say then."""

    def __init__(self, main: Subscription, catch_up: CatchUpManager) -> None:
        self._main = main
        self._catch_up = catch_up

    def delivered(self) -> Split:
        """A commit of all that was returned."""
        low, head = dict(self._main.consumed()), {}
        for tp, state in self._states().items():
            main = low.pop(tp, None)
            if main is None:
                continue  # given up, or without a position
            state.commit_delivered()
            if tp not in self._catch_up.held:
                state.commit_head(main)
            low[tp] = state.low_water() if state.undone else main
            if state.undone and state.claimed:
                head[tp] = state.head_mark()
        self._catch_up.refresh()
        return Split(low, head)

    def asked(self, offsets: Offsets) -> Split:
        """A commit of these: each for the cursor that reads what lies in front of it."""
        low: dict[TopicPartition, OffsetAndMetadata] = {}
        head: dict[TopicPartition, OffsetAndMetadata] = {}
        states = self._states()
        for tp, position in offsets.items():
            state = states.get(tp)
            if state is None or not state.undone or position.offset < state.undone[0].start:
                low[tp] = position
            elif position.offset <= state.undone[-1].stop:
                state.commit_in_range(position)
                low[tp] = state.low_water()
            else:
                self._commit_head(state, position, low, head)
        self._catch_up.refresh()
        return Split(low, head)

    def processed(self, processed: Mapping[TopicPartition, ProcessedOffsets]) -> Split:
        """A commit of what handlers have finished. The group's log has all of it, in one piece, so that nobody finds
        half of it; the head's has the main cursor's."""
        low: dict[TopicPartition, OffsetAndMetadata] = {}
        head: dict[TopicPartition, OffsetAndMetadata] = {}
        states, reached = self._states(), self._main.consumed()
        for tp, each in processed.items():
            state, main = states.get(tp), reached.get(tp)
            if state is None:
                # Without a head, the main cursor delivered nothing: everything before it was done.
                if (position := each.head or main) is not None:
                    metadata = each.metadata_at(position.offset)
                    low[tp] = OffsetAndMetadata(position.offset, metadata, position.leader_epoch)
                continue
            state.commit_processed(each._replace(head=_not_behind(each.head, main)))
            low[tp] = state.low_water()
            if state.undone and state.claimed:
                head[tp] = state.head_mark()
        self._catch_up.refresh()
        return Split(low, head)

    def _commit_head(
        self,
        state: CatchUpState,
        position: OffsetAndMetadata,
        low: dict[TopicPartition, OffsetAndMetadata],
        head: dict[TopicPartition, OffsetAndMetadata],
    ) -> None:
        if position.offset > state.head.offset:
            state.commit_head(position)
        if state.claimed:
            head[state.topic_partition] = state.head_mark(position.metadata)
        else:
            low[state.topic_partition] = state.low_water()

    def acknowledged(self, offsets: Offsets) -> None:
        """The group's log has these: a token among them says whose incarnation it is."""
        for tp, position in offsets.items():
            state = self._catch_up.states.get(tp)
            token = decode(position.metadata) if state is not None and not state.claimed else None
            if state is not None and token is not None and token.incarnation == state.incarnation:
                state.claimed = True
                self._catch_up.unclaimed.discard(tp)

    def _states(self) -> dict[TopicPartition, CatchUpState]:
        self._catch_up.refresh()
        return self._catch_up.states.copy()


def _not_behind(head: OffsetAndMetadata | None, main: OffsetAndMetadata | None) -> OffsetAndMetadata | None:
    """How far handlers got, but not behind the main cursor: they may not know yet that the log was cut."""
    return main if head is not None and main is not None and main.offset < head.offset else head


class LowWaterLog:
    """The group's own."""

    def __init__(self, group_id: str, main: Subscription, splitter: CommitSplitter) -> None:
        self.group_id = group_id
        self._main = main
        self._splitter = splitter

    @property
    def by_member(self) -> bool:
        return self._main.is_group

    def delivered(self) -> Offsets:
        return self._splitter.delivered().low_water

    def acknowledged(self, offsets: Offsets) -> None:
        self._splitter.acknowledged(offsets)


class HeadLog:
    """`<group>.head`. It has no members."""

    by_member = False

    def __init__(self, group_id: str, splitter: CommitSplitter) -> None:
        self.group_id = group_id
        self._splitter = splitter

    def delivered(self) -> Offsets:
        return self._splitter.delivered().head

    def acknowledged(self, offsets: Offsets) -> None:
        """Nobody has to know."""
