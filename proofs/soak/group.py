"""The members' processes: started, asked to end, killed, frozen, and listened to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.kafka.guard import GuardOrder, guarded
from kwire.testing.kafka.node import running_processes
from proofs.soak.coverage import Coverage
from proofs.soak.member import CONTROL, GUEST, WAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from proofs.soak.bed import Bed

TOP = Path(__file__).parents[2]
CLOSES_WITHIN_S = 60.0


class Member:
    """One process and the thread that reads what it says.

    Args:
        hear: is given what it tells, by the reader's thread.
    """

    def __init__(
        self, way: str, topic: str, settings: dict[str, str], directory: Path, hear: Callable[[Told], None]
    ) -> None:
        directory.mkdir()
        self.way = way
        self._directory, self._hear = directory, hear
        file = directory / "settings.json"
        file.write_text(json.dumps(settings))
        command = [sys.executable, "-m", "proofs.soak.member", way, topic, str(file)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                guarded(command, lock=directory / "lock", grace_s=CLOSES_WITHIN_S),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=TOP, start_new_session=True,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name=f"reader of {way}", daemon=True)
        self._reader.start()

    @property
    def log(self) -> Path:
        return self._directory / "stderr.log"

    @property
    def pid(self) -> int | None:
        found = running_processes(self._directory)
        return None if found is None else found.broker

    @property
    def has_ended(self) -> bool:
        return not self._reader.is_alive()

    def freeze(self) -> None:
        self._order(GuardOrder.PAUSE)

    def thaw(self) -> None:
        self._order(GuardOrder.RESUME)

    def kill(self) -> None:
        self._order(GuardOrder.KILL)
        self._reader.join(CLOSES_WITHIN_S)

    def ask_to_end(self) -> None:
        self._order(GuardOrder.TERMINATE)

    def wait(self) -> int:
        """Its exit code, once it has ended and all that it said is heard."""
        code = self._process.wait(2 * CLOSES_WITHIN_S)
        self._reader.join(CLOSES_WITHIN_S)
        return code

    def _order(self, order: GuardOrder) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            os.write(self._process.stdin.fileno(), order.value)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(json.JSONDecodeError):  # it was killed in the middle of a word
                self._hear(Told(self.way, json.loads(line)))


class Told:
    """What a member says: see `member.Report`."""

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

    def __init__(self, bed: Bed, protocol: str, watch: Callable[[Told], None]) -> None:
        self._bed, self._protocol, self._watch = bed, protocol, watch
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
            f"{way} has ended: {member.log.read_text(errors='replace').strip()[-600:]}"
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
            member.ask_to_end()
        codes = {way: member.wait() for way, member in self.members.items()}
        return [f"{way} ended with {code}" for way, code in codes.items() if code and way != GUEST]

    def kill(self) -> None:
        for member in self.members.values():
            member.kill()

    def _start(self, way: str) -> Member:
        client, group = ("confluent", "control") if way == CONTROL else ("kwire", "soak")
        self._started += 1
        settings = self._bed.settings(client, group, self._protocol)
        directory = self._bed.directory / f"{way}-{self._started}"
        member = Member(way, self._bed.topic, settings, directory, self._hear)
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
