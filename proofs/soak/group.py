"""The members' processes: started, asked to end, killed, frozen, and listened to."""

from __future__ import annotations

import json
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.kafka.guard import GuardOrder
from kwire.testing.kafka.guarded_process import GuardedProcess
from proofs.soak.coverage import Coverage
from proofs.soak.member import CONTROL, GUEST, WAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from proofs.soak.testbed import Testbed

TOP = Path(__file__).parents[2]
CLOSES_WITHIN_S = 60.0


class Member(GuardedProcess):
    """One process, and what it tells.

    Args:
        hear: is given what it tells, by the reader's thread.
    """

    def __init__(
        self, way: str, topic: str, settings: dict[str, str], directory: Path, hear: Callable[[Told], None]
    ) -> None:
        directory.mkdir()
        file = directory / "settings.json"
        file.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "proofs.soak.member", way, topic, str(file)]

        def take(line: bytes) -> None:
            with suppress(json.JSONDecodeError):  # a library of the member's may print, too
                hear(Told(way, json.loads(line)))

        super().__init__(way, command, directory, grace_s=CLOSES_WITHIN_S, on_line=take, cwd=TOP)

    def end(self, order: GuardOrder) -> None:
        """Have it end in this way, and wait for that."""
        self.order(order)
        self.wait(2 * CLOSES_WITHIN_S)


class Told:
    """A report of a member: see `member.Report`."""

    def __init__(self, way: str, said: dict[str, object]) -> None:
        self.way = way
        self.said = said

    def number(self, name: str) -> float | None:
        found = self.said.get(name)
        return float(found) if isinstance(found, (int, float)) else None

    def runs(self) -> list[tuple[int, int, int]]:
        """Partition, first offset, end."""
        runs = self.said["runs"]
        assert isinstance(runs, dict)
        return [(int(partition), first, end) for partition, found in runs.items() for first, end in found]


class Group:
    """The four ways, a guest now and then, and the control in a group of its own.

    Args:
        watch: is given what each tells, with the time left out: it is now.
    """

    def __init__(self, testbed: Testbed, protocol: str, watch: Callable[[Told], None]) -> None:
        self._testbed, self._protocol, self._watch = testbed, protocol, watch
        self._lock = threading.Lock()
        self._started = 0
        self.coverage: defaultdict[int, Coverage] = defaultdict(Coverage)
        self.spoilt = 0
        self.records = 0
        self.members: dict[str, Member] = {}

    def start(self) -> None:
        for way in (*WAYS, CONTROL):
            self._start(way)

    def invite(self) -> Member:
        """A guest comes."""
        return self._start(GUEST)

    def processes(self) -> dict[str, int]:
        """Of those that live as long as the run."""
        return {way: pid for way in (*WAYS, CONTROL) if (pid := self.members[way].pid) is not None}

    def ended(self) -> list[str]:
        """Who has ended though nobody asked, in one line each."""
        return [
            f"{way} has ended: {member.last_words()}"
            for way, member in self.members.items()
            if way != GUEST and member.has_ended
        ]

    def lag(self, ends: tuple[int, ...]) -> int:
        with self._lock:
            return sum(end - self.coverage[partition].read_up_to for partition, end in enumerate(ends))

    def read_up_to(self, partition: int) -> int:
        with self._lock:
            return self.coverage[partition].read_up_to

    def stop(self) -> list[str]:
        """Asks all to end, and says which did so in another way than was asked."""
        for member in self.members.values():
            member.order(GuardOrder.TERMINATE)
        for member in self.members.values():
            member.wait(2 * CLOSES_WITHIN_S)
        codes = {way: member.exit_code for way, member in self.members.items() if way != GUEST}
        return [f"{way} ended with {code}" for way, code in codes.items() if code != 0]

    def kill(self) -> None:
        for member in self.members.values():
            member.end(GuardOrder.KILL)

    def _start(self, way: str) -> Member:
        client, group = ("confluent", "control") if way == CONTROL else ("kwire", "soak")
        self._started += 1
        settings = self._testbed.settings(client, group, self._protocol)
        directory = self._testbed.directory / f"{way}-{self._started}"
        member = Member(way, self._testbed.topic, settings, directory, self._hear)
        self.members[way] = member
        return member

    def _hear(self, told: Told) -> None:
        if told.way != CONTROL:
            with self._lock:
                self.records += int(told.number("records") or 0)
                for partition, first, end in told.runs():
                    self.coverage[partition].add(first, end)
        self.spoilt += int(told.number("spoilt") or 0)
        self._watch(told)
