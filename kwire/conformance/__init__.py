"""The protocol conformance suite: it checks whether a broker speaks Kafka's protocol as Kafka does.

An independent judge: it knows messages and frames (`kwire.protocol`) and nothing of the consumer built on them. `run`
drives a live broker and answers a `Report`; `kwire conformance` and the pytest plugin `kwire.conformance.plugin` are
the two ways to call it.
"""

from __future__ import annotations

from kwire.conformance.report import CaseStatus, Report, Result
from kwire.conformance.runner import run

__all__ = ["Report", "Result", "CaseStatus", "run"]
