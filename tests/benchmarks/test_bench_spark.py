"""What `scripts/bench spark` demands, and how it counts processor time."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks import spark
from benchmarks.turns import Figures


def test_each_case_has_its_targets() -> None:
    found = spark.targets(["w100", "wkh"], ["noop"])
    assert [(target.case, target.to, target.limit) for target in found] == [
        ("w100 noop", "kafka", 2.0),
        ("w100 noop", "kafka, tuned", 1.5),
        ("wkh noop", "kafka", 1.2),
    ]


def test_twice_the_rate_meets_the_target() -> None:
    def rates(participant: str, *rounds: float) -> Figures:
        return Figures(case="w100 noop", name=spark.RATE, participant=participant, rounds=rounds)

    (target, _) = spark.targets(["w100"], ["noop"])
    assert target.verdict([rates("kwire", 2.0, 2.2), rates("kafka", 1.0, 1.0)]).startswith("met")
    assert target.verdict([rates("kwire", 1.9, 1.8), rates("kafka", 1.0, 1.0)]).startswith("MISSED")


def test_processor_time_is_that_of_children_too() -> None:
    """A child that burns some is counted while it runs, and when it has ended."""
    burn = "import time; t = time.process_time()\nwhile time.process_time() < t + 0.2: pass\nprint(flush=True); input()"
    before_s = spark.cpu_s_of(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    running_s = spark.cpu_s_of(os.getpid())
    child.communicate(b"\n")
    assert running_s - before_s >= 0.15
    assert spark.cpu_s_of(os.getpid()) - before_s >= 0.15
