"""Reports of fault runs: figures, a verdict, a picture, one page. Pure functions from a ledger to text.

`kwire faults` calls this; so can a program that has written such a ledger.
"""

from __future__ import annotations

from kwire.testing.faults.report.compare import as_text, recoveries_as_text
from kwire.testing.faults.report.page import page
from kwire.testing.faults.report.run import ExpectedRecovery, FaultRun, MemorySample
from kwire.testing.faults.report.summary import Summary, summarize
from kwire.testing.faults.report.timeline import timeline
from kwire.testing.faults.report.verdict import verdict

__all__ = [
    "ExpectedRecovery",
    "MemorySample",
    "FaultRun",
    "Summary",
    "as_text",
    "page",
    "recoveries_as_text",
    "summarize",
    "timeline",
    "verdict",
]
