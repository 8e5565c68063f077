"""OpenTelemetry's bytes, read with the classes that are made from its own definitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

from kwire.protocol.otlp_metrics import Point, Temporality, metrics_data

RESOURCE = {"group_id": "billing", "client_rack": "r1"}
NS = 1_700_000_000_123_000_000


def metrics_of(*points: Point) -> list[Metric]:
    data = MetricsData.FromString(metrics_data(RESOURCE, ("kwire", "1.0"), points))
    (resource_metrics,) = data.resource_metrics
    found = {each.key: each.value.string_value for each in resource_metrics.resource.attributes}
    assert found == RESOURCE
    (scope_metrics,) = resource_metrics.scope_metrics
    assert (scope_metrics.scope.name, scope_metrics.scope.version) == ("kwire", "1.0")
    return list(scope_metrics.metrics)


def test_what_goes_up_and_down_is_a_gauge() -> None:
    (metric,) = metrics_of(Point("lag", {"topic": "orders", "partition": "3"}, 17.5, NS))
    assert metric.WhichOneof("data") == "gauge"
    (point,) = metric.gauge.data_points
    assert (metric.name, point.as_double, point.time_unix_nano, point.start_time_unix_nano) == ("lag", 17.5, NS, 0)
    assert {each.key: each.value.string_value for each in point.attributes} == {"topic": "orders", "partition": "3"}


def test_what_only_grows_is_a_monotonic_sum() -> None:
    for temporality in Temporality:
        (metric,) = metrics_of(Point("records", {}, 5.0, NS, NS - 1, temporality))
        assert metric.WhichOneof("data") == "sum"
        assert metric.sum.is_monotonic
        name = AggregationTemporality.Name(metric.sum.aggregation_temporality)
        assert name == f"AGGREGATION_TEMPORALITY_{temporality.name}"
        (point,) = metric.sum.data_points
        assert (point.as_double, point.time_unix_nano, point.start_time_unix_nano) == (5.0, NS, NS - 1)


points = st.builds(
    Point,
    st.text(max_size=300),
    st.dictionaries(st.text(max_size=5), st.text(max_size=200), max_size=3),
    st.floats(allow_nan=False),
    st.integers(0, 2**64 - 1),
    st.just(0),
    st.none(),
)


@given(st.lists(points, max_size=5))
def test_any_names_and_numbers_are_read_as_they_were(told: list[Point]) -> None:
    read = [
        (metric.name, metric.gauge.data_points[0].as_double, metric.gauge.data_points[0].time_unix_nano)
        for metric in metrics_of(*told)
    ]
    assert read == [(point.name, point.value, point.time_ns) for point in told]
