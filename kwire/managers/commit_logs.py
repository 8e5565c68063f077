"""The two commit logs of parallel rebalance, and which of them a commit is for.

The group's own log is the low-water mark, with the token of what is undone behind it: children's commits go there. The
head's log, the group `<group>.head`, has how far the main cursor got: its commits go there, once the group's log has a
token of this life. Until then the token takes them along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kwire.catch_up.book import Book
from kwire.catch_up.processed import Processed
from kwire.catch_up.token import decode
from kwire.managers.catch_up import CatchUpManager
from kwire.managers.pending_commit import Offsets
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.subscription.subscription import Subscription


class Split(NamedTuple):
    """A commit, by where it goes."""

    low_water: Offsets
    head: Offsets


class CommitSplitter:
    """What commits mean for the books, and what each log is to say then."""

    def __init__(self, main: Subscription, catch_up: CatchUpManager) -> None:
        self._main = main
        self._catch_up = catch_up

    def delivered(self) -> Split:
        """A commit of all that was returned."""
        low, head = dict(self._main.consumed()), {}
        for tp, book in self._books().items():
            main = low.pop(tp, None)
            if main is None:
                continue  # given up, or without a position
            book.commit_delivered()
            if tp not in self._catch_up.held:
                book.commit_head(main)
            low[tp] = book.low_water() if book.undone else main
            if book.undone and book.claimed:
                head[tp] = book.head_mark()
        self._catch_up.refresh()
        return Split(low, head)

    def asked(self, offsets: Offsets) -> Split:
        """A commit of these: each for the cursor that reads what lies in front of it."""
        low: dict[TopicPartition, OffsetAndMetadata] = {}
        head: dict[TopicPartition, OffsetAndMetadata] = {}
        books = self._books()
        for tp, position in offsets.items():
            book = books.get(tp)
            if book is None or not book.undone or position.offset < book.undone[0].start:
                low[tp] = position
            elif position.offset <= book.undone[-1].stop:
                book.commit_in_range(position)
                low[tp] = book.low_water()
            else:
                self._commit_head(book, position, low, head)
        self._catch_up.refresh()
        return Split(low, head)

    def processed(self, processed: Mapping[TopicPartition, Processed]) -> Split:
        """A commit of what handlers have finished. The group's log has all of it, in one piece, so that nobody finds
        half of it; the head's has the main cursor's."""
        low: dict[TopicPartition, OffsetAndMetadata] = {}
        head: dict[TopicPartition, OffsetAndMetadata] = {}
        books, reached = self._books(), self._main.consumed()
        for tp, each in processed.items():
            book, main = books.get(tp), reached.get(tp)
            if book is None:
                if (
                    position := each.head or main
                ) is not None:  # of a main cursor that gave nothing all was done before
                    metadata = each.metadata_at(position.offset)
                    low[tp] = OffsetAndMetadata(position.offset, metadata, position.leader_epoch)
                continue
            book.commit_processed(each._replace(head=_not_behind(each.head, main)))
            low[tp] = book.low_water()
            if book.undone and book.claimed:
                head[tp] = book.head_mark()
        self._catch_up.refresh()
        return Split(low, head)

    def _commit_head(
        self,
        book: Book,
        position: OffsetAndMetadata,
        low: dict[TopicPartition, OffsetAndMetadata],
        head: dict[TopicPartition, OffsetAndMetadata],
    ) -> None:
        if position.offset > book.head.offset:
            book.commit_head(position)
        if book.claimed:
            head[book.topic_partition] = book.head_mark(position.metadata)
        else:
            low[book.topic_partition] = book.low_water()

    def acknowledged(self, offsets: Offsets) -> None:
        """The group's log has these: a token among them says whose life it is."""
        for tp, position in offsets.items():
            book = self._catch_up.books.get(tp)
            token = decode(position.metadata) if book is not None and not book.claimed else None
            if book is not None and token is not None and token.life == book.life:
                book.claimed = True
                self._catch_up.unclaimed.discard(tp)

    def _books(self) -> dict[TopicPartition, Book]:
        self._catch_up.refresh()
        return self._catch_up.books.copy()


def _not_behind(head: OffsetAndMetadata | None, main: OffsetAndMetadata | None) -> OffsetAndMetadata | None:
    """How far handlers got, who may not know yet that the log was cut."""
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
