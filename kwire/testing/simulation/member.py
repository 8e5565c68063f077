"""A member of the group in a world: an application that polls, processes and commits, and writes events to the ledger.

Its code is what a user would write, and runs as blocking code in its process (`host.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping

from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.consumer.sync import Consumer
from kwire.errors import KafkaError, RecordDeserializationError
from kwire.fetching.columns import Records
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.testing.invariants.ledger import (
    Assigned,
    Closed,
    Committed,
    Event,
    Lost,
    Polled,
    Processed,
    Raised,
    Revoked,
    Started,
)
from kwire.testing.simulation.blocking import sleep
from kwire.testing.simulation.delays import Delays
from kwire.testing.simulation.host import Process
from kwire.testing.simulation.random_actions import RandomActions
from kwire.testing.simulation.scenario import (
    GROUP,
    HEARTBEAT_INTERVAL_MS,
    REQUEST_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Scenario,
)
from kwire.testing.simulation.stepping_over import SteppingOver
from kwire.testing.simulation.user_code import Interrupt, UserCode, UserError
from kwire.testing.simulation.user_faults import HARMLESS

CLOSE_TIMEOUT_MS = 5_000.0
COMMIT_TIMEOUT_SECONDS = 5.0
HURRIED_MS = 1.0
# Records end a poll at once: in calm, shorter ones would only cost time.
HURRIED_POLL_SECONDS = 0.5


class SimulatedMember(RebalanceListener):
    """A simulated application: a consumer, its poll loop and its listener.

    Args:
        bootstrap: the bootstrap servers.
        write: takes events for the ledger.
        now_ms: since the run began.
    """

    def __init__(
        self,
        scenario: Scenario,
        process: Process,
        write: Callable[[Event], None],
        bootstrap: str,
        now_ms: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self.name = process.name
        self.seed = scenario.seed
        self.process = process
        self.is_leaving = False
        self.is_hurried = False
        """Whether to process fast, whatever the scenario says, since the run is to be drained."""
        self._scenario = scenario
        self._to_ledger = write
        self._bootstrap = bootstrap
        self._now_ms = now_ms
        self._rng = rng
        self._delivered: dict[TopicPartition, int] = {}
        self._through: dict[TopicPartition, OffsetAndMetadata] = {}
        self._random_actions = RandomActions(
            self.name, scenario.habits, self._write, now_ms, self._raised, self._forget, rng
        )
        self._delays = Delays(scenario.habits.delays, now_ms, random.Random(f"delays {self.name} {scenario.seed}"))
        self._consumer: Consumer[bytes, bytes] | None = None
        self._half_told: frozenset[TopicPartition] = frozenset()
        self._faults = scenario.user_faults or HARMLESS
        self._user = UserCode(
            scenario.user_faults,
            self.name,
            self._write,
            now_ms,
            lambda: self.is_hurried,
            self._on_unreadable,
            random.Random(f"user code {self.name} {scenario.seed}"),
        )
        self._stepping = SteppingOver(
            self.name, self._faults.polls_again, self._write, now_ms, self._raised, self._forget, rng
        )

    @property
    def is_alive(self) -> bool:
        return not (self.process.is_killed or self.process.has_ended or self.is_leaving)

    def leave(self) -> None:
        """Close the consumer after the current poll."""
        self.is_leaving = True

    def live(self) -> None:
        """From the first poll to the close."""
        self._write(self._started())
        consumer = self._consumer = self._new_consumer(self._settings())
        try:
            consumer.subscribe(self._scenario.topic_names, listener=self)
            self._work(consumer)
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            self._raised("application", error)
        self._close(consumer)

    def _started(self) -> Started:
        return Started(
            at_ms=self._now_ms(),
            member=self.name,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            knows_session=False,  # the classic member does know, but as Java's it goes on until it hears
            tells_processing=True,
            commits_on_revoke=self._scenario.committing != "async",
            commits_by_itself=self._scenario.committing == "auto",
        )

    def _work(self, consumer: Consumer[bytes, bytes]) -> None:
        self.process.on_waited = self._user.waited
        while not self.is_leaving:
            self._poll_once(consumer)

    def abandon(self) -> None:
        """Note that the process was killed: none of its finalizers may run."""
        if self._consumer is not None:
            self._consumer._session.unclosed.detach()

    def _new_consumer(self, settings: dict[str, object]) -> Consumer[bytes, bytes]:
        return Consumer(config=settings)

    def _settings(self) -> dict[str, object]:
        scenario = self._scenario
        settings: dict[str, object] = {
            "bootstrap_servers": self._bootstrap,
            "group_id": GROUP,
            "client_id": self.name,
            "auto_offset_reset": scenario.habits.auto_offset_reset,
            "group_protocol": scenario.protocol,
            "enable_auto_commit": scenario.committing == "auto",
            "auto_commit_interval_ms": 1_000,
            "max_poll_records": scenario.max_poll_records,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "default_api_timeout_ms": 15_000,
            "metadata_max_age_ms": scenario.habits.metadata_max_age_ms,
            "isolation_level": scenario.habits.isolation_level,
            "fetch_buffer_bytes": scenario.habits.fetch_buffer_bytes,
            "max_partition_fetch_bytes": scenario.habits.max_partition_fetch_bytes,
            "enable_async_revocation": self._delays.share > 0.0,
            "socket_connection_setup_timeout_ms": 2_000,
            "socket_connection_setup_timeout_max_ms": 5_000,
        }
        if scenario.protocol == "classic":
            settings |= {
                "session_timeout_ms": SESSION_TIMEOUT_MS,
                "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
                "max_poll_interval_ms": 15_000,
                "partition_assignment_strategy": list(scenario.assignors),
            }
        return settings | self._user.settings() | dict(self.process.settings)

    # --- polling --------------------------------------------------------------------------------------------

    def _poll_once(self, consumer: Consumer[bytes, bytes]) -> None:
        try:
            with self._user.interruptible():
                records = consumer.poll(self._poll_seconds())
        except RecordDeserializationError as error:
            self._raised("poll", error)
            self._stepping.step(consumer, error, is_hurried=self.is_hurried)
            return
        except (KafkaError, UserError, Interrupt) as error:
            self._raised("poll", error)
            sleep(0.1)
            return
        self._note(records)
        self._delays.after_poll(consumer, records, is_hurried=self.is_hurried)
        if records:
            # Who is hurried needs some time for each record, too: else nothing would ever pile up in its buffer.
            most_ms = len(records) * HURRIED_MS if self.is_hurried else self._scenario.processing_ms
            sleep(self._rng.uniform(0.0, most_ms) / 1000.0)
            self._write(Processed(at_ms=self._now_ms(), member=self.name))
            self._through |= records.next_offsets()
        if self._scenario.committing != "auto" and self._rng.random() < 0.3:
            self._commit(consumer)
        if self.is_hurried:
            self._random_actions.calm_down(consumer)
        else:
            self._random_actions.after_poll(consumer)

    def _poll_seconds(self) -> float:
        wanted = self._scenario.poll_seconds
        return max(wanted, HURRIED_POLL_SECONDS) if self.is_hurried else wanted

    def _note(self, records: Records[bytes, bytes]) -> None:
        rows: dict[TopicPartition, tuple[list[int], list[str]]] = {}
        for record in records:
            offsets, values = rows.setdefault(record.topic_partition, ([], []))
            offsets.append(record.offset)
            values.append((record.value or b"").decode("ascii", "backslashreplace"))
        for partition, (offsets, values) in rows.items():
            self._delivered[partition] = offsets[-1] + 1
            self._random_actions.reach(partition, offsets[-1] + 1)
            self._write(
                Polled(
                    at_ms=self._now_ms(),
                    member=self.name,
                    partition=partition,
                    offsets=tuple(offsets),
                    values=tuple(values),
                )
            )

    # --- records that cannot be read ------------------------------------------------------------------------

    def _on_unreadable(self, value: str) -> None:
        """A deserializer raises for this one: the poll will say so."""

    # --- committing -----------------------------------------------------------------------------------------

    def _commit(self, consumer: Consumer[bytes, bytes] | RebalanceConsumer) -> None:
        if self._scenario.committing == "async":
            consumer.commit_async(callback=self._on_committed)
        else:
            self._commit_sync(consumer)

    def _commit_sync(self, consumer: Consumer[bytes, bytes] | RebalanceConsumer) -> None:
        delivered = dict(self._delivered)
        try:
            consumer.commit_sync(timeout=COMMIT_TIMEOUT_SECONDS)
        except (KafkaError, UserError) as error:
            self._raised("commit_sync", error)
            return
        self._write_committed(delivered)

    def _on_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        self._user.begin_callback("commit callback")
        if error is not None:
            self._raised("commit_async", error)
        else:
            self._write_committed({partition: committed.offset for partition, committed in offsets.items()})
        self._user.end_commit_callback()

    def _write_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in sorted(offsets.items()):
            self._write(Committed(at_ms=self._now_ms(), member=self.name, partition=partition, offset=offset))

    # --- rebalances -----------------------------------------------------------------------------------------

    def on_partitions_assigned(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._half_told = frozenset(partitions)
        self._user.begin_callback("on_partitions_assigned")
        self._user.end_listener("on_partitions_assigned")
        self._half_told = frozenset()
        with self._user.interruptible(is_so=False):
            self._write(Assigned(at_ms=self._now_ms(), member=self.name, partitions=tuple(sorted(partitions))))
            if not self.is_hurried:
                self._random_actions.on_assigned(consumer, partitions)
            if self._user.commits_in_listener():
                self._commit_sync(consumer)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._user.begin_callback("on_partitions_revoked")
        with self._user.interruptible(is_so=False):
            if self._scenario.committing == "sync" or self._user.commits_in_listener():
                self._commit_sync(consumer)
            self._give_up(partitions)
            self._write(Revoked(at_ms=self._now_ms(), member=self.name, partitions=self._known(partitions)))
        self._user.end_listener("on_partitions_revoked")

    def on_partitions_lost(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._user.begin_callback("on_partitions_lost")
        self._give_up(partitions)
        self._write(Lost(at_ms=self._now_ms(), member=self.name, partitions=self._known(partitions)))
        self._user.end_listener("on_partitions_lost")

    def _known(self, partitions: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Without those whose assigned callback was interrupted at its beginning, or raised, and not called again."""
        return tuple(sorted(set(partitions) - self._half_told))

    def _give_up(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._forget(partition)
        self._random_actions.give_up(partitions)
        self._delays.give_up(partitions)

    def _forget(self, partition: TopicPartition) -> None:
        """What it has been handed is not what is committed next."""
        self._delivered.pop(partition, None)
        self._through.pop(partition, None)

    # --- the end --------------------------------------------------------------------------------------------

    def _close(self, consumer: Consumer[bytes, bytes]) -> None:
        before_ms = self._now_ms()
        try:
            consumer.close(CLOSE_TIMEOUT_MS / 1000.0)
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            self._raised("close", error)
        took_ms = self._now_ms() - before_ms
        self._write(Closed(at_ms=self._now_ms(), member=self.name, took_ms=took_ms, timeout_ms=CLOSE_TIMEOUT_MS))

    def _raised(self, call: str, error: BaseException) -> None:
        name = type(error).__name__
        self._write(Raised(at_ms=self._now_ms(), member=self.name, call=call, error=name, message=str(error)))

    def _write(self, event: Event) -> None:
        if not self.process.is_killed:
            self._to_ledger(event)
