"""The log as an operator reads it: each event once, an outage has a begin and an end, each line says whose it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from kwire import Consumer
from kwire.clock import Deadline
from kwire.description.values import CauseKind
from kwire.errors import KafkaError
from kwire.logs import client_fields, logged_as, part_logger
from kwire.testing import Cluster

PATIENCE_MS = 30_000.0
QUICK: dict[str, object] = {
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 2,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 2,
    "fetch_max_wait_ms": 20,
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, topics={"orders": 2}) as running:
        yield running


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    """What an operator sees of kwire."""
    caplog.set_level(logging.INFO, "kwire")
    return lambda: [record for record in caplog.records if record.name.startswith("kwire.")]


def poll_until(consumer: Consumer[bytes, bytes], is_so: Callable[[], bool]) -> None:
    deadline = Deadline.after(PATIENCE_MS)
    while not is_so():
        assert not deadline.expired, str(consumer.describe())
        try:
            consumer.poll(0.01)
        except KafkaError as error:
            assert error.retriable  # noqa: PT017  others are what the test is to fail with


def lines(records: list[logging.LogRecord], text: str) -> list[str]:
    return [record.getMessage() for record in records if text in record.getMessage()]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_joins_assignments_and_leaves_stand_there_once(
    cluster: Cluster, log: Callable[[], list[logging.LogRecord]], protocol: str
) -> None:
    consumer: Consumer[bytes, bytes] = Consumer(
        "orders",
        config=QUICK,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="billing",
        group_protocol=protocol,
        client_id="desk",
        auto_offset_reset="earliest",
    )
    with consumer:
        poll_until(consumer, lambda: any(each.is_fetch_in_flight for each in consumer.describe().partitions))
    records = log()
    for text in ("joined group billing", "assigned 2 partitions: orders-0, orders-1", "leaving group billing"):
        assert len(lines(records, text)) == 1, text
    assert all(record.levelno == logging.INFO for record in records)
    assert {record.name for record in records} <= {"kwire.group", "kwire.offsets", "kwire.network"}
    assert all(record.getMessage().startswith("[desk billing] ") for record in records)
    assert {(vars(record)["client_id"], vars(record)["group_id"]) for record in records} == {("desk", "billing")}


@pytest.mark.slow
def test_an_outage_is_a_warning_and_its_end_a_line(
    cluster: Cluster, log: Callable[[], list[logging.LogRecord]]
) -> None:
    """Dozens of attempts fail meanwhile."""
    consumer: Consumer[bytes, bytes] = Consumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        config=QUICK,
    )
    with consumer:
        poll_until(consumer, lambda: any(each.is_fetch_in_flight for each in consumer.describe().partitions))
        before = len(log())
        cluster.kill_broker(0)
        poll_until(consumer, lambda: CauseKind.BROKER_DOWN in {each.kind for each in consumer.describe().causes})
        for _ in range(50):
            consumer.poll(0.01)
        cluster.start_broker(0)
        poll_until(consumer, lambda: bool(lines(log(), "of use again")))
        poll_until(consumer, lambda: any(each.is_fetch_in_flight for each in consumer.describe().partitions))
        during = log()[before:]
    warnings = [record for record in during if record.levelno >= logging.WARNING and record.name == "kwire.network"]
    assert len(warnings) == 1
    assert vars(warnings[0])["broker"] == "{}:{}".format(*cluster.client_addresses[0])
    (end,) = (record for record in during if "of use again" in record.getMessage())
    assert vars(end)["outage_s"] > 0
    assert len(during) <= 12, "\n".join(record.getMessage() for record in during)
    assert not lines(log(), "id -1")


def test_a_field_of_a_line_stands_beside_the_context(caplog: pytest.LogCaptureFixture) -> None:
    with logged_as(client_fields("100%", None)):
        part_logger("fetch").warning("%s has moved", "orders-0", extra={"topic": "orders"})
        part_logger("fetch").warning("no arguments")
    record, without = caplog.records
    assert record.getMessage() == "[100%] orders-0 has moved"
    assert without.getMessage() == "[100%] no arguments"
    assert (vars(record)["client_id"], vars(record)["topic"]) == ("100%", "orders")
    part_logger("fetch").warning("100% done")
    assert caplog.records[-1].getMessage() == "100% done"
