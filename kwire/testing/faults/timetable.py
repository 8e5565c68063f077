"""Carries out a schedule's steps at their times, each on a thread of its own, since steps may overlap and take long.

Made by the harness, which asks whether it is over and which steps have failed. A step that cannot be carried out says
nothing about the consumers: it fails the whole run.
"""

from __future__ import annotations

import threading
import time

from kwire.testing.faults.catalogue import INJECTORS
from kwire.testing.faults.fault import Injector
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.step_text import render_step
from kwire.testing.faults.testbed import StoppedError, Testbed
from kwire.testing.invariants.ledger import FaultBegan, FaultEnded

JOIN_S = 10.0


def carry_out(testbed: Testbed, step: Step, strike: Injector, late_ms: float) -> None:
    """Carry out one step: wait for its time, strike, wait for its end, heal. The ledger has the real times.

    Args:
        late_ms: the delay against the schedule.

    Raises:
        StoppedError: the run is aborted. Nothing is healed then, as everything is stopped.
    """

    def begin(what: str) -> None:
        said = render_step(step).removeprefix(f"{step.fault} ")
        detail = f"{said}: {what}" if what else said
        testbed.recorder.note(lambda at_ms: FaultBegan(at_ms=at_ms, fault=step.fault, detail=detail))

    testbed.sleep_until(step.at_ms + late_ms)
    heal = strike(testbed, step, begin)
    if step.lasts_ms is None:
        return
    testbed.sleep_until(step.ends_ms + late_ms)
    heal()
    testbed.recorder.note(lambda at_ms: FaultEnded(at_ms=at_ms, fault=step.fault))


class Timetable:
    """The steps of the testbed's schedule.

    Args:
        late_ms: the delay against the schedule.
    """

    def __init__(self, testbed: Testbed, *, late_ms: float = 0.0) -> None:
        self._testbed = testbed
        self._late_ms = late_ms
        self._failures: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(step,), name=f"strike {step.fault}", daemon=True)
            for step in testbed.schedule.steps
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Abort the steps under way. A step that waits for an answer of Kafka's is not waited for much longer."""
        self._testbed.stopping.set()
        deadline_s = time.monotonic() + JOIN_S
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline_s - time.monotonic()))

    @property
    def is_over(self) -> bool:
        """Whether every step has struck and is healed."""
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def failures(self) -> tuple[str, ...]:
        """Steps that could not be carried out, and why."""
        return tuple(self._failures)

    def _run(self, step: Step) -> None:
        try:
            carry_out(self._testbed, step, INJECTORS[step.fault], self._late_ms)
        except StoppedError:
            return
        except Exception as error:  # noqa: BLE001  whatever it is: told by the harness, which gives the run up
            self._failures.append(f"{render_step(step)}: {type(error).__name__}: {error}")
