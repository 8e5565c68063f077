"""Ways to break a good history in one place, and how each place is drawn. Both judges have to see each.

A change is a function: it takes `Records` of a history and a source of chance, and answers the events of the broken
one, or None where the history has no place for it. Register it in `CHANGES`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import Assigned, Ended, Event, Hidden, Polled, Removed, Revoked, Sent, Sought

UNKNOWN = "nobody-has-sent-this"


@dataclass(frozen=True, slots=True)
class Place:
    """A record in a poll: the poll's index among the events, and the record's in the poll."""

    event: int
    index: int


class Records:
    """The records that were polled in a history, and their places."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)
        self.polls = {at: event for at, event in enumerate(events) if isinstance(event, Polled)}
        self.sent = {event.value: event for event in events if isinstance(event, Sent)}
        self.times = Counter(value for event in self.polls.values() for value in event.values)
        self.last: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.hidden: dict[TopicPartition, set[int]] = {}
        for event in events:
            match event:
                case Polled():
                    self.last[event.partition] = max(self.last.get(event.partition, -1), *event.offsets)
                case Removed():
                    self.starts[event.partition] = max(self.starts.get(event.partition, 0), event.before)
                case Hidden():
                    self.hidden.setdefault(event.partition, set()).update(event.offsets)
                case _:
                    pass

    def places(self, wanted: Callable[[Polled, int], bool]) -> list[Place]:
        """Of records that stay in the log, in polls of members with one cursor."""
        return [
            Place(at, index)
            for at, event in self.polls.items()
            for index, offset in enumerate(event.offsets)
            if event.cursor != "child" and offset >= self.starts.get(event.partition, 0) and wanted(event, index)
        ]

    def is_once(self, event: Polled, index: int) -> bool:
        return self.times[event.values[index]] == 1

    def is_last(self, event: Polled, index: int) -> bool:
        return event.offsets[index] == self.last[event.partition]

    def next_of(self, at: int) -> int | None:
        """The member's next poll of that partition, if it is one of the same assignment."""
        first = self.polls[at]
        for index in range(at + 1, len(self.events)):
            match self.events[index]:
                case Polled(member=first.member, partition=first.partition, cursor=first.cursor):
                    return index
                case Assigned(member=first.member) | Revoked(member=first.member) | Sought(member=first.member):
                    return None
                case _:
                    pass
        return None

    # --- the broken history ---------------------------------------------------------------------------------

    def with_poll(self, at: int, *polls: Polled) -> list[Event]:
        """With these in place of one poll; empty ones are none."""
        return [*self.events[:at], *(each for each in polls if each.offsets), *self.events[at + 1 :]]

    def with_rows(self, at: int, rows: Sequence[tuple[int, str]]) -> list[Event]:
        return self.with_poll(at, _of_rows(self.polls[at], rows))

    def with_sent(self, sent: Sent) -> list[Event]:
        """With a record more, acknowledged at the end of the run."""
        end = next((at for at, event in enumerate(self.events) if isinstance(event, Ended)), len(self.events))
        return [*self.events[:end], sent, *self.events[end:]]


Change = Callable[[Records, random.Random], "list[Event] | None"]


def _rows(event: Polled) -> list[tuple[int, str]]:
    return list(zip(event.offsets, event.values, strict=True))


def _of_rows(event: Polled, rows: Sequence[tuple[int, str]]) -> Polled:
    return replace(event, offsets=tuple(row[0] for row in rows), values=tuple(row[1] for row in rows))


def dropped(records: Records, rng: random.Random) -> list[Event] | None:
    """Nobody is given a record, and later ones are seen."""
    places = records.places(lambda event, index: records.is_once(event, index) and not records.is_last(event, index))
    if not places:
        return None
    place = rng.choice(places)
    rows = _rows(records.polls[place.event])
    return records.with_rows(place.event, rows[: place.index] + rows[place.index + 1 :])


def poll_dropped(records: Records, rng: random.Random) -> list[Event] | None:
    """Nobody is given what one poll returned, and later records are seen."""
    places = records.places(
        lambda event, index: (
            index == 0
            and all(records.is_once(event, each) for each in range(len(event.offsets)))
            and not records.is_last(event, len(event.offsets) - 1)
        )
    )
    return records.with_poll(rng.choice(places).event) if places else None


def end_dropped(records: Records, rng: random.Random) -> list[Event] | None:
    """Nobody is given the last record of a partition."""
    places = records.places(lambda event, index: records.is_once(event, index) and records.is_last(event, index))
    if not places:
        return None
    place = rng.choice(places)
    return records.with_rows(place.event, _rows(records.polls[place.event])[: place.index])


def skipped(records: Records, rng: random.Random) -> list[Event] | None:
    """One member is not given a record between two others, which somebody else is given."""
    places = records.places(
        lambda event, index: 0 < index < len(event.offsets) - 1 and not records.is_once(event, index)
    )
    if not places:
        return None
    place = rng.choice(places)
    rows = _rows(records.polls[place.event])
    return records.with_rows(place.event, rows[: place.index] + rows[place.index + 1 :])


def twice_in_a_poll(records: Records, rng: random.Random) -> list[Event] | None:
    """One poll returns a record twice."""
    places = records.places(lambda _event, _index: True)
    if not places:
        return None
    place = rng.choice(places)
    rows = _rows(records.polls[place.event])
    return records.with_rows(place.event, rows[: place.index + 1] + rows[place.index :])


def poll_twice(records: Records, rng: random.Random) -> list[Event] | None:
    """A poll returns what the one before has returned."""
    places = records.places(lambda _event, index: index == 0)
    if not places:
        return None
    event = rng.choice(places).event
    return records.with_poll(event, records.polls[event], records.polls[event])


def swapped(records: Records, rng: random.Random) -> list[Event] | None:
    """Two records that follow one another come in the wrong order."""
    places = records.places(lambda _event, index: index > 0)
    if not places:
        return None
    place = rng.choice(places)
    rows = _rows(records.polls[place.event])
    rows[place.index - 1], rows[place.index] = rows[place.index], rows[place.index - 1]
    return records.with_rows(place.event, rows)


def polls_swapped(records: Records, rng: random.Random) -> list[Event] | None:
    """Two polls that follow one another come in the wrong order."""
    places = records.places(lambda _event, index: index == 0)
    following = [(place.event, after) for place in places if (after := records.next_of(place.event)) is not None]
    if not following:
        return None
    first, second = rng.choice(following)
    events = list(records.events)
    events[first] = _of_rows(records.polls[first], _rows(records.polls[second]))
    events[second] = _of_rows(records.polls[second], _rows(records.polls[first]))
    return events


def goes_back(records: Records, rng: random.Random) -> list[Event] | None:
    """A member is given the first record of its poll before once more, in front of what follows."""
    places = records.places(lambda _event, index: index == 0)
    following = [(place.event, after) for place in places if (after := records.next_of(place.event)) is not None]
    if not following:
        return None
    first, second = rng.choice(following)
    return records.with_rows(second, [_rows(records.polls[first])[0], *_rows(records.polls[second])])


def another_value(records: Records, rng: random.Random) -> list[Event] | None:
    """An offset has the value of another record of its partition."""
    places = records.places(lambda event, _index: len(event.offsets) > 1)
    if not places:
        return None
    place = rng.choice(places)
    rows = _rows(records.polls[place.event])
    other = rng.choice([index for index in range(len(rows)) if index != place.index])
    rows[place.index] = rows[place.index][0], rows[other][1]
    return records.with_rows(place.event, rows)


def unknown_value(records: Records, rng: random.Random) -> list[Event] | None:
    """A record's value was damaged."""
    places = records.places(lambda _event, _index: True)
    if not places:
        return None
    place = rng.choice(places)
    rows = _rows(records.polls[place.event])
    rows[place.index] = rows[place.index][0], UNKNOWN
    return records.with_rows(place.event, rows)


def another_partition(records: Records, rng: random.Random) -> list[Event] | None:
    """A record comes out of another partition."""
    places = records.places(lambda _event, _index: True)
    if len({records.polls[place.event].partition for place in places}) < 2:
        return None
    place = rng.choice(places)
    event = records.polls[place.event]
    others = [each for each in places if records.polls[each.event].partition != event.partition]
    other = rng.choice(others)
    rows = _rows(event)
    rows[place.index] = rows[place.index][0], records.polls[other.event].values[other.index]
    return records.with_rows(place.event, rows)


def aborted(records: Records, rng: random.Random) -> list[Event] | None:
    """A poll returns a record of a transaction that was aborted: its offset is one that no poll returns."""
    places = [
        place
        for place in records.places(lambda event, index: index + 1 < len(event.offsets))
        if _hole_behind(records, place) is not None
    ]
    if not places:
        return None
    place = rng.choice(places)
    hole = _hole_behind(records, place)
    assert hole is not None
    rows = _rows(records.polls[place.event])
    return records.with_rows(place.event, [*rows[: place.index + 1], (hole, UNKNOWN), *rows[place.index + 1 :]])


def moved(records: Records, rng: random.Random) -> list[Event] | None:
    """A record is told to be at another offset, one that no record has."""
    places = [
        place
        for place in records.places(lambda event, index: index + 1 < len(event.offsets))
        if _hole_behind(records, place) is not None
    ]
    if not places:
        return None
    place = rng.choice(places)
    hole = _hole_behind(records, place)
    assert hole is not None
    rows = _rows(records.polls[place.event])
    rows[place.index] = hole, rows[place.index][1]
    return records.with_rows(place.event, rows)


def _hole_behind(records: Records, place: Place) -> int | None:
    event = records.polls[place.event]
    between = range(event.offsets[place.index] + 1, event.offsets[place.index + 1])
    return next((offset for offset in between if offset in records.hidden.get(event.partition, ())), None)


def nowhere(records: Records, rng: random.Random) -> list[Event] | None:
    """A write was acknowledged, behind all others, and is nowhere."""
    if not records.last:
        return None
    partition = rng.choice(sorted(records.last))
    return records.with_sent(_sent(records, partition, 1 + max(_offsets(records, partition))))


def nowhere_between(records: Records, rng: random.Random) -> list[Event] | None:
    """A write was acknowledged, in front of records that are seen, and is nowhere."""
    places = [
        (partition, offset)
        for partition, offsets in sorted(records.hidden.items())
        for offset in sorted(offsets)
        if records.starts.get(partition, 0) <= offset < records.last.get(partition, -1)
    ]
    return records.with_sent(_sent(records, *rng.choice(places))) if places else None


def _sent(records: Records, partition: TopicPartition, offset: int) -> Sent:
    at_ms = next((event.at_ms for event in records.events if isinstance(event, Ended)), records.events[-1].at_ms)
    return Sent(at_ms=at_ms, partition=partition, offset=offset, value=UNKNOWN)


def _offsets(records: Records, partition: TopicPartition) -> set[int]:
    sent = {event.offset for event in records.sent.values() if event.partition == partition}
    return sent | records.hidden.get(partition, set()) | {records.last[partition]}


CHANGES: dict[str, Change] = {
    "dropped": dropped,
    "poll-dropped": poll_dropped,
    "end-dropped": end_dropped,
    "skipped": skipped,
    "twice-in-a-poll": twice_in_a_poll,
    "poll-twice": poll_twice,
    "swapped": swapped,
    "polls-swapped": polls_swapped,
    "goes-back": goes_back,
    "another-value": another_value,
    "unknown-value": unknown_value,
    "another-partition": another_partition,
    "aborted": aborted,
    "moved": moved,
    "nowhere": nowhere,
    "nowhere-between": nowhere_between,
}
