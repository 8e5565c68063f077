"""Deterministic simulation: whole consumer groups in one thread, on a virtual clock, against a cluster in memory.

`simulate(seed)` runs one world and judges it; the same seed gives the same run, byte for byte, in every process.
"""

from __future__ import annotations

from kwire.testing.simulation.run import WorldOutcome, simulate

__all__ = ["WorldOutcome", "simulate"]
