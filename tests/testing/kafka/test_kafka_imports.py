"""What `import kwire.testing.kafka` loads: the standard library, and of kwire nothing that is under test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kwire

OWN = ("kwire.testing", "kwire.testing.kafka")


def loaded_by(code: str) -> frozenset[str]:
    """The modules that a fresh interpreter has after the code."""
    # -S: what the environment's .pth files import is not ours. They may also be how kwire is found.
    path = [str(Path(kwire.__file__).parents[1]), *sys.path]
    script = f"import sys; sys.path[:] = {path!r}\n{code}\nprint(*sys.modules)"
    return frozenset(subprocess.check_output([sys.executable, "-S", "-c", script], text=True).split())


@pytest.mark.slow
def test_real_kafka_is_loaded_with_the_standard_library_alone() -> None:
    added = loaded_by("import kwire.testing.kafka") - loaded_by("import kwire")
    assert "kwire.testing.kafka.cluster" in added
    others = {name for name in added if name not in OWN and not name.startswith("kwire.testing.kafka.")}
    assert {name for name in others if name.partition(".")[0] not in sys.stdlib_module_names} == set()
