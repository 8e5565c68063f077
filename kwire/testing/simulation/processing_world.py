"""A world whose members run a `Processor`: what is said of finished records is written down, and in calm one record
takes long while all others have to go on."""

from __future__ import annotations

import random
from collections.abc import Iterable

import trio

from kwire.model import TopicPartition
from kwire.processing import decode
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing.cluster.request_context import RequestContext
from kwire.testing.invariants.handling_events import AskedForCommits, MapArrived, StoredMap
from kwire.testing.invariants.ledger import Event
from kwire.testing.simulation.backlog import Backlog
from kwire.testing.simulation.handling import SLOW_MS
from kwire.testing.simulation.host import Process
from kwire.testing.simulation.processing_member import ProcessingMember
from kwire.testing.simulation.scenario import Scenario
from kwire.testing.simulation.scheduler import VirtualTime
from kwire.testing.simulation.world import World

# Beyond the interval of commits: an answer, and a commit that had begun before.
COMMITTING_SECONDS = 2.0


class ProcessingWorld(World):
    """See `World`."""

    def __init__(self, scenario: Scenario, time: VirtualTime) -> None:
        super().__init__(scenario, time)
        self.unfinished = Backlog(by_handling=True)
        self._slow_value = ""

    def write(self, event: Event) -> None:
        if isinstance(event, AskedForCommits):
            self._write_maps(event.partitions)
        super().write(event)
        self.unfinished.apply(event)

    def _new_member(self, process: Process, rng: random.Random) -> ProcessingMember:
        member = ProcessingMember(self.scenario, process, self.write, self.bootstrap(), self.now_ms, rng)
        member.slow_value = self._slow_value
        return member

    # --- calm -----------------------------------------------------------------------------------------------

    def _pile_up(self, at: TopicPartition) -> None:
        """Behind a record that takes long, so that there is more of this partition than a member wants to have."""
        self._slow_value = next(iter(self.producer.send(at, 1)), "")
        for member in self._processing():
            member.slow_value = self._slow_value
        super()._pile_up(at)

    async def _let_commits_come(self) -> None:
        assert self.scenario.handling is not None
        await trio.sleep(SLOW_MS / 1000.0 + 2 * self.scenario.handling.commit_interval + COMMITTING_SECONDS)
        for member in self._processing():
            member.tell_status()

    def _processing(self) -> list[ProcessingMember]:
        return [member for member in self.members() if isinstance(member, ProcessingMember)]

    # --- commits --------------------------------------------------------------------------------------------

    def _watch_commits(self) -> None:
        super()._watch_commits()

        def see(request: OffsetCommitRequest, call: RequestContext) -> None:
            for topic in request.topics or ():
                name = self.name_of(topic)
                for each in topic.partitions or ():
                    self.write(
                        MapArrived(
                            at_ms=self.now_ms(),
                            member=call.client_id,
                            partition=TopicPartition(name, each.partition_index),
                            offset=each.committed_offset,
                            finished=_finished(each.committed_offset, each.committed_metadata),
                        )
                    )

        self.cluster.control.on(OffsetCommitRequest).observe(see)

    def _write_maps(self, partitions: Iterable[TopicPartition]) -> None:
        committed = self.cluster.committed(self.group)
        for at in partitions:
            stored = committed.get(at)
            offset, metadata = (0, "") if stored is None else (stored.offset, stored.metadata)
            finished = _finished(offset, metadata)
            self.write(StoredMap(at_ms=self.now_ms(), partition=at, offset=offset, finished=finished))


def _finished(offset: int, metadata: str | None) -> tuple[tuple[int, int], ...]:
    found = decode(offset, metadata or "")
    return () if found is None else tuple((each.start, each.stop) for each in found.finished)
