"""A step or a schedule that could not be carried out cannot be made; one that could tells what follows from it."""

from __future__ import annotations

import pytest

from kwire.testing.faults.bounds import RunSettings
from kwire.testing.faults.catalogue import KINDS, strike
from kwire.testing.faults.schedule import MembersLine, Schedule, Step
from kwire.testing.faults.targets import AllBrokers, OneBroker, OneMember, OneTopic, Target, WholeGroup


def test_a_step_has_the_catalogues_defaults() -> None:
    step = strike(5_000, "latency", AllBrokers())
    assert step.lasts_ms == 15_000
    assert (step.amount("latency_ms"), step.amount("jitter_ms"), step.choice("direction")) == (100, 0, "both")


def test_a_step_knows_when_it_is_over() -> None:
    step = strike(5_000, "broker-kill", OneBroker(0), lasts_ms=10_000)
    assert (step.ends_ms, step.settled_ms) == (15_000, 20_000)
    moment = strike(5_000, "leader-move", OneTopic("orders"))
    assert (moment.ends_ms, moment.settled_ms) == (5_000, 8_000)


def test_recovery_is_counted_from_the_strike_if_others_can_take_over() -> None:
    assert strike(5_000, "broker-kill", OneBroker(0), lasts_ms=10_000).recovers_from_ms == 5_000
    assert strike(5_000, "partition-all", AllBrokers(), lasts_ms=10_000).recovers_from_ms == 15_000


@pytest.mark.parametrize(
    ("fault", "target", "lasts_ms", "values", "said"),
    [
        ("broker-kil", OneBroker(0), None, {}, "'broker-kil' is no fault; allowed: broker-kill, "),
        ("broker-kill", OneMember(0), None, {}, "broker-kill cannot strike member 0; allowed: broker N, "),
        ("broker-kill", OneBroker(0), 1, {}, "broker-kill lasts for 1000 ms to 600000 ms"),
        ("leader-move", OneTopic("a"), 1_000, {}, "leader-move is a moment"),
        ("latency", AllBrokers(), None, {"latency_ms": 0}, "latency_ms is 0; 1ms to 30s is allowed"),
        ("latency", AllBrokers(), None, {"latency_ms": "1s"}, "latency_ms is '1s'; 1ms to 30s is allowed"),
        ("latency", AllBrokers(), None, {"direction": "up"}, "direction is 'up'; both or requests or answers"),
        ("latency", AllBrokers(), None, {"delay_ms": 5}, "latency has the parameters latency_ms, jitter_ms, direction"),
        ("storm", WholeGroup(), None, {"members": 5}, "storm has the parameters changes, in this order"),
        ("slicer", AllBrokers(), None, {"vary_bytes": 4}, "vary_bytes has to be below slice_bytes"),
    ],
)
def test_a_step_that_cannot_be_is_refused(
    fault: str, target: Target, lasts_ms: int | None, values: dict[str, int | str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        strike(5_000, fault, target, lasts_ms=lasts_ms, **values)


def test_a_step_is_whole_and_in_time() -> None:
    with pytest.raises(ValueError, match="has the parameters changes"):
        Step(at_ms=0, kind=KINDS["storm"], target=WholeGroup(), lasts_ms=5_000)
    with pytest.raises(ValueError, match="before the run begins"):
        strike(-1, "broker-kill", OneBroker(0))


def test_steps_are_put_in_order_of_time() -> None:
    late, early = strike(9_000, "quota", AllBrokers()), strike(5_000, "storm", WholeGroup())
    assert Schedule(steps=(late, early)).steps == (early, late)


def test_members_are_counted_over_their_lines_and_those_who_join_are_like_the_lines_in_turn() -> None:
    java, own = MembersLine(count=2, client="java"), MembersLine(count=3)
    schedule = Schedule(members=(java, own))
    assert schedule.member_count == 5
    assert [schedule.members_of(number) for number in range(8)] == [java, java, own, own, own, java, own, java]


def test_the_same_schedule_is_had_for_another_client() -> None:
    schedule = Schedule(members=(MembersLine(count=2, static=True), MembersLine(count=1, client="java")))
    assert schedule.with_client("confluent").members == (
        MembersLine(count=2, client="confluent", static=True),
        MembersLine(count=1, client="confluent"),
    )


def test_bounds_follow_the_settings_of_the_run() -> None:
    settings = RunSettings(session_timeout_ms=30_000, rebalance_slack_ms=1_000)
    schedule = Schedule(settings=settings, steps=(strike(5_000, "consumer-kill", OneMember(0)),))
    assert schedule.bounds_ms() == {"consumer-kill": 33_000}
