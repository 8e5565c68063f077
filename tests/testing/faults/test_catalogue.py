"""The catalogue is whole: what a schedule, a report and the table of faults need to know of each kind is there."""

from __future__ import annotations

import re

import pytest

from kwire.testing.faults.bounds import Bound, RunSettings, within
from kwire.testing.faults.catalogue import KINDS, described
from kwire.testing.faults.kind import Amount, Choice, FaultKind
from kwire.testing.faults.scenario_rows import LEFT_OUT
from kwire.testing.faults.scenarios import scenarios
from kwire.testing.simulation.faults import FAULTS

EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())

ROWS = {scenario.row.number: scenario for scenario in scenarios().values()}


@EACH
def test_a_kind_says_what_it_is_in_one_sentence(kind: FaultKind) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.name)
    assert re.fullmatch(r"[A-Z].{10,110}\.", kind.description)
    assert kind.heals
    assert kind.targets


@EACH
def test_defaults_are_in_their_range_and_names_carry_their_units(kind: FaultKind) -> None:
    for parameter in kind.parameters:
        assert parameter.allows(parameter.default)
        assert parameter.parse(parameter.render(parameter.default)) == parameter.default
        if isinstance(parameter, Amount) and parameter.quantity.units[0][0]:
            assert re.search(r"_(ms|us|bytes|percent|bytes_per_second|kbits_per_second)$", parameter.name)
    if kind.lasting is not None:
        assert kind.lasting.least_ms <= kind.lasting.default_ms <= kind.lasting.most_ms


@EACH
def test_a_parameter_refuses_what_is_out_of_its_range_and_says_what_is_not(kind: FaultKind) -> None:
    for parameter in kind.parameters:
        beyond = parameter.render(parameter.most + 1) if isinstance(parameter, Amount) else "sideways"
        with pytest.raises(ValueError, match=f"{re.escape(parameter.allowed)} is allowed"):
            parameter.parse(beyond)


@EACH
def test_the_words_of_a_kind_mean_one_thing_each(kind: FaultKind) -> None:
    words = [parameter.word for parameter in kind.parameters if isinstance(parameter, Amount)]
    words += [word for parameter in kind.parameters if isinstance(parameter, Choice) for word in parameter.words]
    assert len(words) == len(set(words)), "two parameters with one word, or two without"
    assert "for" not in words


@EACH
def test_what_has_to_be_below_what_names_parameters_and_holds_by_default(kind: FaultKind) -> None:
    for less, more in kind.increasing:
        assert int(kind.defaults[less]) < int(kind.defaults[more])


@EACH
def test_a_bound_is_a_formula_of_the_settings(kind: FaultKind) -> None:
    longer = RunSettings(session_timeout_ms=60_000, request_timeout_ms=60_000, broker_session_timeout_ms=60_000)
    assert 0 < kind.bound.in_ms(RunSettings()) <= 60_000
    if "session_timeout_ms" in kind.bound.settings:
        assert kind.bound.in_ms(longer) - kind.bound.in_ms(RunSettings()) >= 50_000


@EACH
def test_a_kind_serves_rows_that_are_scenarios_with_it(kind: FaultKind) -> None:
    serving = [row for row in kind.rows if any(step.fault == kind.name for step in ROWS[row].schedule.steps)]
    assert serving, f"{kind.name} strikes in none of the rows {kind.rows}"
    assert not set(kind.rows) & set(LEFT_OUT)


def test_a_fault_that_simulated_worlds_have_is_known_by_its_name_there() -> None:
    named = [kind.simulated_as for kind in KINDS.values() if kind.simulated_as is not None]
    assert set(named) <= set(FAULTS)
    assert len(named) == len(set(named)) > 0


def test_formulas_are_told_in_words() -> None:
    assert within(2_000, "request_timeout_ms", "request_timeout_ms").formula == "2 x request_timeout_ms + 2000 ms"
    assert within(0, "session_timeout_ms").formula == "session_timeout_ms"
    assert within(0).formula == "0 ms"
    assert within(2_000, "session_timeout_ms").in_ms(RunSettings(session_timeout_ms=7_000)) == 9_000


def test_a_bound_names_settings_that_a_run_has() -> None:
    with pytest.raises(ValueError, match="sesion_timeout_ms"):
        Bound(settings=("sesion_timeout_ms",))


def test_the_catalogue_tells_of_every_kind() -> None:
    lines = described().splitlines()
    assert [line.split(":")[0] for line in lines if not line.startswith(" ")] == list(KINDS)
    assert "    parameter  jitter_ms: so much more or less (0ms to 30s; 0ms unless told otherwise)" in lines
