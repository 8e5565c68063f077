"""What each partition has in work and may commit: a tracker each, and the way to and from a commit's metadata.

Contract: pure, and of one thread: the processor's. What others wrote into the metadata of commits is left as it is;
then nothing is said of what is finished behind them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.processing.offset_map import OffsetMap, decode, encode, is_offset_map
from kwire.processing.tracker import Offer, Tracker

Offers = dict[TopicPartition, tuple[Offer, OffsetAndMetadata]]


@dataclass(slots=True, eq=False)
class Book:
    """Of one partition, for one assignment; the object itself stands for it."""

    tracker: Tracker | None
    """None: nothing was committed, and nothing has been delivered."""
    topic_id: UUID
    foreign_metadata: str = ""
    believed_epoch: int | None = None
    """The leader epoch up to which the map of the earlier life speaks of these records; None: there was none."""
    epochs: deque[tuple[int, int | None]] = field(default_factory=deque)
    """Positions behind what was delivered, and the leader epoch there."""


class Books:
    """Args:
    topic_id: The id that a topic has now.
    with_map: Whether commits say what is finished behind them.
    """

    def __init__(self, topic_id: Callable[[str], UUID], *, with_map: bool) -> None:
        self._topic_id = topic_id
        self._with_map = with_map
        self._books: dict[TopicPartition, Book] = {}

    def open(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Partitions were assigned, with what their group has committed."""
        topic_ids = {topic: self._topic_id(topic) for topic in {tp.topic for tp in committed}}
        for tp, at in committed.items():
            self._books[tp] = self._opened(at, topic_ids[tp.topic])

    def _opened(self, at: OffsetAndMetadata | None, topic_id: UUID) -> Book:
        if at is None:
            return Book(None, topic_id)
        if not is_offset_map(at.metadata):
            return Book(Tracker(at.offset), topic_id, foreign_metadata=at.metadata)
        found = decode(at.offset, at.metadata)
        if found is None or found.topic_id != topic_id:  # damaged, or of a topic that had the name before
            return Book(Tracker(at.offset), topic_id)
        return Book(Tracker(at.offset, found.finished), topic_id, believed_epoch=found.leader_epoch)

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are not ours any more."""
        for tp in partitions:
            self._books.pop(tp, None)

    def book(self, tp: TopicPartition) -> Book | None:
        return self._books.get(tp)

    def deliver(
        self, tp: TopicPartition, offsets: Sequence[int], epochs: Sequence[int], behind: OffsetAndMetadata
    ) -> Collection[int]:
        """Records have come; which of them are to be worked on.

        A position that has moved back says that the log was cut, or somebody sought: what was delivered from there on
        counts no more (`Tracker.truncate`).
        """
        book = self._books.get(tp) or self._books.setdefault(tp, Book(None, self._topic_id(tp.topic)))
        first = offsets[0] if offsets else behind.offset
        if book.tracker is None:
            book.tracker = Tracker(first)
        elif first < book.tracker.position:
            book.tracker.truncate(first)
        if book.believed_epoch is not None:
            newer = (offset for offset, epoch in zip(offsets, epochs, strict=True) if epoch > book.believed_epoch)
            if (cut := next(newer, None)) is not None:  # written anew since the map was made
                book.tracker.disbelieve(cut)
                book.believed_epoch = None
        book.epochs.append((behind.offset, behind.leader_epoch))
        return book.tracker.deliver(offsets, behind.offset)

    def offers(self, partitions: Iterable[TopicPartition] | None = None) -> Offers:
        """What is to be committed: of these partitions, or of all."""
        found: Offers = {}
        for tp in list(self._books) if partitions is None else partitions:
            book = self._books.get(tp)
            offer = None if book is None or book.tracker is None else book.tracker.offer()
            if book is not None and offer is not None:
                found[tp] = offer, self._commit_of(book, offer)
        return found

    def acknowledged(self, offers: Offers, books: Mapping[TopicPartition, Book]) -> None:
        """The broker has these; of partitions that were given up since they were offered, nobody need know."""
        for tp, (offer, _) in offers.items():
            book = self._books.get(tp)
            if book is not None and book is books.get(tp) and book.tracker is not None:
                book.tracker.acknowledged(offer)

    def books_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Book]:
        """Those that are open now."""
        return {tp: self._books[tp] for tp in partitions if tp in self._books}

    def _commit_of(self, book: Book, offer: Offer) -> OffsetAndMetadata:
        # The epoch at the next position we know of: it is that of the record in front of the base, or a later one, with
        # which the broker cannot take a sound position for one that was cut off (KIP-320).
        while len(book.epochs) > 1 and book.epochs[0][0] < offer.base:
            book.epochs.popleft()
        epoch = book.epochs[0][1] if book.epochs else None
        metadata = book.foreign_metadata
        if self._with_map and not metadata and offer.finished:
            newest = book.epochs[-1][1] if book.epochs else book.believed_epoch
            metadata = encode(offer.base, OffsetMap(book.topic_id, newest, offer.finished))
        return OffsetAndMetadata(offer.base, metadata, epoch)
