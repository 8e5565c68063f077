"""The output of `kwire faults run`: progress on stderr, and figures and verdicts on stdout at the end."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from kwire.testing.faults.order import Progress, RunOutcome
    from kwire.testing.faults.report import Summary
    from kwire.testing.faults.report.recovery import Recovery

SECONDS_BETWEEN = 1.0
MAX_VIOLATIONS = 10


class ProgressLine:
    """The progress: on a terminal one line, updated once a second; elsewhere a line for each change.

    Args:
        name: the name of the client.
        end_ms: the end of the schedule.
    """

    def __init__(self, name: str, *, end_ms: int, stream: TextIO | None = None) -> None:
        self._name = name
        self._end_ms = end_ms
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._told_s = float("-inf")
        self._told: tuple[str, tuple[str, ...]] | None = None

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=self._stream, flush=True)

    def __call__(self, progress: Progress) -> None:
        now_s, what = time.monotonic(), (progress.phase, progress.faults)
        if what == self._told and not (self._is_terminal and now_s - self._told_s >= SECONDS_BETWEEN):
            return
        self._told_s, self._told = now_s, what
        line = described(progress, self._name, self._end_ms)
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{line[:width]}", end="", file=self._stream, flush=True)
        else:
            print(line, file=self._stream, flush=True)


def described(progress: Progress, name: str, end_ms: int) -> str:
    """`kwire  12.0 of 45 s  running  5 840 sent, 12 unread, 3 members  broker-kill`."""
    head = f"{name}  {progress.at_ms / 1000:.0f} of {end_ms / 1000:.0f} s  {progress.phase}"
    counts = f"{progress.sent} sent, {progress.unread} unread, {progress.members} members"
    faults = ", ".join(progress.faults)
    return f"{head}  {counts}  {faults}".rstrip()


def tell(outcomes: Sequence[RunOutcome]) -> bool:
    """Print what came of it, keep or delete the members' logs; whether everything was kept."""
    from kwire.testing.faults.report import as_text, recoveries_as_text, summarize

    summaries = [summarize(outcome.run) for outcome in outcomes]
    print(as_text(summaries))
    is_comparison = len(outcomes) > 1
    if is_comparison:
        print(recoveries_as_text(summaries))
        print("in brackets: past the bound, and not judged, as other faults were at work\n")
    for outcome, summary in zip(outcomes, summaries, strict=True):
        for line in _story(outcome, summary, summary.late if is_comparison else summary.recoveries):
            print(line)
        if summary.has_passed:
            shutil.rmtree(outcome.logs, ignore_errors=True)
    return all(summary.has_passed for summary in summaries)


def _story(outcome: RunOutcome, summary: Summary, recoveries: Sequence[Recovery]) -> Iterator[str]:
    from kwire.testing.faults.report import verdict

    yield verdict(summary)
    yield from map(_recovered, recoveries)
    yield from (f"  note: {note}" for note in outcome.notes)
    yield from (f"  VIOLATION {violation}" for violation in outcome.run.violations[:MAX_VIOLATIONS])
    if len(outcome.run.violations) > MAX_VIOLATIONS:
        yield f"  and {len(outcome.run.violations) - MAX_VIOLATIONS} more"
    if not summary.has_passed:
        yield f"  what the members printed is in {outcome.logs}"
    if outcome.run.replay:
        yield f"  again: {outcome.run.replay}"


def _recovered(recovery: Recovery) -> str:
    """`   10.0 s  broker-kill leader orders-0 for 20s: broker 1  took 9.31 s of 11.00 s  in time`."""
    fault = recovery.fault
    took = "for ever" if recovery.took_ms is None else f"{recovery.took_ms / 1000:.2f} s"
    bound = "" if recovery.bound_ms is None else f" of {recovery.bound_ms / 1000:.2f} s"
    what = f"{fault.began_ms / 1000:7.1f} s  {fault.fault} {fault.detail}"
    return f"{what}  took {took}{bound}  {recovery.judgement.value}{_unwritten(recovery)}"


def _unwritten(recovery: Recovery) -> str:
    """A member that is late may have waited for brokers that were."""
    if recovery.judgement.value != "late" or recovery.unwritten_ms is None:
        return ""
    return f": for {recovery.unwritten_ms / 1000:.2f} s of it nothing could be written to {recovery.slowest} either"
