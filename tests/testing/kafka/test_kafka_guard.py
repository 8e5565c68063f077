"""A guarded program ends with the one who asked for it, however that one ends, and obeys orders until then."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.testing.kafka import guard
from kwire.testing.kafka.guard import GuardOrder
from kwire.testing.kafka.node import NodeProcesses, running_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each says when it is there, then stays. The stubborn one can only be killed.
SLEEPER = ["/bin/sh", "-c", "echo up; exec sleep 60"]
STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 60; done"]
TIMEOUT_S = 20
KILLED = 128 + signal.SIGKILL
TERMINATED = 128 + signal.SIGTERM


class Guarded:
    """A program below a guard, and both ends of what the tests hold of it."""

    def __init__(self, program: list[str], directory: Path, *, grace_s: float, remove: Path | None) -> None:
        command = guard.guarded(program, lock=Path("lock"), grace_s=grace_s, remove=remove)
        self.directory = directory
        self.guard = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.guard.stdout is not None
        assert self.guard.stdin is not None
        self._out, self._in = self.guard.stdout, self.guard.stdin
        assert self._out.readline() == b"up\n"

    def processes(self) -> NodeProcesses:
        found = running_processes(self.directory)
        assert found is not None
        return found

    def order(self, order: GuardOrder) -> None:
        os.write(self._in.fileno(), order.value)

    def let_go(self) -> None:
        """What the system does for a parent that died."""
        self._in.close()

    def exit_code(self) -> int:
        return self.guard.wait(TIMEOUT_S)

    def wait_for_end_of_output(self) -> None:
        """The program and the guard hold the only write ends: the stream ends when both are gone."""
        readable, _, _ = select.select([self._out], [], [], TIMEOUT_S)
        assert readable
        assert self._out.read() == b""

    def clean_up(self) -> None:
        self._in.close()
        self.guard.kill()
        self.guard.wait(TIMEOUT_S)
        self._out.close()


class Start:
    """Starts guarded programs; the fixture ends them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.started: list[Guarded] = []

    def __call__(self, program: list[str], *, grace_s: float = TIMEOUT_S, remove: Path | None = None) -> Guarded:
        self.started.append(Guarded(program, self._directory, grace_s=grace_s, remove=remove))
        return self.started[-1]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    directory = tmp_path / "cluster" / "broker-0"
    directory.mkdir(parents=True)
    factory = Start(directory)
    yield factory
    for guarded in factory.started:
        guarded.clean_up()


def test_the_end_of_the_parent_ends_the_program(start: Start) -> None:
    guarded = start(SLEEPER)
    guarded.let_go()
    assert guarded.exit_code() == TERMINATED


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(start: Start) -> None:
    guarded = start(STUBBORN, grace_s=0.01)
    guarded.order(GuardOrder.TERMINATE)
    assert guarded.exit_code() == KILLED


def test_a_temporary_program_is_killed_without_grace_and_its_directories_go(start: Start, tmp_path: Path) -> None:
    guarded = start(STUBBORN, remove=tmp_path / "cluster" / "broker-0")
    guarded.let_go()
    assert guarded.exit_code() == KILLED
    assert not (tmp_path / "cluster").exists()


def test_the_directory_of_the_cluster_stays_while_another_node_is_in_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "cluster" / "broker-1").mkdir()
    guarded = start(SLEEPER, remove=tmp_path / "cluster" / "broker-0")
    guarded.let_go()
    guarded.exit_code()
    assert [path.name for path in (tmp_path / "cluster").iterdir()] == ["broker-1"]


def test_the_directory_stays_when_the_parent_ordered_the_end(start: Start, tmp_path: Path) -> None:
    guarded = start(SLEEPER, remove=tmp_path / "cluster" / "broker-0")
    guarded.order(GuardOrder.KILL)
    assert guarded.exit_code() == KILLED
    assert (tmp_path / "cluster" / "broker-0").exists()


def test_a_detached_program_survives_the_parent_and_ends_by_signal_to_the_guard(start: Start, tmp_path: Path) -> None:
    guarded = start(SLEEPER, remove=tmp_path / "cluster" / "broker-0")
    guarded.order(GuardOrder.DETACH)
    guarded.let_go()
    os.kill(guarded.processes().guard, signal.SIGTERM)
    assert guarded.exit_code() == TERMINATED  # an orphan would have been killed, and its directory removed
    assert (tmp_path / "cluster" / "broker-0").exists()


def test_a_paused_program_can_be_terminated(start: Start) -> None:
    guarded = start(SLEEPER)
    guarded.order(GuardOrder.PAUSE)
    guarded.order(GuardOrder.TERMINATE)
    assert guarded.exit_code() == TERMINATED


def test_a_paused_program_goes_on_when_resumed(start: Start) -> None:
    guarded = start(["/bin/sh", "-c", "echo up; kill -STOP $$; exit 7"])
    with suppress(BrokenPipeError):  # it has ended
        while guarded.guard.poll() is None:  # an order before the program stopped itself has no effect
            guarded.order(GuardOrder.RESUME)
    assert guarded.exit_code() == 7


def test_the_exit_code_is_passed_on(start: Start) -> None:
    assert start(["/bin/sh", "-c", "echo up; exit 5"]).exit_code() == 5


def test_the_lock_tells_who_runs_and_when_nobody_does(start: Start) -> None:
    guarded = start(SLEEPER)
    found = guarded.processes()
    assert found.guard == guarded.guard.pid
    os.kill(found.broker, signal.SIGTERM)
    guarded.exit_code()
    assert running_processes(guarded.directory) is None


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has PR_SET_PDEATHSIG")
def test_the_program_dies_with_its_guard(start: Start) -> None:
    guarded = start(SLEEPER)
    guarded.guard.kill()
    guarded.exit_code()
    guarded.wait_for_end_of_output()


def test_nobody_runs_in_a_directory_without_a_lock(tmp_path: Path) -> None:
    assert running_processes(tmp_path) is None
