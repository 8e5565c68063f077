"""Runs worlds of the kwire that is on the path, until one finds something; started by `cli.py`.

They are of the kind "polling"; or "processing", with members that run a `Processor`; or "crashing": crash orders.

Prints one line of JSON for each world: its seed when it begins, and what it found, if it found anything. A world that
takes too long ends the process: then the last line is that of a beginning. It is processor time that is limited, so
that a busy machine does not look like a bug, and, much later, any time, for worlds that wait for nothing.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import signal
import sys

WAITING_FACTOR = 6


def main(kind: str, limit_seconds: float, seeds: list[int]) -> None:
    from kwire.testing.simulation.crash_orders import crash_in_order
    from kwire.testing.simulation.run import simulate

    logging.disable(logging.CRITICAL)
    for seed in seeds:
        print(json.dumps({"seed": seed}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, limit_seconds)  # nobody handles SIGPROF, so it ends the process
        faulthandler.dump_traceback_later(limit_seconds * WAITING_FACTOR, exit=True)
        try:
            outcome = crash_in_order(seed) if kind == "crashing" else simulate(seed, processing=kind == "processing")
            rules = [violation.rule for violation in outcome.violations]
        except BaseException as error:  # noqa: BLE001  a world that breaks has found something, too
            rules = [f"the world broke: {_innermost(error)!r}"]
        if rules:
            print(json.dumps({"seed": seed, "rules": list(dict.fromkeys(rules))}), flush=True)
            return


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), [int(seed) for seed in sys.argv[3:]])
