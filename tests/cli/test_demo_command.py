"""`kwire demo`: what is tried first works, and needs nothing but kwire."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer

from kwire.cli import demo
from kwire.cli.demo import read_orders, run_demo, write_orders
from kwire.testing import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.slow  # a process starts, and joins a group
def test_it_shows_each_record_and_loads_no_other_client() -> None:
    watch = "import sys; from kwire.cli import main; sys.argv = ['kwire', 'demo', '-n', '7']\n"
    watch += (
        "try: main()\nfinally: print(sorted({'confluent_kafka', 'kafka', 'pyarrow', 'greenlet'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(line.split("{")[1] for line in lines if line.startswith("partition")) == sorted(
        f'"order": {number}, "cents": {number * 737 % 10_000}}}' for number in range(7)
    )
    assert "7 records read and committed" in done.stdout
    assert lines[-1] == "[]"


@pytest.mark.slow  # joins a group
def test_those_of_a_customer_come_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(topics={demo.TOPIC: demo.PARTITIONS}) as cluster:
        write_orders(cluster, 20)
        assert read_orders(cluster.bootstrap_servers, 20) == 20
    lines = capsys.readouterr().out.splitlines()
    for customer in demo.CUSTOMERS:
        numbers = orders_of(lines, customer)
        assert numbers == sorted(numbers)
        assert len(numbers) == 5


def orders_of(lines: Sequence[str], customer: str) -> list[int]:
    return [int(line.split('"order": ')[1].split(",")[0]) for line in lines if f" {customer} " in line]


@pytest.mark.slow  # a cluster starts
def test_records_that_do_not_come_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "read_orders", lambda _servers, _count: 3)
    with pytest.raises(typer.Exit) as ended:
        run_demo(records=5)
    assert ended.value.exit_code == 1
    assert "2 records did not come" in capsys.readouterr().out
