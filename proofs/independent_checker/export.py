"""A ledger, told as operations of Jepsen's workload for Kafka.

* A member is a process; its child cursor, which reads on its own, is another one.
* All records that one poll returned are one `poll`. When it was called is in no ledger: it begins where it ends.
* A rebalance, and a seek, is an `assign` of the keys that the process keeps: what it has read of others before is
  forgotten. A second `assign` names what comes anew. So the position is judged within an assignment, and not across.
* A record is a `send` that is `ok`; `info` if retention, compaction or its user took it before anybody read it, as
  nobody has to read it then; `fail` if it was aborted, which shows only where somebody has read it nevertheless.

Logs that were cut are not told: that workload takes an offset for one record's, for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kwire.model import TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Event,
    Hidden,
    Killed,
    Lost,
    Polled,
    Removed,
    Revoked,
    Sent,
    Sought,
    Truncated,
    Vanished,
)
from kwire.testing.invariants.user_events import GivenUp
from proofs.independent_checker.operations import Function, Kind, Operation, Poll, Send
from proofs.independent_checker.producers import FIRST_PRODUCER, Producers

CHILD = "child"


def can_be_told(events: Iterable[Event]) -> bool:
    """Whether no log was cut."""
    return not any(isinstance(event, Truncated) for event in events)


def operations_of(events: Sequence[Event]) -> Iterator[Operation]:
    """The operations of a ledger's events."""
    export = _Export(events)
    for at, event in enumerate(events):
        yield from export.tell(at, event)


class _Facts:
    """What the whole ledger knows, and its producers and readers did not yet."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.sent: dict[str, int] = {}
        self.first_polled: dict[str, int] = {}
        self.hidden: set[tuple[TopicPartition, int]] = set()
        self.nobody_has_to_read: set[str] = set()
        partitions: set[TopicPartition] = set()
        places: dict[tuple[TopicPartition, int], str] = {}
        for at, event in enumerate(events):
            match event:
                case Sent():
                    self.sent.setdefault(event.value, at)
                    places[event.partition, event.offset] = event.value
                    partitions.add(event.partition)
                case Polled():
                    partitions.add(event.partition)
                    for value in event.values:
                        self.first_polled.setdefault(value, at)
                case Hidden():
                    self.hidden.update((event.partition, offset) for offset in event.offsets)
                case GivenUp():
                    self.nobody_has_to_read.add(event.value)
                case _:
                    pass
        self._take(events, places)
        self.nobody_has_to_read -= self.first_polled.keys()
        self.keys = {partition: key for key, partition in enumerate(sorted(partitions))}

    def _take(self, events: Iterable[Event], places: dict[tuple[TopicPartition, int], str]) -> None:
        """Reconciled ledgers tell of records behind what befell them, so this comes when all are known."""
        for event in events:
            match event:
                case Removed():
                    gone = (at for at in places if at[0] == event.partition and at[1] < event.before)
                    self.nobody_has_to_read.update(map(places.__getitem__, gone))
                case Vanished():
                    found = ((event.partition, offset) for offset in event.offsets)
                    self.nobody_has_to_read.update(places[at] for at in found if at in places)
                case _:
                    pass


class _Export:
    """Where every process is."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._facts = _Facts(events)
        self._producers = Producers()
        self._processes: dict[tuple[str, bool], int] = {}
        self._owned: dict[str, set[int]] = {}
        self._reached: dict[tuple[int, int], int] = {}
        self._starts: dict[int, int] = {}
        self._told: set[int] = set()
        self._now_ms = 0.0

    def tell(self, at: int, event: Event) -> Iterator[Operation]:
        self._now_ms = max(self._now_ms, event.at_ms)
        match event:
            case Sent():
                yield from self._send(event)
            case Polled() if at not in self._told:
                yield from self._poll(at, event)
            case Assigned():
                keys = self._keys(event.partitions)
                yield from self._keep(event.member, self._owned.get(event.member, set()) - keys)
                yield from self._keep(event.member, self._owned.get(event.member, set()) | keys)
            case Revoked() | Lost():
                yield from self._keep(event.member, self._owned.get(event.member, set()) - self._keys(event.partitions))
            case Sought():
                yield from self._seek(event.member, self._process(event.member), self._keys((event.partition,)))
            case Removed() if event.partition in self._facts.keys:
                key = self._facts.keys[event.partition]
                self._starts[key] = max(self._starts.get(key, 0), event.before)
            case Killed():
                yield from self._done(self._process(event.member), "crash", None, end="info")
            case _:
                pass

    # --- producers ------------------------------------------------------------------------------------------

    def _send(self, event: Sent) -> Iterator[Operation]:
        key = self._facts.keys[event.partition]
        value = Send(key, event.value, event.offset, is_told=True)
        began = self._producers.under_way.pop(event.value, None)
        process = self._producers.free(key, event.offset) if began is None else began
        if began is None:
            yield self._operation(process, "invoke", "send", Send(key, event.value))
        if event.value in self._facts.nobody_has_to_read:
            yield self._operation(process, "info", "send", Send(key, event.value))
        else:
            yield self._operation(process, "ok", "send", value)
        self._producers.end(process, key, event.offset)

    def _begin_sends(self, at: int, event: Polled) -> Iterator[Operation]:
        """A producer may hear later than a consumer reads; of what was aborted it hears at once."""
        key = self._facts.keys[event.partition]
        for offset, value in zip(event.offsets, event.values, strict=True):
            if self._facts.first_polled[value] != at or value in self._producers.under_way:
                continue
            sent_at = self._facts.sent.get(value)
            if sent_at is not None and sent_at > at:
                process = self._producers.begin(value, key, offset)
                yield self._operation(process, "invoke", "send", Send(key, value))
            elif sent_at is None and (event.partition, offset) in self._facts.hidden:
                yield from self._done(FIRST_PRODUCER, "send", Send(key, value), end="fail")

    # --- consumers ------------------------------------------------------------------------------------------

    def _poll(self, at: int, first: Polled) -> Iterator[Operation]:
        together = self._together(at, first)
        process = self._process(first.member, is_child=first.cursor == CHILD)
        for index, event in together.items():
            yield from self._begin_sends(index, event)
        keys = {self._facts.keys[event.partition]: event for event in together.values()}
        jumps = {key for key, event in keys.items() if self._jumps(process, key, event)}
        if jumps:
            yield from self._seek(first.member, process, jumps)
        records = {key: tuple(zip(event.offsets, event.values, strict=True)) for key, event in keys.items()}
        for key, event in keys.items():
            self._reached[process, key] = event.offsets[-1] + 1
        yield self._operation(process, "invoke", "poll", Poll())
        yield self._operation(process, "ok", "poll", Poll(records))

    def _together(self, at: int, first: Polled) -> dict[int, Polled]:
        """Of one poll, as far as the ledger shows: one after the other, at one time, of different partitions."""
        found = {at: first}
        partitions = {first.partition}
        for index in range(at + 1, len(self._events)):
            event = self._events[index]
            if not isinstance(event, Polled) or event.partition in partitions or first.cursor == CHILD:
                break
            if (event.member, event.cursor, event.at_ms) != (first.member, first.cursor, first.at_ms):
                break
            found[index] = event
            partitions.add(event.partition)
        self._told.update(found)
        return found

    def _jumps(self, process: int, key: int, event: Polled) -> bool:
        """A child takes up one range after the other; retention moves whoever stood in front of the log's start."""
        reached = self._reached.get((process, key))
        if reached is None:
            return False
        return event.cursor == CHILD or reached < self._starts.get(key, 0) <= event.offsets[0]

    def _keep(self, member: str, keys: set[int]) -> Iterator[Operation]:
        self._owned[member] = keys
        for process in self._both(member):
            yield from self._done(process, "assign", tuple(sorted(keys)))

    def _seek(self, member: str, process: int, keys: set[int]) -> Iterator[Operation]:
        owned = self._owned.get(member, set())
        yield from self._done(process, "assign", tuple(sorted(owned - keys)))
        yield from self._done(process, "assign", tuple(sorted(owned | keys)))

    # --- both -----------------------------------------------------------------------------------------------

    def _both(self, member: str) -> Iterator[int]:
        yield self._process(member)
        if (member, True) in self._processes:
            yield self._processes[member, True]

    def _process(self, member: str, *, is_child: bool = False) -> int:
        return self._processes.setdefault((member, is_child), len(self._processes))

    def _keys(self, partitions: Iterable[TopicPartition]) -> set[int]:
        """Without those of which nothing was ever sent or read."""
        return {self._facts.keys[each] for each in partitions if each in self._facts.keys}

    def _done(
        self, process: int, function: Function, value: Send | tuple[int, ...] | None, *, end: Kind = "ok"
    ) -> Iterator[Operation]:
        kinds: tuple[Kind, ...] = ("invoke", end)
        return (self._operation(process, kind, function, value) for kind in kinds)

    def _operation(
        self, process: int, kind: Kind, function: Function, value: Send | Poll | tuple[int, ...] | None
    ) -> Operation:
        return Operation(process=process, kind=kind, function=function, value=value, at_ms=self._now_ms)
