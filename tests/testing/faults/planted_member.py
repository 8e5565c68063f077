"""A verifiable consumer with a fault planted in it: it drops, repeats, reorders, commits ahead, or sticks.

    planted_member.py FAULT ...    with Kafka's flags behind the fault

Started by tests that the harness finds each of them. It reads the topic that is named after its fault, out of those
it is given: so all of them can be in one group and one run, each has partitions that nobody else ever gets, and what
is said about a partition is said about one fault. `sound` has none.

No luck and no clock decides whether the fault happens, so it does in each run, on machines fast and slow:

* It is about offsets: from `STRIKES_FROM` on, records of partition 0 are held back until so many wait that there is
  something to drop, to repeat or to exchange. They do wait sooner or later: the traffic goes on for seconds, and what
  it has sent has to come out of a consumer that is sound below the fault.
* A member that holds records back goes on polling, so it heartbeats and stays in the group as long as that takes.
* What it does then is a function of the records alone, and so is what comes out of it and its commits.

It does not strike at once, because the harness first waits for a group that reads: it would wait in vain for a while.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from kwire.cli.output import Output
from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.consumer.sync import Consumer
from kwire.errors import KafkaError, WakeupError
from kwire.fetching.columns import Records
from kwire.model import OffsetAndMetadata, Partitions, Record, TopicPartition
from kwire.verifiable_consumer.arguments import parse
from kwire.verifiable_consumer.command import Shutdown
from kwire.verifiable_consumer.events import EventLog

STRUCK_PARTITION = 0
STRIKES_FROM = 60
ENOUGH = 4

Rows: TypeAlias = list[Record[bytes, bytes]]


class Handout(NamedTuple):
    """What the application is given by one poll, and the last record that its commit covers."""

    rows: Rows
    covers: Record[bytes, bytes]


def as_it_came(rows: Rows) -> list[Handout]:
    return [Handout(rows, rows[-1])]


def dropped(rows: Rows) -> list[Handout]:
    first, _dropped, *rest = rows
    return as_it_came([first, *rest])


def repeated(rows: Rows) -> list[Handout]:
    """The end of a poll comes again with the next one."""
    return [*as_it_came(rows), *as_it_came(rows[-1:])]


def reordered(rows: Rows) -> list[Handout]:
    first, second, third, *rest = rows
    return as_it_came([first, third, second, *rest])


def committed_ahead(rows: Rows) -> list[Handout]:
    """The commit covers what was fetched, and not what was handed out."""
    return [Handout(rows[:-1], rows[-1]), *as_it_came(rows[-1:])]


def stuck(rows: Rows) -> list[Handout]:
    """The last that is seen of the partition."""
    return as_it_came(rows[:1])


FAULTS: Mapping[str, Callable[[Rows], list[Handout]]] = {
    "sound": as_it_came,
    "drop": dropped,
    "repeat": repeated,
    "reorder": reordered,
    "commit-ahead": committed_ahead,
    "stick": stuck,
}


class PlantedMember(RebalanceListener):
    """Polls, has the fault done to what came, tells it, and commits it."""

    def __init__(self, fault: str, consumer: Consumer[bytes, bytes], events: EventLog) -> None:
        self._fault = fault
        self._consumer = consumer
        self._events = events
        self._held: Rows = []
        self._has_struck = False

    def run(self) -> None:
        self._events.startup_complete()
        try:
            self._consumer.subscribe([self._fault], listener=self)
            while True:
                for handout in self._handouts(self._consumer.poll(math.inf)):
                    self._tell(handout)
                    self._commit(handout)
        except WakeupError:
            pass
        finally:
            self._consumer.close()
            self._events.shutdown_complete()

    # --- the fault -------------------------------------------------------------------------------------------

    def _handouts(self, records: Records[bytes, bytes]) -> Iterator[Handout]:
        """Each partition's by themselves, as if a poll returned no more."""
        for partition in sorted(records.partitions()):
            rows = records[partition]
            if partition.partition == STRUCK_PARTITION and rows[-1].offset >= STRIKES_FROM:
                yield from self._struck(rows)
            else:
                yield from as_it_came(rows)

    def _struck(self, rows: Rows) -> list[Handout]:
        if self._has_struck:
            return [] if self._fault == "stick" else as_it_came(rows)
        self._held += rows
        if len(self._held) < ENOUGH:
            return []
        self._has_struck = True
        return FAULTS[self._fault](self._held)

    # --- what a verifiable consumer says and does --------------------------------------------------------------

    def _tell(self, handout: Handout) -> None:
        first, last = handout.rows[0], handout.rows[-1]
        count = len(handout.rows)
        summary: dict[str, str | int] = {"topic": first.topic, "partition": first.partition, "count": count}
        self._events.record_data(handout.rows)
        self._events.records_consumed(count, [summary | {"minOffset": first.offset, "maxOffset": last.offset}])

    def _commit(self, handout: Handout) -> None:
        offsets = {handout.covers.topic_partition: OffsetAndMetadata(handout.covers.offset + 1)}
        try:
            self._consumer.commit_sync(offsets)
        except WakeupError:
            raise
        except KafkaError as error:
            self._events.offsets_committed(offsets, error)
        else:
            self._events.offsets_committed(offsets)

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._events.partitions_assigned(partitions)

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Partitions) -> None:
        """What is held back comes again, if the partition does: it was not committed."""
        if TopicPartition(self._fault, STRUCK_PARTITION) in partitions:
            self._held = []
        self._events.partitions_revoked(partitions)


def main(fault: str, arguments: list[str]) -> None:
    options = parse(arguments)
    events = EventLog(Output.standard())
    consumer: Consumer[bytes, bytes] = Consumer(config=options.settings)
    with Shutdown(events, consumer.wakeup):
        PlantedMember(fault, consumer, events).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
