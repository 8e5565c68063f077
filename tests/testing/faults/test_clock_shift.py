"""Clocks that jump: where libfaketime is found, and how a program is told how far its clock is off."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kwire.testing.faults import harness
from kwire.testing.faults.clock_shift import find_faketime, with_shifted_clock, write_shift
from kwire.testing.faults.order import Progress, RunOrder
from kwire.testing.faults.schedule_text import parse

CLOCKS = "import time; print(time.time(), time.monotonic())"


def test_the_library_is_found_where_distributions_put_it(tmp_path: Path) -> None:
    library = tmp_path / "x86_64-linux-gnu" / "faketime" / "libfaketimeMT.so.1"
    library.parent.mkdir(parents=True)
    assert find_faketime([str(tmp_path)]) is None
    library.touch()
    assert find_faketime([str(tmp_path)]) == library
    assert find_faketime([str(tmp_path / "x86_64-linux-gnu")]) == library


@pytest.mark.parametrize(
    ("step_ms", "text"), [(3_600_000, "+3600.000\n"), (-1_500, "-1.500\n"), (0, "+0.000\n"), (7, "+0.007\n")]
)
def test_a_shift_is_written_in_seconds_with_its_sign(step_ms: int, text: str, tmp_path: Path) -> None:
    shift = tmp_path / "clock"
    write_shift(shift, step_ms)
    assert shift.read_text() == text
    assert list(tmp_path.iterdir()) == [shift]


def test_the_program_runs_with_the_library_and_its_own_process_id(tmp_path: Path) -> None:
    command = with_shifted_clock(["member", "--flag"], Path("/lib/libfaketime.so.1"), tmp_path / "clock")
    assert command[0] == "env"
    assert "LD_PRELOAD=/lib/libfaketime.so.1" in command
    assert f"FAKETIME_TIMESTAMP_FILE={tmp_path / 'clock'}" in command
    assert "FAKETIME_FORCE_MONOTONIC_FIX=0" in command, "a group could not read as fast as records come"
    assert command[-2:] == ["member", "--flag"]


@pytest.mark.skipif(find_faketime() is None or shutil.which("env") is None, reason="needs libfaketime")
def test_only_the_wall_clock_is_shifted(tmp_path: Path) -> None:
    library = find_faketime()
    assert library is not None
    write_shift(tmp_path / "clock", 3_600_000)
    command = with_shifted_clock([sys.executable, "-S", "-c", CLOCKS], library, tmp_path / "clock")
    wall_s, monotonic_s = map(float, subprocess.run(command, capture_output=True, check=True).stdout.split())
    assert wall_s - time.time() == pytest.approx(3_600, abs=30)
    assert monotonic_s == pytest.approx(time.monotonic(), abs=30)


def test_a_run_that_needs_it_says_how_to_get_it_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "find_faketime", lambda: None)
    order = RunOrder(schedule=parse("at 10s clock-jump group 1h for 5s\nend 20s"), name="kwire")
    watched: list[Progress] = []
    with pytest.raises(harness.FaultsError, match=r"needs libfaketime .*: apt-get install libfaketime"):
        harness.run(order, watched.append)
    assert watched == []
