"""Metrics of consumers, and spans around handlers, for OpenTelemetry (`kwire[opentelemetry]`).

Metrics are observed: the SDK asks when it exports. A span covers one handler. It links to the producer's span, which
the record's `traceparent` header names (W3C Trace Context). A poll has no span: it returns records of many producers.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kwire.exporters import opentelemetry_names as names
from kwire.exporters.opentelemetry_names import Instrument, instrument_of, instrument_of_metric
from kwire.exporters.source import MetricsSource, Sources
from kwire.metrics.catalogue import CATALOGUE
from kwire.model import Header
from kwire.version import __version__

try:
    from opentelemetry import trace
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError(
        "OpenTelemetry needs opentelemetry-api; install it with: pip install 'kwire[opentelemetry]'"
    ) from error

if TYPE_CHECKING:
    from kwire.metrics import MetricName

__all__ = ["observe", "process_span"]

SCOPE = "kwire"
KAFKA = "kafka"
PROCESS = "process"
_W3C = TraceContextTextMapPropagator()


# --- metrics ------------------------------------------------------------------------------------------------------


def observe(
    *consumers: MetricsSource, group_id: str | None = None, meter_provider: MeterProvider | None = None
) -> Sources:
    """Export the metrics of these consumers from now on. It may be called for each consumer, or for several.

    Args:
        group_id: The group of the consumers, if it is to be among the attributes.
        meter_provider: None: the global one.

    Returns:
        The set of exported consumers of this group, to which others may be added, and from which they may be removed.
    """
    return _reading_for(meter_provider or get_meter_provider()).added(consumers, group_id)


class _Reading:
    """The last metrics of the consumers. Each instrument takes its part once; the first one that asks again has the
    consumers asked again, so that one export asks each consumer once."""

    def __init__(self) -> None:
        self._sources: dict[str | None, Sources] = {}
        self._lock = threading.Lock()
        self._untaken: dict[Instrument, list[Observation]] | None = None

    def added(self, consumers: Iterable[MetricsSource], group_id: str | None) -> Sources:
        """The sources of this group, with these among them, which are in no other group then."""
        with self._lock:
            found = self._sources.get(group_id) or Sources()
            self._sources = {**self._sources, group_id: found}  # replaced as a whole: exports read them meanwhile
        for consumer in consumers:
            for sources in self._sources.values():
                if sources is not found:  # where it has a name, which it keeps
                    sources.remove(consumer)
            found.add(consumer)
        return found

    def of(self, instrument: Instrument, _: CallbackOptions) -> Iterable[Observation]:
        """The observations of one instrument."""
        untaken = self._untaken
        if untaken is None or instrument not in untaken:
            untaken = self._untaken = self._read()
        return untaken.pop(instrument, [])

    def _read(self) -> dict[Instrument, list[Observation]]:
        found: dict[Instrument, list[Observation]] = {
            instrument: [] for row in CATALOGUE if (instrument := instrument_of(row)) is not None
        }
        for group_id, sources in self._sources.items():
            fixed = {names.SYSTEM: KAFKA} | ({} if group_id is None else {names.GROUP: group_id})
            for name, metrics in sources:
                for instrument, observation in _observations(metrics, fixed, name):
                    found[instrument].append(observation)
        return found


def _observations(
    metrics: Mapping[MetricName, float], fixed: dict[str, str], client_id: str
) -> Iterator[tuple[Instrument, Observation]]:
    for metric, value in metrics.items():
        instrument = instrument_of_metric(metric)
        if instrument is not None and not math.isnan(value):
            attributes = fixed | instrument.attributes | _attributes(metric, client_id)
            yield instrument, Observation(value * instrument.scale, attributes)


# A meter takes the callbacks of an instrument once, when it is made: those of a second instrument of the same name are
# never called. So there is one reading for a provider, and one for whichever is the global one.
_readings: weakref.WeakKeyDictionary[MeterProvider, _Reading] = weakref.WeakKeyDictionary()
_readings_lock = threading.Lock()


def _reading_for(provider: MeterProvider) -> _Reading:
    with _readings_lock:
        if (found := _readings.get(provider)) is None:
            found = _readings[provider] = _global_reading(provider) or _started(provider)
        return found


def _global_reading(provider: MeterProvider) -> _Reading | None:
    """That of the one that stood in for the global provider until this one was set, and hands its instruments on."""
    if provider is not get_meter_provider() or _stands_in(provider):
        return None
    return next((found for each, found in _readings.items() if _stands_in(each)), None)


def _stands_in(provider: MeterProvider) -> bool:
    return type(provider).__name__ == "_ProxyMeterProvider"


def _started(provider: MeterProvider) -> _Reading:
    """A new reading, which the instruments of this provider ask."""
    reading = _Reading()
    meter = provider.get_meter(SCOPE, __version__)
    for row in CATALOGUE:
        if (instrument := instrument_of(row)) is not None:
            create = meter.create_observable_counter if row.is_counter else meter.create_observable_gauge
            create(instrument.name, [partial(reading.of, instrument)], instrument.unit, row.text)
    return reading


def _attributes(metric: MetricName, client_id: str) -> dict[str, str]:
    return {names.ATTRIBUTES[word]: value for word, value in (("client-id", client_id), *metric.tags[1:])}


# --- spans --------------------------------------------------------------------------------------------------------


class SpannedRecord(Protocol):
    """The part of a record that a span needs."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def headers(self) -> Sequence[Header]: ...
    @property
    def serialized_value_size(self) -> int: ...


@contextlib.contextmanager
def process_span(
    record: SpannedRecord, *, group_id: str | None = None, tracer_provider: trace.TracerProvider | None = None
) -> Iterator[trace.Span]:
    """A span around the handling of a record. It links to the producer's span, if the record has a `traceparent`
    header.

    An exception of the block is recorded in the span. If no tracer is set up, the record is not read.

    Args:
        group_id: The consumer's group, if it is to be among the attributes.
        tracer_provider: None: the global one.
    """
    provider = tracer_provider or trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        yield trace.INVALID_SPAN
        return
    with provider.get_tracer(SCOPE, __version__).start_as_current_span(
        f"{PROCESS} {record.topic}",
        kind=trace.SpanKind.CONSUMER,
        attributes=_of_record(record, group_id),
        links=_links(record.headers),
    ) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__qualname__)
            raise


def _of_record(record: SpannedRecord, group_id: str | None) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        names.SYSTEM: KAFKA,
        names.OPERATION_NAME: PROCESS,
        names.OPERATION_TYPE: PROCESS,
        names.TOPIC_NAME: record.topic,
        names.PARTITION_ID: str(record.partition),
        names.OFFSET: record.offset,
    }
    if record.serialized_value_size < 0:
        found[names.TOMBSTONE] = True
    else:
        found[names.BODY_SIZE] = record.serialized_value_size
    if group_id is not None:
        found[names.GROUP] = group_id
    return found


def _links(headers: Sequence[Header]) -> list[trace.Link]:
    carrier = {
        key: value.decode("ascii", "replace") for key, value in headers if value is not None and key in _W3C.fields
    }
    context = trace.get_current_span(_W3C.extract(carrier, context=trace.set_span_in_context(trace.INVALID_SPAN)))
    linked = context.get_span_context()
    return [trace.Link(linked)] if linked.is_valid else []
