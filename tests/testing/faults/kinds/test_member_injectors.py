"""Strikes on consumers and their group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.testing.faults.kinds.members import MomentError
from kwire.testing.faults.targets import OneMember, WholeGroup

if TYPE_CHECKING:
    from tests.testing.faults.kinds.recording_testbed import Struck
else:
    from recording_testbed import Struck


def test_a_killed_member_is_replaced() -> None:
    struck = Struck()
    heal = struck.strike("consumer-kill", OneMember(1))
    assert struck.told == ["kill member1.1"]
    heal()
    assert struck.told == ["kill member1.1", "start member1.2"]
    assert struck.began == ["member1.1"]


def test_a_closed_member_is_replaced() -> None:
    struck = Struck()
    struck.strike("consumer-close", OneMember(0))()
    assert struck.told == ["close member0.1", "start member0.2"]


def test_a_member_that_has_ended_by_itself_is_replaced_too() -> None:
    struck = Struck()
    del struck.members.alive[1]
    struck.strike("consumer-kill", OneMember(1))()
    assert struck.told == ["start member1.2"]


def test_a_frozen_member_goes_on() -> None:
    struck = Struck()
    struck.strike("consumer-freeze", OneMember(2))()
    assert struck.told == ["freeze member2.1", "thaw member2.1"]


def test_who_joins_has_the_next_number() -> None:
    struck = Struck()
    struck.strike("consumer-join", WholeGroup())()
    assert struck.told == ["start member3.2"]


def test_a_slow_member_is_told_so_and_told_that_it_is_over() -> None:
    struck = Struck()
    struck.strike("slow-consumer", OneMember(0), each_ms=70)()
    assert struck.told == ["slow member0.1 70", "slow member0.1 0"]


def test_a_stuck_member_gets_loose() -> None:
    struck = Struck()
    struck.strike("poll-interval-exceeded", OneMember(0))()
    assert struck.told == ["stick member0.1", "unstick member0.1"]


def test_clocks_of_all_members_jump_and_are_right_again() -> None:
    struck = Struck()
    struck.strike("clock-jump", WholeGroup(), step_ms=-5_000)()
    assert struck.told == [f"shift_clock member{number}.1 {step}" for step in (-5_000, 0) for number in range(3)]


def test_one_clock_jumps() -> None:
    struck = Struck()
    struck.strike("clock-jump", OneMember(1), step_ms=9_000)
    assert struck.told == ["shift_clock member1.1 9000"]


def test_an_expelled_member_is_taken_out_by_its_name() -> None:
    struck = Struck()
    struck.strike("member-expelled", OneMember(2))
    assert struck.told == ["expel member2.1"]


def test_of_two_with_one_instance_id_the_one_with_partitions_stays() -> None:
    for keeper, goer in (("member1.1", "twin1.1"), ("twin1.1", "member1.1")):
        struck = Struck(static=True)
        heal = struck.strike("duplicate-instance", OneMember(1))
        assert struck.told == ["expect_end member1.1", "start twin1.1", "expect_end twin1.1"]
        struck.members.with_partitions = {keeper}
        heal()
        assert struck.told[3:] == [f"close {goer}"]


def test_who_was_fenced_and_is_still_on_its_way_out_does_not_count() -> None:
    """It has told nobody yet that it has lost its partitions; so it is the other one that is closed."""
    struck = Struck(static=True)
    heal = struck.strike("duplicate-instance", OneMember(1))
    struck.members.with_partitions = {"member1.1"}
    struck.members.gone_with_others = True
    heal()
    assert struck.told[3:] == ["close twin1.1", "start member1.2"]


def test_if_neither_of_two_has_survived_another_process_takes_the_id() -> None:
    struck = Struck(static=True)
    heal = struck.strike("duplicate-instance", OneMember(1))
    struck.members.alive = {0: "member0.1"}
    heal()
    assert struck.told[3:] == ["start member1.2"]


def test_a_storm_changes_so_often_and_leaves_the_group_as_it_was() -> None:
    struck = Struck()
    heal = struck.strike("storm", WholeGroup(), lasts_ms=40_000, changes=20)
    assert len(struck.told) == 20
    assert {line.split()[0] for line in struck.told} == {"start", "kill", "close"}
    assert 36_000 < struck.recorder.now_ms() < 40_000  # evenly over the time
    heal()
    assert sorted(struck.members.alive) == [0, 1, 2]


def test_somebody_is_always_left_in_a_storm() -> None:
    for seed in range(30):
        struck = Struck()
        struck.strike("storm", WholeGroup(), at_ms=seed, lasts_ms=40_000, changes=40)
        living = 3
        for line in struck.told:
            living += 1 if line.startswith("start") else -1
            assert 1 <= living <= 6


@pytest.mark.parametrize(("ending", "order"), [("killed", "kill"), ("closed", "close")])
def test_a_member_ends_at_its_moment_of_catching_up_and_is_replaced(ending: str, order: str) -> None:
    struck = Struck()
    struck.members.moments = {("member1.1", "between-commits")}
    struck.strike("catch-up-end", OneMember(1), moment="between-commits", ending=ending)()
    assert struck.told == [f"{order} member1.1", "start member1.2"]


def test_a_member_that_never_comes_to_the_moment_fails_the_run() -> None:
    struck = Struck()
    struck.members.moments = {("member1.1", "catching-up"), ("member0.1", "handed-over")}
    with pytest.raises(MomentError, match="member 1 never was handed-over"):
        struck.strike("catch-up-end", OneMember(1), moment="handed-over")
