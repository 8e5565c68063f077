"""`kwire consume` over a damaged batch: it ends, and says how to go on; with --on-data-loss skip it goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kwire.protocol.messages.fetch import FetchRequest
from kwire.testing import Cluster

pytestmark = pytest.mark.slow


def consume(cluster: Cluster, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "kwire",
        "consume",
        "t",
        "-b",
        cluster.bootstrap_servers,
        "-e",
        "-g",
        "g",
        *options,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_group_gets_over_a_damaged_batch_if_its_user_says_so(kafka_cluster: Cluster) -> None:
    """There was no way over it: the command ended with the same error at each start."""
    kafka_cluster.create_topic("t", partitions=1)
    for value in (b"good", b"damaged", b"good"):
        kafka_cluster.produce("t", *([value] * 5))
    kafka_cluster.control.on(FetchRequest).corrupt(lambda payload: payload.replace(b"damaged", b"DAMAGED"))
    stopped = consume(kafka_cluster)
    assert (stopped.returncode, stopped.stdout.split()) == (1, ["good"] * 5)
    assert "wrong checksum" in stopped.stderr
    assert stopped.stderr.endswith("; --on-data-loss skip steps over it\n")
    passed = consume(kafka_cluster, "--on-data-loss", "skip")
    assert (passed.returncode, passed.stdout.split()) == (0, ["good"] * 5)
    assert "going on at offset 10 instead of 5" in passed.stderr
