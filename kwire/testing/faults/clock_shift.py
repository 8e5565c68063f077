"""Wall clocks that jump: libfaketime, loaded into a member, reads from a file how far its clock is to be off.

The monotonic clock goes on as it is. Linux with libfaketime installed can do this; `find_faketime` says whether it is
there. Called by the harness, which refuses what needs it without it, and where members start.
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
    """The command that runs a program whose wall clock is off by what stands in the file `shift`."""
    environment = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(shift),
        "FAKETIME_NO_CACHE": "1",  # or a jump would come up to 10 s late
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Or it sees to waits by the monotonic clock, too: then each change of threads in Python takes milliseconds.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
    return ["env", *(f"{name}={value}" for name, value in environment.items()), *command]


def write_shift(shift: Path, step_ms: int) -> None:
    """The clock is off by so much from now on. A rename: a member never reads half a number."""
    part = shift.with_suffix(".part")
    part.write_text(f"{step_ms / 1000:+.3f}\n")
    part.rename(shift)
