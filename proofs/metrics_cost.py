"""`scripts/prove metrics-cost`: what counting metrics costs a consumer, as a share of the CPU time of a record.

A broker in another process has a topic in memory. One consumer here reads it again and again, in short rounds: one
with metrics counted and one with each function that counts replaced by one that does nothing, the two of a pair right
after each other, in changing order. Of each pair there is a ratio of CPU times, of all threads of this process. What is
judged is the median of all pairs, and only if it is told well enough: on a busy machine the interval around it grows,
and then this says so in place of a verdict. Run it in a quiet moment.

Records are looked at one by one, as in a loop. With `--columns` nobody looks at them: then there is hardly anything
else to take time, and what counting takes is its largest share.
"""

from __future__ import annotations

import random
import statistics
import time
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated

import typer

from kwire import Consumer, TopicPartition
from kwire.consumer.polling import Polling
from kwire.metrics.consumed import ConsumedMetrics
from kwire.metrics.requests import RequestMetrics
from kwire.metrics.threads import PollMetrics, TurnMetrics
from kwire.testing import Cluster
from kwire.testing.kafka import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

TP = TopicPartition("orders", 0)
BATCH = 1_000
MAX_SHARE = 0.01
"""Of the CPU time of a record, which counting may take."""
WIDEST = 0.01
"""An interval around the median that is wider tells nothing about that."""
CONFIDENCE, RESAMPLED = 0.95, 2_000

COUNTING: Sequence[tuple[type, str]] = (
    (Polling, "_count"),
    (ConsumedMetrics, "at_end"),
    (ConsumedMetrics, "follows"),
    (RequestMetrics, "sent"),
    (RequestMetrics, "answered"),
    (PollMetrics, "ended"),
    (TurnMetrics, "processed_events"),
    (TurnMetrics, "request_waited"),
)
"""All that is called while records flow, but for the times of polls and turns, which others read as well."""


def metrics_cost(
    records: Annotated[int, typer.Option(min=BATCH, help="How many a round reads.")] = 200_000,
    pairs: Annotated[int, typer.Option(min=5, help="How many pairs of rounds.")] = 200,
    value_bytes: Annotated[int, typer.Option(min=1, help="How long the values are.")] = 100,
    max_poll_records: Annotated[int, typer.Option(min=1, help="How many a poll returns at most.")] = 500,
    columns: Annotated[bool, typer.Option("--columns", help="Do not look at single records.")] = False,
) -> list[str]:
    """What counting metrics costs, of the CPU time of a record."""
    with (
        topic_in_memory(records, value_bytes) as servers,
        Consumer[bytes, bytes](
            bootstrap_servers=servers, max_poll_records=max_poll_records, enable_metrics_push=False
        ) as consumer,
    ):
        consumer.assign([TP])
        read(consumer, records, columns=columns)  # modules are loaded, connections made
        ratios, counted_us, not_counted_us = measure(consumer, records, pairs, columns=columns)
    low, high = interval(ratios)
    share = statistics.median(ratios) - 1.0
    way = "as columns" if columns else "one by one"
    print(
        f"{records:,} records of {value_bytes} bytes {way}, {max_poll_records} a poll at most, {pairs} pairs of rounds"
    )
    print(f"CPU time of a record: {counted_us:.3f} us with metrics counted, {not_counted_us:.3f} us without")
    bounds = f"between {low - 1.0:+.2%} and {high - 1.0:+.2%}, with {CONFIDENCE:.0%} confidence"
    print(f"counting takes {share:+.2%} ({bounds})")
    return verdict(share, high - low)


def verdict(share: float, width: float) -> list[str]:
    """What is broken: the promise, or the measurement."""
    if width > WIDEST:
        return [f"the machine is too busy to tell: the interval is {width:.2%} wide; more --pairs, or a quiet moment"]
    return [f"counting metrics takes {share:.2%}, more than {MAX_SHARE:.0%}"] if share > MAX_SHARE else []


# --- rounds -------------------------------------------------------------------------------------------------------


def measure(
    consumer: Consumer[bytes, bytes], records: int, pairs: int, *, columns: bool
) -> tuple[list[float], float, float]:
    """Of each pair how many times as long it takes with metrics; and what a record takes, at the median, each way."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(pairs):
        for is_counted in (True, False) if number % 2 else (False, True):
            found[is_counted].append(round_us(consumer, records, columns=columns, is_counted=is_counted))
    ratios = [counted / bare for counted, bare in zip(found[True], found[False], strict=True)]
    return ratios, statistics.median(found[True]), statistics.median(found[False])


def round_us(consumer: Consumer[bytes, bytes], records: int, *, columns: bool, is_counted: bool) -> float:
    """CPU time of one record."""
    if is_counted:
        return read(consumer, records, columns=columns)
    with nothing_counted():
        return read(consumer, records, columns=columns)


def read(consumer: Consumer[bytes, bytes], records: int, *, columns: bool = True) -> float:
    """The whole topic; microseconds of CPU time a record."""
    consumer.seek(TP, 0)
    began_s = time.process_time()
    left = records
    while left > 0:
        polled = consumer.poll(10.0)
        if not polled:
            raise ClusterError(f"{left} records did not come")
        if not columns:
            for _ in polled:
                pass
        left -= len(polled)
    return (time.process_time() - began_s) / records * 1e6


@contextmanager
def nothing_counted() -> Iterator[None]:
    """Each function that counts does nothing meanwhile."""
    before = [(owner, name, getattr(owner, name)) for owner, name in COUNTING]
    for owner, name in COUNTING:
        setattr(owner, name, _do_nothing)
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def _do_nothing(*_: object, **__: object) -> None:
    """In the place of what counts."""


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Around the median of these, by the bootstrap."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(RESAMPLED))
    outside = int(RESAMPLED * (1.0 - CONFIDENCE) / 2.0)
    return medians[outside], medians[-1 - outside]


# --- the broker ---------------------------------------------------------------------------------------------------


@contextmanager
def topic_in_memory(records: int, value_bytes: int) -> Iterator[str]:
    """A broker in a process of its own, so that its CPU time is not this one's; its address."""
    spawning = get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(theirs, records, value_bytes), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join(10.0)
        process.kill()


def _serve(channel: Connection[str, object], records: int, value_bytes: int) -> None:
    with Cluster(brokers=1, topics={TP.topic: 1}) as cluster:
        for first in range(0, records, BATCH):
            values = (b"%0*d" % (value_bytes, number) for number in range(first, min(first + BATCH, records)))
            cluster.produce(TP.topic, *values)
        channel.send(cluster.bootstrap_servers)
        channel.poll(None)  # until the other end is closed
