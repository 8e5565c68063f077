"""Runs worlds of the kwire that is on the path, and writes their histories into a directory; started by `worlds.py`.

    python worker.py KIND SECONDS DIRECTORY SEED...

Kinds: "plain", "processor", "catch-up". A history is `KIND-SEED.jsonl`, the lines of its ledger; beside it stands
`KIND-SEED.rules` with the rules that the world's own judge found broken, one a line. Of a world whose history cannot be
told there are no lines. One that takes more of a processor's time than it may ends the process. Imports nothing but
kwire, which may be a copy with a bug in it.
"""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path


def main(kind: str, limit_seconds: float, directory: Path, seeds: list[int]) -> None:
    logging.disable(logging.CRITICAL)
    for seed in seeds:
        print(seed, flush=True)
        signal.setitimer(signal.ITIMER_PROF, limit_seconds)  # nobody handles SIGPROF, so it ends the process
        if kind == "catch-up" and has_several_children(seed):
            directory.joinpath(f"{kind}-{seed}.rules").touch()
            continue
        lines, rules = history(kind, seed)
        directory.joinpath(f"{kind}-{seed}.rules").write_text("".join(f"{rule}\n" for rule in rules))
        part = directory / f"{kind}-{seed}.part"
        part.write_text("".join(f"{line}\n" for line in lines))
        part.rename(part.with_suffix(".jsonl"))


def has_several_children(seed: int) -> bool:
    """Whether a partition may have several child cursors at once, which a ledger does not tell apart."""
    from kwire.testing.simulation.crash_plan import draw_plan

    return draw_plan(seed).children > 1


def history(kind: str, seed: int) -> tuple[list[str], list[str]]:
    """The lines of the ledger, and the rules that are broken."""
    from kwire.testing.invariants.ledger import Ledger
    from kwire.testing.simulation.crash_ledger import TellingJudge
    from kwire.testing.simulation.crash_orders import crash_in_order
    from kwire.testing.simulation.run import simulate

    if kind == "catch-up":
        ledger = Ledger()
        violations = crash_in_order(seed, TellingJudge.of(ledger)).violations
    else:
        outcome = simulate(seed, processing=kind == "processor")
        ledger, violations = outcome.ledger, outcome.violations
    return list(ledger.lines()), list(dict.fromkeys(violation.rule for violation in violations))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]), [int(seed) for seed in sys.argv[4:]])
