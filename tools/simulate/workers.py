"""Processes that run worlds for `cli.py`: each is told a seed, and tells what came of it.

A process that dies, or does not come to an end, costs the one seed it was told: the caller hears of that, and another
process takes its place. Ctrl-C is the caller's: it leaves the `with` block, and the processes are gone.
"""

from __future__ import annotations

import gc
import itertools
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Generic, TypeVar

R = TypeVar("R")

# Of a second or two that a world takes; telling a finding shorter takes ten worlds.
LIMIT_SECONDS = 300.0
# A world runs without the garbage collector, which would rarely find the time in between.
WORLDS_TO_CLEAN_UP_AFTER = 10
# What worlds may leave behind in a process is gone after so many.
WORLDS_OF_A_PROCESS = 1_000

_spawning = get_context("spawn")


@dataclass(frozen=True, slots=True)
class Died:
    """The process of this seed is no more, or was ended because it took too long."""

    seed: int
    why: str


class Workers(Generic[R]):
    """So many processes.

    Args:
        work: makes a result of a seed. Has to be picklable, as have results.
        worlds_each: how many seeds a process is told before another one takes its place.
    """

    def __init__(
        self,
        work: Callable[[int], R],
        count: int,
        *,
        worlds_each: int = WORLDS_OF_A_PROCESS,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        self._work = work
        self._count = count
        self._worlds_each = worlds_each
        self._limit_seconds = limit_seconds
        self._workers: list[_Worker[R]] = []

    def __enter__(self) -> Workers[R]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()

    def run(self, seeds: Iterator[int]) -> Iterator[R | Died]:
        """Results, and what was lost, as they come. A seed is asked for when a process is free."""
        while True:
            self._tell(seeds)
            busy = {worker.channel: worker for worker in self._workers if worker.seed is not None}
            if not busy:
                return
            first_ends_at = min(worker.began for worker in busy.values()) + self._limit_seconds
            ready = wait(list(busy), timeout=max(0.0, first_ends_at - time.monotonic()))
            for channel in ready:
                yield busy[channel].take()  # type: ignore[index]  # these are channels, not sockets
            if not ready:
                yield from self._end_the_late(list(busy.values()))

    def _tell(self, seeds: Iterator[int]) -> None:
        self._workers = [worker for worker in self._workers if not worker.has_ended]
        for worker in self._workers:
            if worker.seed is None and (seed := next(seeds, None)) is not None:
                worker.tell(seed)
        while len(self._workers) < self._count and (seed := next(seeds, None)) is not None:
            worker = _Worker(self._work, self._worlds_each)
            self._workers.append(worker)
            worker.tell(seed)

    def _end_the_late(self, busy: list[_Worker[R]]) -> Iterator[Died]:
        for worker in busy:
            if worker.seed is not None and time.monotonic() >= worker.began + self._limit_seconds:
                died = Died(worker.seed, f"it did not end within {self._limit_seconds:.0f} s")
                worker.end()
                yield died


class _Worker(Generic[R]):
    """One process, and the seed it works on."""

    def __init__(self, work: Callable[[int], R], worlds: int) -> None:
        self.seed: int | None = None
        self.began = 0.0
        self.has_ended = False
        self._left = worlds
        self.channel, theirs = _spawning.Pipe()
        self._process = _spawning.Process(target=_serve, args=(work, theirs), daemon=True)
        self._process.start()
        theirs.close()  # or its end would not be seen

    def tell(self, seed: int) -> None:
        self.seed, self.began = seed, time.monotonic()
        self._left -= 1
        with suppress(OSError):  # it has died in between: `take` will say so
            self.channel.send(seed)

    def take(self) -> R | Died:
        """What it has to say. Only when its channel is ready."""
        assert self.seed is not None
        seed, self.seed = self.seed, None
        try:
            result: R = self.channel.recv()
        except (EOFError, OSError):
            self._process.join()
            died = Died(seed, f"its process ended with exit code {self._process.exitcode}")
            self.end()
            return died
        if self._left <= 0:
            self.end()
        return result

    def end(self) -> None:
        """Whatever it does."""
        self.has_ended, self.seed = True, None
        self._process.kill()
        self._process.join()
        self.channel.close()


def _serve(work: Callable[[int], R], channel: Connection[R, int]) -> None:
    """What a process does, until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What goes wrong in a world is the ledger's to tell, so the processes log nothing.
    logging.disable(logging.CRITICAL)
    for number in itertools.count(1):
        try:
            seed = channel.recv()
        except (EOFError, OSError):
            return
        channel.send(work(seed))
        if number % WORLDS_TO_CLEAN_UP_AFTER == 0:
            gc.collect()
