"""`scripts/prove processor`: a `Processor` loses nothing, keeps its order, and repeats only what it has to.

First many changes of a group while records flow: members join, leave in order, and are killed. Each record has to be
handled, none before those in front of it in its queue; and what runs again was being handled by a member that was
killed.

Then a member is killed in the middle of work that ends out of order: with threads and with a pool of processes, with
the map of finished records in its commits and without. Its successor has to do exactly what these do not say is done.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from kwire import Consumer
from kwire.processing import decode
from kwire.testing.kafka import KafkaCluster
from proofs.group import make_topic, partitions_of, wait_until
from proofs.processor.members import KeyedTraffic, ProcessorMember, Story, flags_of, judge

PARTITIONS = 4
KEYS = 40
MEMBERS = 3
EACH_MS = 10
PAUSE_S = 1.5
DRAIN_S = 90.0
KILLED_RECORDS = 1_500
KILLED_EACH_MS = 25
# Something has been committed, and much is left.
KILLED_AFTER = 500
SETTLED_S = 1.0


@dataclass(slots=True)
class Changes:
    """A group that never comes to rest."""

    servers: str
    order: str
    folder: Path
    story: Story = field(default_factory=Story)
    members: list[ProcessorMember] = field(default_factory=list)
    started: int = 0
    kills: int = 0

    def run(self, count: int) -> list[str]:
        topic = f"changes-{uuid4().hex[:8]}"
        make_topic(self.servers, topic, PARTITIONS)
        orders = self.folder / f"{topic}.json"
        orders.write_text(json.dumps({"each_ms": EACH_MS, "is_stuck": False}))
        flags = list(flags_of(self.servers, topic, topic, orders, "--processor", self.order))
        traffic = KeyedTraffic(self.servers, topic, PARTITIONS, KEYS, self.story)
        traffic.start()
        try:
            for _ in range(MEMBERS):
                self._join(flags)
            wait_until(lambda: self.story.count("record_handled") > 0, DRAIN_S)
            for number in range(count):
                (self._leave, self._join, self._kill, self._join)[number % 4](flags)
                time.sleep(PAUSE_S)
        finally:
            traffic.stop()
            is_drained = wait_until(lambda: not self.story.missing(), DRAIN_S)
            while self.members:
                self.members.pop().close()
        return self._verdict(count, is_drained=is_drained)

    def _join(self, flags: list[str]) -> None:
        self.started += 1
        name = f"member{self.started}"
        self.members.append(ProcessorMember(self.story, name, flags, self.folder / "errors.txt"))

    def _leave(self, _flags: list[str]) -> None:
        self.members.pop(0).close()

    def _kill(self, _flags: list[str]) -> None:
        self.kills += 1
        self.members.pop(0).kill()

    def _verdict(self, count: int, *, is_drained: bool) -> list[str]:
        story, verdict = self.story, judge(self.story, by_key=self.order == "key")
        missing = len(story.missing())
        print(
            f"order by {self.order:9} {len(story.sent)} records, {count} changes ({self.kills} kills), "
            f"{story.count('partitions_assigned')} assignments told; run again: {verdict.unfinished} unfinished, "
            f"{verdict.uncommitted} uncommitted, {len(verdict.unexplained)} for nothing; lost {missing}, out of order "
            f"{len(verdict.out_of_order)}, two at once {len(verdict.overlapping)}",
            flush=True,
        )
        broken = [] if is_drained else [f"{missing} records were not handled within {DRAIN_S:.0f} s"]
        for what in (verdict.out_of_order, verdict.overlapping, verdict.unexplained):
            broken += what[:3]
        return [f"order by {self.order}: {line}" for line in broken]


@dataclass(slots=True)
class Killed:
    """One member that is killed in the middle, and its successor."""

    servers: str
    folder: Path
    in_processes: bool
    offset_map: bool

    def run(self) -> list[str]:
        story, topic = Story(), f"killed-{uuid4().hex[:8]}"
        make_topic(self.servers, topic, PARTITIONS)
        orders = self.folder / f"{topic}.json"
        orders.write_text(json.dumps({"each_ms": KILLED_EACH_MS, "is_stuck": False}))
        more = ["--processor", "key"]
        more += ["--worker-processes", "--workers", "4"] if self.in_processes else ["--workers", "16"]
        more += [] if self.offset_map else ["--no-offset-map"]
        flags = list(flags_of(self.servers, topic, topic, orders, *more))
        traffic = KeyedTraffic(self.servers, topic, PARTITIONS, KEYS, story)
        traffic.send(KILLED_RECORDS)
        traffic.flush()
        first = ProcessorMember(story, "first", flags, self.folder / "errors.txt")
        wait_until(lambda: story.count("record_handled") >= KILLED_AFTER, DRAIN_S)
        first.kill()
        time.sleep(SETTLED_S)  # a commit that was under way is there now
        known = self._known(topic, story)
        second = ProcessorMember(story, "second", flags, self.folder / "errors.txt")
        is_drained = wait_until(lambda: not story.missing(), DRAIN_S)
        second.close()
        return self._verdict(story, known, is_drained=is_drained)

    def _known(self, topic: str, story: Story) -> set[str]:
        """What the group's commits say is done."""
        asking: Consumer[bytes, bytes] = Consumer(bootstrap_servers=self.servers, group_id=topic)
        with asking:
            committed = asking.committed(partitions_of(topic, PARTITIONS))
        known: set[str] = set()
        for value, sent in story.sent.items():
            at = next(found for tp, found in committed.items() if tp.partition == sent.partition)
            if at is None:
                continue
            found = decode(at.offset, at.metadata)
            finished = () if found is None else found.finished
            if sent.offset < at.offset or any(sent.offset in each for each in finished):
                known.add(value)
        return known

    def _verdict(self, story: Story, known: set[str], *, is_drained: bool) -> list[str]:
        begun, handled = story.values("first", "record_begun"), story.values("first", "record_handled")
        after, left = story.values("second", "record_begun"), story.sent.keys() - known
        again = after & begun
        how = f"{'processes' if self.in_processes else 'threads':9} map {'on ' if self.offset_map else 'off'}"
        print(
            f"kill -9, {how} {len(story.sent)} records, {len(handled)} done by then, {len(known)} of these known to "
            f"the group; run again: {len(again)}, {len(again - handled)} unfinished and {len(again & handled)} "
            f"uncommitted; {len(after - begun)} for the first time; lost {len(story.missing())}",
            flush=True,
        )
        broken = [] if is_drained else [f"{len(story.missing())} records were not handled"]
        if early := known - handled:
            broken.append(f"{len(early)} were committed and not done, such as {min(early)}")
        if needless := after - left:
            broken.append(f"{len(needless)} ran again for nothing, such as {min(needless)}")
        if forgotten := left - after:
            broken.append(f"{len(forgotten)} were left out, such as {min(forgotten)}")
        return [f"kill -9, {how}: {line}" for line in broken]


def prove_changes(servers: str, order: str, count: int, folder: Path) -> list[str]:
    return Changes(servers, order, folder).run(count)


def prove_killed(servers: str, folder: Path, *, in_processes: bool, offset_map: bool) -> list[str]:
    return Killed(servers, folder, in_processes, offset_map).run()


def processor(
    changes: Annotated[int, typer.Option(min=1, help="Members that join, leave or are killed, for each order.")] = 20,
) -> Sequence[str]:
    """A Processor loses nothing, keeps its order, and repeats only what it has to."""
    broken: list[str] = []
    with KafkaCluster() as cluster, tempfile.TemporaryDirectory(prefix="kwire-prove-") as name:
        folder = Path(name)
        for order in ("partition", "key"):
            broken += prove_changes(cluster.bootstrap_servers, order, changes, folder)
        for in_processes in (False, True):
            for offset_map in (True, False):
                broken += prove_killed(
                    cluster.bootstrap_servers, folder, in_processes=in_processes, offset_map=offset_map
                )
        if errors := (folder / "errors.txt").read_text().strip():
            print(errors[-2_000:])
    return broken
