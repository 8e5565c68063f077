"""Steps at their times: when the ledger hears of what, and what becomes of a step that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.testing.faults.catalogue import INJECTORS, strike
from kwire.testing.faults.fault import Begin, Heal
from kwire.testing.faults.schedule import Schedule, Step
from kwire.testing.faults.targets import AllBrokers, OneBroker, OneTopic, Target, WholeGroup
from kwire.testing.faults.testbed import StoppedError, Testbed
from kwire.testing.faults.timetable import Timetable, carry_out
from kwire.testing.invariants.ledger import FaultBegan, FaultEnded

if TYPE_CHECKING:
    from tests.testing.faults.kinds.recording_testbed import Struck
else:
    from recording_testbed import Struck

KILL = strike(5_000, "broker-kill", OneBroker(1), lasts_ms=10_000)
MOVE = strike(5_000, "coordinator-move", WholeGroup())


def slowly(healed: list[float]) -> object:
    """A strike that takes a second to begin and a second to heal."""

    def hit(testbed: Testbed, _step: Step, begin: Begin) -> Heal:
        testbed.sleep(1_000)
        begin("broker 1")

        def heal() -> None:
            healed.append(testbed.recorder.now_ms())
            testbed.sleep(1_000)

        return heal

    return hit


def test_the_ledger_has_a_fault_from_when_it_began_until_it_is_healed() -> None:
    struck, healed = Struck(), list[float]()
    carry_out(struck.testbed, KILL, slowly(healed), 0.0)  # type: ignore[arg-type]
    assert struck.recorder.ledger.events == [
        FaultBegan(at_ms=6_000, fault="broker-kill", detail="broker 1 for 10s: broker 1"),
        FaultEnded(at_ms=16_000, fault="broker-kill"),
    ]
    assert healed == [15_000]  # at the time that the schedule says


def test_a_late_group_delays_the_faults() -> None:
    struck, healed = Struck(), list[float]()
    carry_out(struck.testbed, KILL, slowly(healed), 700.0)  # type: ignore[arg-type]
    assert healed == [15_700]


def test_a_moment_has_no_end() -> None:
    struck = Struck()
    carry_out(struck.testbed, MOVE, slowly([]), 0.0)  # type: ignore[arg-type]
    assert [type(event) for event in struck.recorder.ledger.events] == [FaultBegan]


@pytest.mark.parametrize(
    ("fault", "target", "asked"),
    [
        ("topic-forbidden", OneTopic("orders"), "permissions.forbid_topic"),
        ("group-forbidden", WholeGroup(), "permissions.forbid_group"),
        ("quota", AllBrokers(), "quotas.change"),
        ("compaction", OneTopic("orders"), "topics.configure"),
    ],
)
def test_what_a_cluster_is_slow_to_agree_to_lasts_its_time_from_then_on(
    fault: str, target: Target, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was healed as soon as it was in force, in a cluster that missed a broker: nobody had met it."""
    struck = Struck()
    kind, name = asked.split(".")
    whom = getattr(struck.admin, kind)

    def slowly_agreed(*args: object) -> None:
        struck.clock.now_s += 12.0

    monkeypatch.setattr(whom, name, slowly_agreed, raising=False)
    INJECTORS[fault](struck.testbed, strike(0, fault, target, lasts_ms=10_000), struck.began.append)
    assert struck.recorder.now_ms() == 22_000


def test_who_is_stopped_heals_nothing() -> None:
    struck, healed = Struck(), list[float]()
    struck.testbed.stopping.set()
    with pytest.raises(StoppedError):
        carry_out(struck.testbed, KILL, slowly(healed), 0.0)  # type: ignore[arg-type]
    assert (healed, struck.recorder.ledger.events) == ([], [])


def test_a_step_that_cannot_be_carried_out_is_told() -> None:
    struck = Struck()
    struck.schedule = Schedule(steps=(strike(0, "broker-kill", OneBroker(7)),))
    timetable = Timetable(struck._testbed())
    timetable.start()
    timetable.stop()
    assert timetable.is_over
    assert timetable.failures == ("broker-kill broker 7 for 15s: IndexError: list index out of range",)


def test_steps_that_are_carried_out_are_no_failures() -> None:
    struck = Struck()
    struck.schedule = Schedule(steps=(MOVE,))
    timetable = Timetable(struck._testbed())
    timetable.start()
    for thread in timetable._threads:
        thread.join(5.0)
    assert (timetable.is_over, timetable.failures) == (True, ())
    assert struck.told == ["prepare 1", "elect 1"]
