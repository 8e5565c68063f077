"""The loop of a consumer with `enable_parallel_rebalance`: its lines name the cursor of each record and commit. Java's
program has no such loop.

    {"timestamp":...,"name":"record_data",...,"offset":7,"cursor":"child"}
    {"timestamp":...,"name":"offsets_committed","offsets":[{...,"offset":8,"cursor":"child"}],"success":true}
    {"timestamp":...,"name":"low_water","offsets":[{"topic":"t","partition":0,"offset":8}]}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

from kwire.errors import FencedInstanceIdError, KafkaError, WakeupError
from kwire.fetching.columns import Records
from kwire.model import Cursor, OffsetAndMetadata, TopicPartition
from kwire.verifiable_consumer.consumer import GroupConsumer, VerifiableConsumer, summary
from kwire.verifiable_consumer.events import EventLog, Reached
from kwire.verifiable_consumer.orders import ProcessingOrders

LOOKS_EVERY = 4
"""The number of polls between two look-ups of the group's offset."""


class CatchingUpGroupConsumer(GroupConsumer, Protocol):
    """The part of `kwire.Consumer` that is needed here."""

    def commit_sync(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, /) -> None: ...

    def assignment(self) -> Collection[TopicPartition]: ...

    def committed(
        self, partitions: Collection[TopicPartition], /
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...


class CatchingUpConsumer(VerifiableConsumer):
    """Consumes a topic with two cursors. Without auto-commit, the records of each poll are committed at once: in turns
    first those of the child, first those of the main cursor, and both together.

    Args:
        consumer: a consumer with `enable_parallel_rebalance`; else as for `VerifiableConsumer`.
    """

    def __init__(
        self,
        consumer: CatchingUpGroupConsumer,
        events: EventLog,
        topic: str,
        *,
        auto_commit: bool = False,
        verbose: bool = False,
        orders: ProcessingOrders | None = None,
    ) -> None:
        super().__init__(consumer, events, topic, auto_commit=auto_commit, verbose=verbose, orders=orders)
        self._catching_up = consumer
        self._turns = 0

    def _turn(self) -> None:
        reached = self._tell_cursors(self._poll())
        if reached and not self._auto_commit:
            self._commit_in_turn(reached)
        if self._turns % LOOKS_EVERY == 0:
            self._tell_low_water()
        self._turns += 1

    def _tell_cursors(self, records: Records[bytes, bytes]) -> Reached:
        """Print the records of both cursors. Returns what to commit."""
        reached: Reached = {}
        summaries: list[dict[str, str | int]] = []
        for cursor in Cursor:
            read = records.of(cursor)
            for tp in dict.fromkeys(chunk.topic_partition for chunk in read.chunks() if len(chunk)):
                offsets = read.offsets(tp).tolist()
                if self._verbose:
                    self._events.record_data(read.records(tp), cursor)
                summaries.append(summary(tp, offsets) | {"cursor": cursor.value})
                reached[tp, cursor] = offsets[-1] + 1
        self._events.records_consumed(len(records), summaries)
        if self._orders is not None:
            self._orders.work(len(records))
        return reached

    def _commit_in_turn(self, reached: Reached) -> None:
        match self._turns % 3:
            case 0:
                self._commit_one_by_one(reached, (Cursor.CHILD, Cursor.MAIN))
            case 1:
                self._commit_one_by_one(reached, (Cursor.MAIN, Cursor.CHILD))
            case _:
                self._commit_told(reached, self._catching_up.commit_sync)

    def _commit_one_by_one(self, reached: Reached, cursors: Collection[Cursor]) -> None:
        for part in _by_cursor(reached, cursors):
            offsets = {tp: OffsetAndMetadata(offset) for (tp, _), offset in part.items()}
            self._commit_told(part, lambda offsets=offsets: self._catching_up.commit_sync(offsets))  # type: ignore[misc]

    def _commit_told(self, reached: Reached, commit: Callable[[], None]) -> None:
        try:
            commit()
        except WakeupError:
            self._commit_told(reached, commit)  # it is not woken twice
            raise
        except FencedInstanceIdError:
            raise
        except KafkaError as error:
            self._events.cursors_committed(reached, error)
        else:
            self._events.cursors_committed(reached)

    def _tell_low_water(self) -> None:
        try:
            found = self._catching_up.committed(self._catching_up.assignment())
        except (WakeupError, FencedInstanceIdError):
            raise
        except KafkaError as error:
            self._events.poll_failed(error)
        else:
            self._events.low_water({tp: position.offset for tp, position in found.items() if position is not None})


def _by_cursor(reached: Reached, cursors: Collection[Cursor]) -> Iterator[Reached]:
    for cursor in cursors:
        part = {of: offset for of, offset in reached.items() if of[1] is cursor}
        if part:
            yield part
