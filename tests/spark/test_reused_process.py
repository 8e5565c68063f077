"""Spark's Python processes are used again, and garbage is collected in between."""

from __future__ import annotations

import os
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
    "creates a source": ("source import KwireDataSource", "KwireDataSource({}).schema()"),
    "reads": ("batch import InputPartition, read_partition", "list(read_partition(InputPartition(None), None))"),
}


def frozen_after_each(call: str, **environment: str) -> list[int]:
    """How many objects no collection looks at, after the first, the second and the third of these calls."""
    module, code = CALLS[call]
    path = os.pathsep.join([str(Path(kwire.__file__).parents[1]), *sys.path])
    command = [sys.executable, "-c", PROGRAM.format(module=module, call=code)]
    given = {name: value for name, value in os.environ.items() if name != "SPARK_REUSE_WORKER"}
    said = subprocess.check_output(command, env={**given, "PYTHONPATH": path, **environment})
    return [int(count) for count in said.split()]


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
