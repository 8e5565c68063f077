"""The loop: poll, print, commit, until there are enough records or a wakeup; then close."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.errors import FencedInstanceIdError, KafkaError, WakeupError
from kwire.fetching.columns import Records
from kwire.model import OffsetAndMetadata, Partitions, TopicPartition
from kwire.verifiable_consumer.events import EventLog
from kwire.verifiable_consumer.orders import ProcessingOrders

log = logging.getLogger(__name__)


class GroupConsumer(Protocol):
    """The part of `kwire.Consumer` that is needed here."""

    def subscribe(self, topics: Collection[str], /, *, listener: RebalanceListener) -> None: ...

    def poll(self, timeout: float, /) -> Records[bytes, bytes]: ...

    def commit_sync(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], /) -> None: ...

    def wakeup(self) -> None: ...

    def close(self) -> None: ...


class TellingListener(RebalanceListener):
    """A listener that prints rebalances. Lost partitions are printed as revoked ones, unless `tells_losses`, as by
    Java's program, which does not override `onPartitionsLost`."""

    def __init__(self, events: EventLog, *, tells_losses: bool) -> None:
        self._events = events
        self._tells_losses = tells_losses

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._events.partitions_assigned(partitions)

    def on_partitions_revoked(self, _consumer: RebalanceConsumer, partitions: Partitions) -> None:
        self._events.partitions_revoked(partitions)

    def on_partitions_lost(self, consumer: RebalanceConsumer, partitions: Partitions) -> None:
        if self._tells_losses:
            self._events.partitions_lost(partitions)
        else:
            self.on_partitions_revoked(consumer, partitions)


class VerifiableConsumer:
    """Consumes a topic and prints events.

    Args:
        consumer: a consumer without deserializers, with auto-commit or without.
        topic: the topic, or several, separated by commas.
        max_messages: the number of records to print; negative for no limit.
        auto_commit: whether the consumer auto-commits. Otherwise the records of each poll are committed at once.
        verbose: whether to print each record.
        orders: orders for a member of a test, which prints more events, and goes on after errors that are not fatal.
    """

    def __init__(
        self,
        consumer: GroupConsumer,
        events: EventLog,
        topic: str,
        *,
        max_messages: int = -1,
        auto_commit: bool = False,
        verbose: bool = False,
        orders: ProcessingOrders | None = None,
    ) -> None:
        self._consumer = consumer
        self._events = events
        self._topics = topic.split(",")
        self._left = max_messages if max_messages >= 0 else None
        self._auto_commit = auto_commit
        self._verbose = verbose
        self._orders = orders

    def stop(self) -> None:
        """End after the current poll. May be called by a signal handler."""
        if self._orders is not None:
            self._orders.release()
        self._consumer.wakeup()

    def run(self) -> None:
        """Run the loop. Returns after enough records, after a wakeup, or after an error, which is logged."""
        try:
            self._events.startup_complete()
            self._subscribe()
            while self._left != 0:
                self._turn()
        except WakeupError:
            log.debug("woken up to close")
        except Exception:
            log.exception("error during processing, closing")
        finally:
            if self._orders is not None:
                self._events.closing()
            self._consumer.close()
            self._events.shutdown_complete()

    def _turn(self) -> None:
        offsets = self._tell_records(self._poll())
        if not self._auto_commit:
            self._commit(offsets)

    def _subscribe(self) -> None:
        listener = TellingListener(self._events, tells_losses=self._orders is not None)
        self._consumer.subscribe(self._topics, listener=listener)

    def _poll(self) -> Records[bytes, bytes]:
        while True:
            try:
                return self._consumer.poll(math.inf)
            except KafkaError as error:
                if self._orders is None or error.fatal or isinstance(error, WakeupError):
                    raise
                self._events.poll_failed(error)
                self._orders.pause()

    def _tell_records(self, records: Records[bytes, bytes]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Print records. Returns what to commit. Only `count` covers all polled records, as in Java; the rest ends at
        the limit."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        summaries: list[dict[str, str | int]] = []
        for tp in dict.fromkeys(chunk.topic_partition for chunk in records.chunks() if len(chunk)):
            found = records.offsets(tp)[: self._left].tolist()
            if not found:
                break
            if self._verbose:
                self._events.record_data(records.records(tp)[: len(found)])
            summaries.append(summary(tp, found))
            offsets[tp] = OffsetAndMetadata(found[-1] + 1)
            if self._left is not None:
                self._left -= len(found)
        self._events.records_consumed(len(records), summaries)
        if self._orders is not None:
            self._orders.work(len(records))
        return offsets

    def _commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            self._consumer.commit_sync(offsets)
        except WakeupError:
            self._commit(offsets)  # it is not woken twice
            raise
        except FencedInstanceIdError:
            raise
        except KafkaError as error:
            self._events.offsets_committed(offsets, error)
        else:
            self._events.offsets_committed(offsets)


def summary(tp: TopicPartition, offsets: Sequence[int]) -> dict[str, str | int]:
    """The summary of one poll and partition."""
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "count": len(offsets),
        "minOffset": offsets[0],
        "maxOffset": offsets[-1],
    }
