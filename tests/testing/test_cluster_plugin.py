"""The pytest fixture `kafka_cluster`, as a user's test suite sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SUITE = """
import pytest

from kwire import Consumer, TopicPartition


def test_a_cluster_of_one_s_own(kafka_cluster):
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", b"1")
    with Consumer(bootstrap_servers=kafka_cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        assert [record.value for record in consumer.poll(10)] == [b"1"]


@pytest.mark.kafka_cluster(brokers=3, topics={"payments": 2})
def test_a_larger_one(kafka_cluster):
    assert kafka_cluster.bootstrap_servers.count(",") == 2
    assert kafka_cluster.leader("payments", 1) == 1
"""


def run_pytest(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--strict-markers", "-p", "kwire.testing.plugin"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plug-ins have no part in it
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_tests_get_the_cluster_that_they_ask_for(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(SUITE)
    ran = run_pytest(tmp_path)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_suite_that_asks_for_none_loads_none(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n"
        "    assert not {'trio', 'numpy', 'kwire.testing.cluster', 'kwire.protocol'} & set(sys.modules)\n"
    )
    ran = run_pytest(tmp_path)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
