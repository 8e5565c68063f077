"""The protocol conformance suite: it checks whether a broker speaks Kafka's protocol as Kafka does.

It uses messages and frames (`kwire.protocol`), and nothing of the consumer built on them. `run` checks a running broker
and returns a `Report`; `kwire conformance` and the pytest plugin `kwire.conformance.plugin` call it.
"""

from __future__ import annotations

from kwire.conformance.report import CaseStatus, Report, Result
from kwire.conformance.runner import run

__all__ = ["Report", "Result", "CaseStatus", "run"]
