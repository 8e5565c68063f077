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
    with_map: Whether commits say what is finished behind them.
    """

    def __init__(self, *, with_map: bool) -> None:
        self._with_map = with_map
        self._books: dict[TopicPartition, Book] = {}

    def open(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None], topic_ids: Mapping[str, UUID]) -> None:
        """Partitions were assigned, with what their group has committed, and which topics they are of."""
        for tp, at in committed.items():
            self._books[tp] = _opened(at, topic_ids[tp.topic])

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are not ours any more."""
        for tp in partitions:
            self._books.pop(tp, None)

    def book(self, tp: TopicPartition) -> Book | None:
        return self._books.get(tp)

    def deliver(
        self, tp: TopicPartition, offsets: Sequence[int], epochs: Callable[[], Sequence[int]], behind: OffsetAndMetadata
    ) -> Collection[int]:
        """Records of a partition that is open have come; which of them are to be worked on. Their leader epochs are
        asked for when they matter.

        A position that has moved back says that the log was cut, or somebody sought: what was delivered from there on
        counts no more (`Tracker.truncate`).
        """
        book = self._books[tp]
        first = offsets[0] if offsets else behind.offset
        if book.tracker is None:
            book.tracker = Tracker(first)
        elif first < book.tracker.position:
            book.tracker.truncate(first)
            _cut_epochs(book, first)
        if book.believed_epoch is not None:
            newer = (offset for offset, epoch in zip(offsets, epochs(), strict=True) if epoch > book.believed_epoch)
            if (cut := next(newer, None)) is not None:  # written anew since the map was made
                book.tracker.disbelieve(cut)
                book.believed_epoch = None
        _note_epoch(book, behind)
        return book.tracker.deliver(offsets, behind.offset)

    def offers(self, partitions: Iterable[TopicPartition] | None = None) -> Offers:
        """What is to be committed: of these partitions, or of all."""
        found: Offers = {}
        for tp in list(self._books) if partitions is None else sorted(partitions):
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

    def begins_at(self, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Where whoever goes on with the partition begins; None where that is not ours to say. With its epoch, so that
        a log that is cut meanwhile is noticed."""
        book = self._books.get(tp)
        if book is None or book.tracker is None:
            return None
        base = book.tracker.next_to_do  # in front of that, a map has been merged into the commit
        return OffsetAndMetadata(base, leader_epoch=_epoch_at(book, base))

    def _commit_of(self, book: Book, offer: Offer) -> OffsetAndMetadata:
        epoch = _epoch_at(book, offer.base)
        metadata = book.foreign_metadata
        if self._with_map and not metadata and offer.finished:
            metadata = encode(offer.base, OffsetMap(book.topic_id, _newest_epoch(book), offer.finished))
        return OffsetAndMetadata(offer.base, metadata, epoch)


def _opened(at: OffsetAndMetadata | None, topic_id: UUID) -> Book:
    """A map is believed if it is not damaged, nor of a topic that had the name before."""
    if at is None:
        return Book(None, topic_id)
    book = Book(Tracker(at.offset), topic_id, epochs=deque([(at.offset, at.leader_epoch)]))
    if not is_offset_map(at.metadata):
        book.foreign_metadata = at.metadata
        return book
    found = decode(at.offset, at.metadata)
    if found is not None and found.topic_id == topic_id:
        book.tracker = Tracker(at.offset, found.finished)
        book.believed_epoch = found.leader_epoch
    return book


def _note_epoch(book: Book, behind: OffsetAndMetadata) -> None:
    """Of positions that follow each other with the same epoch, the first and the last will do: while one record takes
    its time there may be millions."""
    if len(book.epochs) > 1 and book.epochs[-1][1] == book.epochs[-2][1] == behind.leader_epoch:
        book.epochs.pop()
    book.epochs.append((behind.offset, behind.leader_epoch))


def _cut_epochs(book: Book, position: int) -> None:
    """The log was cut there. Between two positions with the same epoch there is no other."""
    cut: set[int | None] = set()
    while book.epochs and book.epochs[-1][0] > position:
        cut = {book.epochs.pop()[1]}
    if book.epochs and book.epochs[-1][1] in cut:
        book.epochs.append((position, book.epochs[-1][1]))


def _newest_epoch(book: Book) -> int | None:
    """Up to which epoch a map of this life may be believed: what it takes over from an earlier one may be of records
    that have not come again, and are newer than all that have."""
    seen = book.epochs[-1][1] if book.epochs else None
    return max((epoch for epoch in (seen, book.believed_epoch) if epoch is not None), default=None)


def _epoch_at(book: Book, base: int) -> int | None:
    """The epoch at the next position we know of: it is that of the record in front of the base, or a later one, with
    which the broker cannot take a sound position for one that was cut off (KIP-320). Behind all of them there is only
    what an earlier life had finished."""
    while book.epochs and book.epochs[0][0] < base:
        book.epochs.popleft()
    return book.epochs[0][1] if book.epochs else book.believed_epoch
