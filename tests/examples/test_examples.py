"""Each example runs to its end against a cluster in the process, and does what it says."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kwire.testing import Cluster
from kwire.testing.cluster.batches import NewRecord

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("plain_loop", "async_loop", "worker_threads", "async_keys", "revocation_loop")
RECORDS = 120
PARTITIONS = 3
KEYS = 7
IDLE_SECONDS = 10  # each has to join its group first, all at once
DEADLINE_S = 90.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program printed, and what its group has committed."""

    lines: list[str]
    committed: list[int]


@pytest.fixture(scope="module")
def ran() -> Iterator[Mapping[str, Ran]]:
    """All of them, side by side, each with a group of its own."""
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS)
        for number in range(RECORDS):
            record = NewRecord(b"%d" % number, key=b"key%d" % (number % KEYS))
            cluster.produce("orders", record, partition=number % PARTITIONS)
        flags = ["--bootstrap-servers", cluster.bootstrap_servers, "--idle-seconds", str(IDLE_SECONDS)]
        programs = {
            name: subprocess.Popen(
                [sys.executable, EXAMPLES / f"{name}.py", *flags, "--group-id", name],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in NAMES
        }
        try:
            printed = {name: program.communicate(timeout=DEADLINE_S) for name, program in programs.items()}
        finally:
            for program in programs.values():
                program.kill()
        for name, (_, errors) in printed.items():
            assert programs[name].returncode == 0, errors
        yield {
            name: Ran(output.splitlines(), [at.offset for _, at in sorted(cluster.committed(name).items())])
            for name, (output, _) in printed.items()
        }


def by_partition(told: list[str]) -> dict[str, list[int]]:
    """The offsets of lines such as "orders-0@7: b'21'"."""
    offsets: defaultdict[str, list[int]] = defaultdict(list)
    for line in told:
        if "@" in line:
            partition, _, rest = line.partition("@")
            offsets[partition].append(int(rest.partition(":")[0]))
    return offsets


def test_there_is_a_test_for_each() -> None:
    have_a_file_of_their_own = {"fastapi_service", "faststream_app", "msk_iam"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*NAMES, *have_a_file_of_their_own, "arguments"}


@pytest.mark.parametrize("name", ["plain_loop", "async_loop", "worker_threads", "revocation_loop"])
def test_partitions_are_read_in_order_to_their_ends(name: str, ran: Mapping[str, Ran]) -> None:
    each = list(range(RECORDS // PARTITIONS))
    assert by_partition(ran[name].lines) == {f"orders-{number}": each for number in range(PARTITIONS)}
    assert ran[name].committed == [RECORDS // PARTITIONS] * PARTITIONS


def test_keys_are_sent_in_order(ran: Mapping[str, Ran]) -> None:
    values: defaultdict[str, list[int]] = defaultdict(list)
    *told, last = ran["async_keys"].lines
    for line in told:
        key, _, value = line.partition(": ")
        values[key].append(int(value))
    assert last == f"{RECORDS} records handled"
    for key, found in values.items():
        of_partition = [[value for value in found if value % PARTITIONS == index] for index in range(PARTITIONS)]
        assert all(each == sorted(each) for each in of_partition), key
    assert sorted(value for found in values.values() for value in found) == list(range(RECORDS))
    assert ran["async_keys"].committed == [RECORDS // PARTITIONS] * PARTITIONS
