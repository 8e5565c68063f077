"""A machine that was busy during a run is told of; one that was not is not."""

from __future__ import annotations

import os

import pytest

from kwire.testing.faults.machine import Load


def looked_at(monkeypatch: pytest.MonkeyPatch, averages: list[float]) -> Load:
    load = Load(processors=2)
    for average in averages:
        monkeypatch.setattr(os, "getloadavg", lambda average=average: (average, 90.0, 90.0))
        load.look()
    return load


def test_the_highest_load_is_noted_if_it_was_unusual(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = looked_at(monkeypatch, [3.0, 17.4, 5.0]).notes
    assert notes == ("the machine was busy: a load of 17 on 2 processors",)


@pytest.mark.parametrize("averages", [[], [2.0, 8.0, 1.0]])
def test_what_a_run_itself_needs_is_not_noted(averages: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at(monkeypatch, averages).notes == ()
