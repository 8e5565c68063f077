"""Metrics and spans as the SDK of OpenTelemetry exports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import opentelemetry.semconv._incubating.attributes.messaging_attributes as conventions
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint, Sum
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.metrics import messaging_metrics

from kwire import Consumer, TopicPartition
from kwire.exporters import opentelemetry_names as names
from kwire.exporters.opentelemetry import observe, process_span
from kwire.metrics import MetricName
from kwire.model import Header, Record, TimestampType

if TYPE_CHECKING:
    from kwire.testing import Cluster

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Exported:
    """What one export brings."""

    def __init__(self, reader: InMemoryMetricReader) -> None:
        data = reader.get_metrics_data()
        metrics = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
        self.by_name = {metric.name: metric for metric in metrics}

    def points(self, name: str) -> list[tuple[dict[str, object], float]]:
        """Attributes and number of each point."""
        if name not in self.by_name:
            return []
        points = self.by_name[name].data.data_points
        return [(dict(p.attributes or {}), p.value) for p in points if isinstance(p, NumberDataPoint)]


def test_consumed_messages_are_a_counter_by_the_conventions(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("orders")
    kafka_cluster.produce("orders", *[b"an order"] * 9)
    reader = InMemoryMetricReader()
    with Consumer[bytes, bytes](
        bootstrap_servers=kafka_cluster.bootstrap_servers, client_id="me", auto_offset_reset="earliest"
    ) as consumer:
        observe(consumer, group_id="billing", meter_provider=MeterProvider([reader]))
        consumer.assign([TopicPartition("orders", 0)])
        while not consumer.poll(1.0):
            pass
        exported = Exported(reader)
    consumed = exported.by_name[messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES]
    assert isinstance(consumed.data, Sum)
    assert consumed.data.is_monotonic
    of_all = {
        "messaging.system": "kafka",
        "messaging.client.id": "me",
        "messaging.consumer.group.name": "billing",
        "messaging.destination.name": "orders",
    }
    polled = {**of_all, "messaging.operation.name": "poll"}
    assert exported.points("messaging.client.consumed.messages") == [(polled, 9)]
    ((attributes, lag),) = exported.points("kafka.consumer.records_lag")
    assert attributes == {**of_all, "messaging.destination.partition.id": "0"}
    assert lag == 0
    latency = exported.by_name["kafka.consumer.fetch_latency_max"]
    assert latency.unit == "s"
    assert 0 < exported.points("kafka.consumer.fetch_latency_max")[0][1] < 10


class Asked:
    """A consumer that counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def metrics(self) -> dict[MetricName, float]:
        self.times += 1
        tags = (("client-id", "me"),)
        return {MetricName(name="connection-count", group="consumer-metrics", tags=tags): float(self.times)}


def test_one_export_asks_each_consumer_once() -> None:
    reader, asked = InMemoryMetricReader(), Asked()
    sources = observe(asked, meter_provider=MeterProvider([reader]))
    for times in (1, 2, 3):
        ((_, value),) = Exported(reader).points("kafka.consumer.connection_count")
        assert value == asked.times == times
    sources.remove(asked)
    assert Exported(reader).points("kafka.consumer.connection_count") == []


def test_names_of_attributes_are_those_of_the_conventions() -> None:
    ours = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    theirs = {value for name, value in vars(conventions).items() if name.startswith("MESSAGING")}
    assert {name for name in ours if name.startswith("messaging.")} - theirs == {names.NODE_ID}


# --- spans --------------------------------------------------------------------------------------------------------


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """Where spans of `provider` go."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> TracerProvider:
    """Somebody who listens."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(spans))
    return made


def a_record(*headers: Header, value: bytes | None = b"an order") -> Record[bytes, bytes]:
    size = -1 if value is None else len(value)
    return Record("orders", 3, 42, 0, TimestampType.CREATE_TIME, None, value, headers, None, -1, size)


def test_a_handler_has_a_span_that_is_linked_to_the_producers(
    spans: InMemorySpanExporter, provider: TracerProvider
) -> None:
    record = a_record(Header("other", b"\xff"), Header("traceparent", PARENT.encode()), Header("none", None))
    with process_span(record, group_id="billing", tracer_provider=provider) as span:
        assert trace.get_current_span() is span
    (done,) = spans.get_finished_spans()
    assert (done.name, done.kind) == ("process orders", trace.SpanKind.CONSUMER)
    (link,) = done.links
    assert trace.format_trace_id(link.context.trace_id) == "0af7651916cd43dd8448eb211c80319c"
    assert trace.format_span_id(link.context.span_id) == "b7ad6b7169203331"
    assert done.parent is None
    assert dict(done.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.kafka.offset": 42,
        "messaging.message.body.size": 8,
        "messaging.consumer.group.name": "billing",
    }


@pytest.mark.parametrize("header", [b"", b"\xff\xfe", b"00-0-0-00", PARENT.encode()[:-3]])
def test_a_header_that_is_no_trace_makes_no_link(
    spans: InMemorySpanExporter, provider: TracerProvider, header: bytes
) -> None:
    with process_span(a_record(Header("traceparent", header)), tracer_provider=provider):
        pass
    (done,) = spans.get_finished_spans()
    assert done.links == ()


def test_what_is_around_the_handler_is_the_parent_and_no_link(
    spans: InMemorySpanExporter, provider: TracerProvider
) -> None:
    with (
        provider.get_tracer("app").start_as_current_span("a batch"),
        process_span(a_record(), tracer_provider=provider),
    ):
        pass
    done, around = spans.get_finished_spans()
    assert done.parent is not None
    assert done.parent == around.get_span_context()
    assert done.links == ()


def test_a_tombstone_says_so(spans: InMemorySpanExporter, provider: TracerProvider) -> None:
    with process_span(a_record(value=None), tracer_provider=provider):
        pass
    (done,) = spans.get_finished_spans()
    assert (done.attributes or {})["messaging.kafka.message.tombstone"] is True


def test_what_a_handler_raises_is_in_its_span_and_is_raised(
    spans: InMemorySpanExporter, provider: TracerProvider
) -> None:
    with pytest.raises(ValueError, match="no such customer"), process_span(a_record(), tracer_provider=provider):
        raise ValueError("no such customer")
    (done,) = spans.get_finished_spans()
    assert done.status.status_code is trace.StatusCode.ERROR
    assert (done.attributes or {})["error.type"] == "ValueError"


class Untouchable:
    """A record that must not be looked at."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was looked at")


def test_if_nobody_listens_the_record_is_not_looked_at() -> None:
    with process_span(Untouchable()) as span:  # type: ignore[arg-type]  # nothing of a record is there
        assert not span.is_recording()
