"""`scripts/bench startup`: programs are timed from the outside, less what Python takes by itself."""

from __future__ import annotations

import pytest

from benchmarks import startup
from benchmarks.startup import IMPORT, IN_GROUP, INTERPRETER, PEER, TARGETS, less_interpreter, timed
from benchmarks.throughput.turn import WrongAnswerError
from benchmarks.turns import OWN, Figures


def test_what_python_takes_by_itself_is_taken_off_round_by_round() -> None:
    results = [
        Figures(case=IMPORT, name="wall_ms", participant=INTERPRETER, rounds=(10.0, 20.0)),
        Figures(case=IMPORT, name="wall_ms", participant=OWN, rounds=(110.0, 130.0)),
    ]
    (own,) = less_interpreter(results)
    assert (own.participant, own.rounds) == (OWN, (100.0, 110.0))


def test_a_program_that_prints_something_else_has_no_time() -> None:
    assert timed("nobody", "print(3)", "3\n")["wall_ms"] > 0
    with pytest.raises(WrongAnswerError, match=r"printed '' instead of '3\\n'; (?s:.*)oh dear"):
        timed("nobody", "raise SystemExit('oh dear')", "3\n")


@pytest.mark.integration
@pytest.mark.slow
def test_the_first_record_of_a_real_broker_is_timed() -> None:
    results = startup.run(rounds=1)
    assert all(target.verdict(results).split()[0] in ("met", "MISSED") for target in TARGETS)
    assert {each.participant for each in results} >= {OWN, PEER, "numpy"}
    assert {each.participant for each in results if each.case == IN_GROUP} == set(startup.MEMBERS)
