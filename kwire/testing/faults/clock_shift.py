"""Shifts of wall clocks: libfaketime, loaded into a member, reads from a file how far the member's clock is off.

The monotonic clock is not changed. This needs Linux and libfaketime; `find_faketime` looks for it. Called by the
harness, which refuses schedules that need a missing libfaketime, and where members start.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

LIBRARY = "libfaketimeMT.so.1"  # the one for programs with threads
PLACES = ("/usr/lib", "/usr/local/lib", "/lib")
HOW_TO_INSTALL = "Debian and Ubuntu have it: apt-get install libfaketime"


def find_faketime(places: Sequence[str] = PLACES) -> Path | None:
    """The library, or None if it is not installed."""
    patterns = (f"faketime/{LIBRARY}", f"*/faketime/{LIBRARY}")
    found = (path for place in places for pattern in patterns for path in sorted(Path(place).glob(pattern)))
    return next(found, None)


def with_shifted_clock(command: Sequence[str], library: Path, shift: Path) -> list[str]:
    """The command that runs a program whose wall clock is off by the time in the file `shift`."""
    environment = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(shift),
        "FAKETIME_NO_CACHE": "1",  # or a jump would come up to 10 s late
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Else libfaketime changes monotonic waits, too, and each switch of threads in Python takes milliseconds.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    return ["env", *(f"{name}={value}" for name, value in environment.items()), *command]


def write_shift(shift: Path, step_ms: int) -> None:
    """Set the shift of the clock. The file is replaced by a rename, so that a member never reads half a number."""
    part = shift.with_suffix(".part")
    part.write_text(f"{step_ms / 1000:+.3f}\n")
    part.rename(shift)
