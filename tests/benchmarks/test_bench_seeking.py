"""`scripts/bench seeking`: what its worker takes for an answer, and a run against Kafka."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from benchmarks import cli as benchmarks_cli
from benchmarks.seeking import CASES, PARTICIPANTS, PEER
from benchmarks.seeking_worker import TASKS, Found, Mover, commit, look_up, rotation
from benchmarks.turns import OWN


class Shelf(Mover):
    """Returns from where it was asked to go on, two records a call."""

    def __init__(self, end: int = 10) -> None:
        self.ends = {0: end, 1: end}
        self._at = dict.fromkeys(self.ends, 0)
        self._paused: set[int] = set()
        self.polled: list[list[int]] = []
        self.committed: list[tuple[int, int]] = []
        self.write = self._append

    def seek(self, offsets: Mapping[int, int]) -> None:
        self._at |= offsets

    def pause(self, partitions: Collection[int]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[int]) -> None:
        self._paused -= set(partitions)

    def read(self, wait_s: float) -> Found:
        self.polled.append([number for number in self.ends if number not in self._paused])
        found: list[tuple[int, int]] = []
        for number in self.polled[-1]:
            stop = min(self._at[number] + 2, self.ends[number])
            found += [(number, offset) for offset in range(self._at[number], stop)]
            self._at[number] = stop
        return found

    def _append(self, partition: int) -> None:
        self.ends |= {partition: self.ends[partition] + 1}

    def look_up_ends(self) -> Mapping[int, int]:
        return self.ends

    def commit(self, partition: int, offset: int) -> None:
        self.committed.append((partition, offset))

    def close(self) -> None:
        pass


def test_each_case_has_a_task_and_each_task_finds_what_it_seeks() -> None:
    assert list(TASKS) == list(CASES)
    for name, seconds in (
        ("look-up", 0.0),
        ("tail", 0.0),
        ("rotation", 60.0),
        ("backpressure", 60.0),
        ("backlog", 0.0),
    ):
        assert all(figure > 0 for figure in TASKS[name](Shelf(20), seconds).values())


def test_a_turn_that_was_over_before_its_first_look_has_a_figure() -> None:
    """A machine that stood still for the time of a turn has one look to tell of."""
    assert look_up(Shelf(), 0.0)["ms"] > 0


def test_look_ups_read_one_partition_and_a_rotation_each_of_them_in_turn() -> None:
    shelf = Shelf()
    look_up(shelf, 0.0)
    assert {tuple(each) for each in shelf.polled} == {(0,)}
    shelf = Shelf()
    rotation(shelf, 60.0)
    assert shelf.polled[:4] == [[0], [1], [0], [1]]


def test_commits_are_of_one_record_after_the_other() -> None:
    shelf = Shelf(1_000)
    assert commit(shelf, 0.0)["ms"] >= 0
    assert shelf.committed == [(0, 1), (0, 2)]


def test_a_record_that_does_not_come_ends_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.seeking_worker.GIVE_UP_S", 0.0)
    shelf = Shelf()
    monkeypatch.setattr(shelf, "read", lambda wait_s: [(1, 1)])
    with pytest.raises(SystemExit, match="of partition 0: not there"):
        look_up(shelf, 1.0)


@pytest.mark.integration
def test_everybody_finds_what_is_sought(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    arguments = [
        "seeking",
        "--case",
        "look-up",
        "--case",
        "tail",
        "--case",
        "backlog",
        "--case",
        "commit",
        "--rounds",
        "1",
        "--seconds",
        "1",
    ]
    assert benchmarks_cli.main([*arguments, "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["results"]
    assert {row["participant"] for row in rows} == set(PARTICIPANTS) >= {OWN, PEER}
    assert {row["case"] for row in rows} == {CASES[case] for case in ("look-up", "tail", "backlog", "commit")}
    assert all(row["median"] > 0 for row in rows)
