"""Spark's Python processes are used again, and garbage is collected in between."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import kwire

PROGRAM = """
import gc
from kwire.spark.{module}

def frozen():
    {call}
    return gc.get_freeze_count()

print(frozen(), frozen(), frozen())
"""
CALLS = {
    "creates a source": (
        "source import KwireDataSource",
        "KwireDataSource({'kafka.bootstrap.servers': 'a:1', 'subscribe': 't'}).schema()",
    ),
    "reads": ("batch import InputPartition, read_partition", "list(read_partition(InputPartition(None), None))"),
}

FAULTS = """
import resource
import numpy as np
from kwire.spark.reused_process import keep_freed_memory

keep_freed_memory()
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batches = [np.ones(4 * 1024 * 1024, np.uint8) for _ in range(4)]
    del batches
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def frozen_after_each(call: str, **environment: str) -> list[int]:
    """How many objects no collection looks at, after the first, the second and the third of these calls."""
    module, code = CALLS[call]
    return numbers_of(PROGRAM.format(module=module, call=code), **environment)


def numbers_of(program: str, **environment: str) -> list[int]:
    """What it prints."""
    path = os.pathsep.join([str(Path(kwire.__file__).parents[1]), *sys.path])
    given = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    said = subprocess.check_output([sys.executable, "-c", program], env={**given, "PYTHONPATH": path, **environment})
    return [int(number) for number in said.split()]


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_a_process_that_is_used_again_takes_its_modules_out_of_collections_once(call: str) -> None:
    first, second, third = frozen_after_each(call, SPARK_REUSE_WORKER="1")
    assert first == 0
    assert second > 10_000
    assert third <= second


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_any_other_process_is_left_as_it_is(call: str) -> None:
    assert frozen_after_each(call) == [0, 0, 0]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere it is left as it is")
def test_memory_of_one_batch_is_there_for_the_next() -> None:
    (pages,) = numbers_of(FAULTS, SPARK_REUSE_WORKER="1")
    (pages_elsewhere,) = numbers_of(FAULTS)
    assert pages < 100 < 1_000 < pages_elsewhere
