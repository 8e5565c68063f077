"""`python -m proofs.kafkatest.driver PLAN`: makes the machines, and runs ducktape on them. It runs in namespaces of its
own (`running` starts it so), with which everything that it starts ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from proofs.kafkatest.machines import start_machines

# A JVM takes a core to itself while it compiles, and up to ten of them share a few here.
SMALL_JVMS = {
    "KAFKA_HEAP_OPTS": "-Xmx384M",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "INCLUDE_TEST_JARS": "true",  # else kafka-run-class.sh starts grep for each jar
}
PASSED_ON = ("HOME", "LANG", "JAVA_HOME", "USER", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of ducktape, of one test."""

    ducktape: str
    """The Python of its environment."""
    machines: int
    folder: str
    """Where it may write."""
    tests: str
    """The folder that holds `kafkatest`."""
    repository: str
    commands: str
    """A folder of commands that the tests need and a machine may lack."""
    symbol: str
    """The test."""
    globals: Mapping[str, object]

    def write_to(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def read_from(cls, path: Path) -> Plan:
        return cls(**json.loads(path.read_text()))


def drive(plan: Plan) -> int:
    """Ducktape's exit code: 0 if the test passed."""
    folder = Path(plan.folder)
    machines = start_machines(plan.machines, folder)
    cluster, global_file = folder / "machines.json", folder / "globals.json"
    cluster.write_text(json.dumps([machine.to_json() for machine in machines]))
    global_file.write_text(json.dumps(plan.globals))
    command = [
        plan.ducktape, "-m", "ducktape", plan.symbol,
        "--cluster", "proofs.kafkatest.in_ducktape.accounts.MachineCluster", "--cluster-file", str(cluster),
        "--globals", str(global_file), "--results-root", str(folder / "results"),
    ]  # fmt: skip
    return subprocess.run(command, cwd=plan.tests, env=environment(plan), check=False).returncode


def environment(plan: Plan) -> dict[str, str]:
    """Of ducktape, and of each command on a machine."""
    known = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    path = f"{plan.commands}:{os.environ['PATH']}"
    return {**known, **SMALL_JVMS, "PATH": path, "PYTHONPATH": f"{plan.tests}:{plan.repository}"}


if __name__ == "__main__":
    sys.exit(drive(Plan.read_from(Path(sys.argv[1]))))
