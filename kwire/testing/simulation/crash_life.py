"""One consumer of a world of crash orders: it polls, processes slowly, commits, and is ended where its plan says.

A record counts as processed a little later than the poll returns it: a member that is killed in between has not
processed it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from kwire.consumer.listener import RebalanceConsumer, RebalanceListener
from kwire.consumer.sync import Consumer
from kwire.errors import KafkaError
from kwire.model import Cursor, OffsetAndMetadata, Record, TopicPartition
from kwire.testing.simulation.crash_plan import GROUP, Life, Plan

if TYPE_CHECKING:
    from kwire.fetching.columns import Records
    from kwire.testing.simulation.crash_judge import CrashJudge
    from kwire.testing.simulation.host import Process
    from kwire.testing.simulation.script import Script

BytesRecord: TypeAlias = Record[bytes, bytes]

TOPIC = "lagging"
POLL_SECONDS = 0.2
WORK_MS = 20.0
CLOSE_SECONDS = 5.0


class LifeSurroundings(Protocol):
    """The part of the world that a life uses."""

    @property
    def script(self) -> Script: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def judge(self) -> CrashJudge: ...
    @property
    def rng(self) -> random.Random: ...

    def note(self, text: str) -> None: ...
    def is_ready_for_blow(self) -> bool: ...


class _Given(NamedTuple):
    """A record that a poll has returned."""

    cursor: Cursor
    offset: int
    value: str


class _Reached(NamedTuple):
    """The end of a cursor's last chunk, and where that began."""

    start: int
    position: OffsetAndMetadata


class CrashLife(RebalanceListener):
    """The life of one consumer, from its start to its crash.

    Args:
        life: The plan of the life; None for the last one, which is not disturbed.
    """

    def __init__(self, world: LifeSurroundings, process: Process, life: Life | None) -> None:
        self.process = process
        self.name = process.name
        self.catches_up = life is None or life.catches_up
        self.is_wanted = True
        self.is_frozen = False
        self.polls = 0
        self._world = world
        self._life = life
        self._judge = world.judge
        self._given: dict[TopicPartition, list[_Given]] = {}
        self._reached: dict[tuple[TopicPartition, Cursor], _Reached] = {}
        self._blow_is_due = life is not None and life.blow is not None

    # --- as its world sees it -------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        return self.process.has_ended or self.process.is_killed

    @property
    def is_over(self) -> bool:
        """Whether a successor may start: this consumer has ended, or cannot go on."""
        return self.has_ended or self.is_frozen

    def wants_blow(self) -> bool:
        """Once, in the middle of its work, when the world is ready for it."""
        is_due = self._blow_is_due and self._life is not None and self.polls > self._life.rounds // 2
        is_due = is_due and self._world.is_ready_for_blow()
        self._blow_is_due = self._blow_is_due and not is_due
        return is_due

    def kill(self) -> None:
        self._world.script.kill(self.process)

    def freeze(self) -> None:
        if not self.is_frozen:
            self.is_frozen = True
            self.process.freeze()

    def forget_reached(self, at: TopicPartition) -> None:
        """It has not been given anything of it that it would commit by itself."""
        for cursor in Cursor:
            self._reached.pop((at, cursor), None)

    def thaw(self) -> None:
        self.is_frozen = False
        self.process.thaw()

    # --- the application ------------------------------------------------------------------------------------

    def main(self) -> None:
        plan = self._world.plan
        settings: Mapping[str, object] = {
            "group_id": GROUP,
            "group_protocol": plan.protocol,
            "enable_parallel_rebalance": self.catches_up,
            "parallel_rebalance_children": plan.children,
            "parallel_rebalance_min_lag_records": plan.min_lag,
            "max_partition_fetch_bytes": plan.fetch_bytes,
            "max_poll_records": plan.poll_records,
            "enable_auto_commit": plan.commits == "auto",
            "auto_commit_interval_ms": 200,
            "isolation_level": "read_committed" if plan.read_committed else "read_uncommitted",
            "metadata_max_age_ms": 5_000,
        }
        consumer = self._world.script.consumer_in(self.process, **settings)
        consumer.subscribe([TOPIC], listener=self)
        try:
            while self.is_wanted and not self._is_done():
                self._turn(consumer)
        finally:
            self._close(consumer)

    def _is_done(self) -> bool:
        """Who is to be ended by a crash goes on until it comes; all that may come too late anyway."""
        life = self._life
        return life is not None and self.polls >= life.rounds * (3 if life.crashes else 1)

    def _turn(self, consumer: Consumer[bytes, bytes]) -> None:
        try:
            records = consumer.poll(POLL_SECONDS)
            self.polls += 1
            self._work(records)
            if self._life is not None and self._life.pauses:
                self._pause_or_resume(consumer)
            self._commit(consumer)
            self._ask(consumer)
        except KafkaError as error:
            self._world.note(f"{self.name} hears {type(error).__name__}: {error}")

    def _work(self, records: Records[bytes, bytes]) -> None:
        values: list[str] = []
        for chunk in records.chunks():
            rows, at = list(chunk), chunk.topic_partition
            told = {record.offset: (record.value or b"").decode() for record in rows}
            self._judge.polled_chunk(self.name, at, chunk.cursor, told)
            self._given.setdefault(at, []).extend(_Given(chunk.cursor, *each) for each in told.items())
            values.extend(told.values())
            if rows:
                first, last = rows[0], rows[-1]
                self._reach(at, chunk.cursor, first, last)
                self._world.note(f"{self.name} {chunk.cursor.name.lower()}: {at}@{first.offset}..{last.offset}")
        if values:
            self._world.script.sleep(WORK_MS)
            self._judge.processed(values)

    def _reach(self, at: TopicPartition, cursor: Cursor, first: BytesRecord, last: BytesRecord) -> None:
        """It would commit by itself what it was given; but nothing without an epoch of a log that is no more, which may
        have been buffered still."""
        if self._judge.is_there(at, last.offset, (last.value or b"").decode()):
            epoch = last.leader_epoch if self._world.plan.tells_epochs else None
            position = OffsetAndMetadata(last.offset + 1, leader_epoch=epoch)
            self._reached[at, cursor] = _Reached(first.offset, position)

    def _pause_or_resume(self, consumer: Consumer[bytes, bytes]) -> None:
        if paused := consumer.paused():
            consumer.resume(paused)
        elif self._world.rng.random() < 0.3:
            consumer.pause(consumer.assignment())

    def _ask(self, consumer: Consumer[bytes, bytes]) -> None:
        if self._world.rng.random() < 0.2 and (assignment := consumer.assignment()):
            for at, found in consumer.committed(assignment).items():
                if found is not None:
                    self._judge.answered(self.name, at, found.offset)

    # --- commits --------------------------------------------------------------------------------------------

    def _commit(self, consumer: Consumer[bytes, bytes]) -> None:
        match self._world.plan.commits:
            case "sync":
                if self._world.rng.random() < 0.6:
                    self._commit_sync(consumer)
            case "async":
                if self._world.rng.random() < 0.6:
                    self._commit_async(consumer)
            case "parts":
                self._commit_part(consumer)
            case _:
                pass  # by itself
        if self._life is None and self._world.plan.commits != "auto":
            consumer.commit_sync()

    def _commit_sync(self, consumer: Consumer[bytes, bytes]) -> None:
        values = self._all_given()
        consumer.commit_sync()
        self._judge.committed(self.name, values)
        self._reached.clear()  # or it would take the group back by committing one of these

    def _commit_async(self, consumer: Consumer[bytes, bytes]) -> None:
        values = self._all_given()

        def told(_: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
            if error is None:
                self._judge.committed(self.name, values)

        consumer.commit_async(callback=told)

    def _commit_part(self, consumer: Consumer[bytes, bytes]) -> None:
        """What one cursor was given last, and sometimes all of it."""
        if self._world.rng.random() < 0.2:
            self._commit_sync(consumer)
        elif self._reached and self._world.rng.random() < 0.7:
            at, cursor = self._world.rng.choice(list(self._reached))
            values = self._given_up_to(at, cursor)
            consumer.commit_sync({at: self._reached[at, cursor].position})
            self._judge.committed(self.name, values)
            self._reached.pop((at, cursor), None)

    def _all_given(self) -> list[str]:
        return [given.value for all_given in self._given.values() for given in all_given]

    def _given_up_to(self, at: TopicPartition, cursor: Cursor) -> list[str]:
        """What a commit of the position that a cursor reached speaks of: all that the main cursor returned in front of
        it, but of a child only its last chunk, for what others have read in front of that is another matter."""
        start, position = self._reached[at, cursor]
        wanted = range(start if cursor is Cursor.CHILD else 0, position.offset)
        return [value for by, offset, value in self._given[at] if by is cursor and offset in wanted]

    # --- the group ------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._world.note(f"{self.name} is assigned {sorted(map(str, partitions))}")
        self._judge.assigned(self.name, partitions)

    def on_partitions_revoked(self, consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        if self._world.plan.commits in ("sync", "parts"):
            try:
                values = self._all_given()
                consumer.commit_sync()
                self._judge.committed(self.name, values)
            except KafkaError as error:
                self._world.note(f"{self.name} cannot commit: {error}")
        self._give_up(partitions)

    def on_partitions_lost(self, _consumer: RebalanceConsumer, partitions: Collection[TopicPartition]) -> None:
        self._give_up(partitions)

    def _give_up(self, partitions: Collection[TopicPartition]) -> None:
        self._world.note(f"{self.name} gives up {sorted(map(str, partitions))}")
        self._judge.given_up(self.name, partitions)
        for at in partitions:
            self._given.pop(at, None)
            self.forget_reached(at)

    def _close(self, consumer: Consumer[bytes, bytes]) -> None:
        if not self.process.is_killed:
            consumer.close(CLOSE_SECONDS)
            self._world.note(f"{self.name} is closed")
