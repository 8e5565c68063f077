"""The invariants of `kwire.testing.invariants` over a history too large for one process, as a Spark job.

A history is the lines of a `Ledger`, in files. `audit` answers what `check` would, of the whole of it. Spark throws
away the records that cannot matter to any invariant (`thinning.py` says which, and why), and `check` itself judges what
is left: so there is one set of rules, and one verdict.
"""

from __future__ import annotations

from kwire.spark.audit.job import Audit, audit

__all__ = ["Audit", "audit"]
