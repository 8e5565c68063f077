"""The pytest fixture `kafka_cluster`, as a user's test suite sees it: in a folder of its own, and without Java."""

from __future__ import annotations

import os
import re
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


@pytest.mark.kafka_cluster(tls=True, users={"alice": "secret"})
def test_one_with_a_login(kafka_cluster):
    config = kafka_cluster.client_config("alice")
    assert (config["security.protocol"], config["sasl.username"]) == ("SASL_SSL", "alice")
"""


PAGE = Path(__file__).resolve().parents[2] / "docs/howto/testing.md"

BILLING = """
from kwire import Consumer


def bill(bootstrap_servers):
    settings = {"bootstrap_servers": bootstrap_servers, "group_id": "billing", "auto_offset_reset": "earliest"}
    with Consumer("orders", enable_auto_commit=False, **settings) as consumer:
        orders = consumer.poll(10)
        consumer.commit_sync()
    return len(orders)
"""

CLIENTS = {
    "kwire": """
from kwire import Consumer, TopicPartition


def test_orders(kafka_cluster):
    kafka_cluster.create_topic("orders", partitions=3)
    kafka_cluster.produce("orders", b"an order", partition=1)
    servers, partition = kafka_cluster.bootstrap_servers, TopicPartition("orders", 1)
    with Consumer("orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.poll(10)] == [b"an order"]
        consumer.commit_sync()
        assert consumer.committed([partition])[partition].offset == 1
    assert kafka_cluster.committed("billing")[partition].offset == 1
""",
    "confluent-kafka": """
from confluent_kafka import Consumer, Producer, TopicPartition


def test_orders(kafka_cluster):
    kafka_cluster.create_topic("orders", partitions=3)
    servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    producer = Producer(servers)
    producer.produce("orders", b"an order", partition=1)
    assert producer.flush(10) == 0
    manual = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**servers, "group.id": "billing", **manual})
    consumer.subscribe(["orders"])
    assert consumer.poll(10).value() == b"an order"
    consumer.commit(asynchronous=False)
    (committed,) = consumer.committed([TopicPartition("orders", 1)], 10)
    consumer.close()
    assert committed.offset == 1
""",
    "kafka-python": """
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its own import
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def test_orders(kafka_cluster):
    kafka_cluster.create_topic("orders", partitions=3)
    servers, partition = kafka_cluster.bootstrap_servers, TopicPartition("orders", 1)
    producer = KafkaProducer(bootstrap_servers=servers)
    producer.send("orders", b"an order", partition=1)
    producer.flush(10)
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest")
    assert [record.value for record in consumer.poll(10_000)[partition]] == [b"an order"]
    consumer.commit()
    assert consumer.committed(partition) == 1
    consumer.close()
""",
}

ATTEMPTS = 3
"""How often a test may be slower than it has to be, which says more about the machine than about it."""


def run_pytest(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--strict-markers", "-p", "pytest_kwire"]
    without_java = str(directory / "nothing")
    # Other plug-ins have no part in it.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": without_java, "JAVA_HOME": without_java}
    return subprocess.run(
        [*command, *options], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def seconds_of_the_test(directory: Path) -> float:
    """Of the only one, without the loading of what it uses. Fails if it does."""
    ran = run_pytest(directory, "--durations=0", "-vv")
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
    (took_s,) = re.findall(r"^([0-9.]+)s call ", ran.stdout, re.MULTILINE)
    return float(took_s)


def test_tests_get_the_cluster_that_they_ask_for(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(SUITE)
    ran = run_pytest(tmp_path)
    assert "3 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_mark_with_another_argument_says_what_it_takes(tmp_path: Path) -> None:
    """It was a TypeError about Cluster.__init__(), which the test does not call."""
    (tmp_path / "test_orders.py").write_text(
        "import pytest\n\n@pytest.mark.kafka_cluster(broker=3)\ndef test_orders(kafka_cluster):\n    pass\n"
    )
    said = run_pytest(tmp_path).stdout
    assert "@pytest.mark.kafka_cluster: got an unexpected keyword argument 'broker'; it takes brokers, topics" in said
    assert "Cluster.__init__" not in said


def test_a_suite_that_asks_for_none_loads_none(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\ndef test_nothing():\n"
        "    assert not {'trio', 'numpy', 'kwire.testing.cluster', 'kwire.protocol'} & set(sys.modules)\n"
    )
    ran = run_pytest(tmp_path)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_example_of_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    """With a program to test, which has to get over the commit that is lost."""
    (example,) = [block for block in python_blocks() if "kafka_cluster.control" in block]
    (tmp_path / "test_example.py").write_text(BILLING + example)
    ran = run_pytest(tmp_path)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def python_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("client", CLIENTS)
def test_any_client_s_test_takes_less_than_a_second(tmp_path: Path, client: str) -> None:
    """A record is produced and read in a group, its offset committed and read back."""
    (tmp_path / "test_orders.py").write_text(CLIENTS[client])
    took_s = [seconds_of_the_test(tmp_path)]
    while min(took_s) >= 1.0 and len(took_s) < ATTEMPTS:
        took_s.append(seconds_of_the_test(tmp_path))
    assert min(took_s) < 1.0, f"seconds: {took_s}"
