"""Every row of the table of faults is a schedule that makes sense, or is left out with a reason."""

from __future__ import annotations

import pytest

from kwire.testing.faults.bounds import within
from kwire.testing.faults.catalogue import KINDS
from kwire.testing.faults.scenario_rows import LEFT_OUT, Expectation
from kwire.testing.faults.scenarios import RowScenario, scenarios
from kwire.testing.faults.schedule_text import parse, render

ROWS = range(1, 51)
# What the table says about rows for a real cluster, or proxies in front of it.
FOR_REAL = {*range(1, 4), 5, *range(7, 16), 19, *range(22, 25), *range(27, 35), *range(38, 44), 45, 46, 48, 49}

ALL = scenarios()
EACH = pytest.mark.parametrize("scenario", ALL.values(), ids=ALL.keys())


def test_every_row_is_a_scenario_or_left_out_with_a_reason() -> None:
    made = [scenario.row.number for scenario in ALL.values()]
    assert sorted([*made, *LEFT_OUT]) == list(ROWS)
    assert set(made) >= FOR_REAL
    assert all(len(reason) > 20 for reason in LEFT_OUT.values())


@EACH
def test_a_scenario_is_named_by_its_row_and_told_as_text(scenario: RowScenario) -> None:
    assert ALL[f"row-{scenario.row.number:02}"] is scenario
    assert scenario.schedule.title.startswith(f"row {scenario.row.number}: ")
    assert parse(render(scenario.schedule)) == scenario.schedule


@EACH
def test_a_scenario_strikes_with_a_fault_of_its_row(scenario: RowScenario) -> None:
    assert any(scenario.row.number in step.kind.rows for step in scenario.schedule.steps)


@EACH
def test_a_scenarios_bounds_are_of_its_faults_and_no_looser_than_the_catalogues(scenario: RowScenario) -> None:
    assert set(scenario.row.bounds) <= {step.fault for step in scenario.schedule.steps}
    assert 0 < scenario.within_ms <= 30_000
    if scenario.row.number not in (22, 49):  # whose records are deleted while nobody can read
        loosest = scenario.schedule.bounds_ms()
        assert all(scenario.bounds_ms()[fault] <= loosest[fault] for fault in scenario.row.bounds)


@EACH
def test_a_scenario_leaves_time_to_begin_and_to_recover(scenario: RowScenario) -> None:
    steps = scenario.schedule.steps
    assert steps[0].at_ms >= 10_000
    assert scenario.schedule.end_ms - max(step.ends_ms for step in steps) >= 5_000


@pytest.mark.parametrize(
    ("row", "within_ms"), [(1, 11_000), (2, 7_000), (3, 1_000), (5, 2_000), (7, 8_000), (8, 2_000)]
)
def test_rows_with_a_figure_have_it_as_their_bound(row: int, within_ms: int) -> None:
    assert ALL[f"row-{row:02}"].within_ms == within_ms


def test_a_rows_own_bound_goes_before_the_catalogues() -> None:
    row = ALL["row-08"]
    assert row.row.bounds == {"partition-all": within(2_000)}
    assert row.bounds_ms() == {"partition-all": 2_000}
    assert KINDS["partition-all"].bound.in_ms(row.schedule.settings) > 2_000


@pytest.mark.parametrize("row", [1, 2, 8, 28, 34])
def test_rows_that_allow_no_rebalance_say_so(row: int) -> None:
    assert Expectation.NO_REBALANCE in ALL[f"row-{row:02}"].expects


def test_outages_are_shorter_and_longer_than_a_session_where_the_rows_say_so() -> None:
    shorter, longer = ALL["row-08"].schedule, ALL["row-09"].schedule
    assert all((step.lasts_ms or 0) < shorter.settings.session_timeout_ms for step in shorter.steps)
    assert all((step.lasts_ms or 0) > longer.settings.session_timeout_ms for step in longer.steps)
    frozen, stuck = ALL["row-30"].schedule, ALL["row-33"].schedule
    assert frozen.steps[0].lasts_ms == 2 * frozen.settings.session_timeout_ms
    assert (stuck.steps[0].lasts_ms or 0) > stuck.settings.max_poll_interval_ms
    forbidden = ALL["row-41"].schedule
    assert (forbidden.steps[1].lasts_ms or 0) > forbidden.settings.session_timeout_ms
