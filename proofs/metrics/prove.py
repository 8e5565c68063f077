"""`scripts/prove metrics`: what kwire and Java's consumer say of themselves when they have done the same.

Both read the same topic of a real Kafka to its end in a group of their own, commit three times, look up a commit, and
poll for another second with nothing to come. Then both are asked for all metrics. What is a count of what was done, or
a place in a log, has to be equal; what is a time, or depends on how each fetches, is shown side by side. A name that
Java has and kwire has not is told, unless `LEFT_OUT` says why.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from uuid import uuid4

import typer

from kwire import Consumer, TopicPartition
from kwire.testing.kafka import ClusterError, KafkaCluster
from kwire.testing.kafka.jars import ensure_kafka, first_error, run
from proofs.group import TIMEOUT_S, Group, make_topic
from tools.topic_filling import Entry, fill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

HERE = Path(__file__).resolve().parent
PARTITIONS = 3
VALUE_BYTES = 100
CODECS = ("none", "lz4", "zstd")  # one for each partition
COMMITS = 3
LAST_POLLS, LAST_POLL_S = 5, 0.2
JAVA_TIMEOUT_S = 120

SETTINGS = {
    "client.id": "me",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "max.partition.fetch.bytes": "1048576",
    "metadata.max.age.ms": "300000",
}

EQUAL = frozenset(
    {
        "assigned-partitions",
        "bytes-consumed-total",
        "commit-total",
        "failed-authentication-total",
        "failed-rebalance-total",
        "fetch-throttle-time-avg",
        "fetch-throttle-time-max",
        "join-total",
        "last-poll-seconds-ago",
        "last-rebalance-seconds-ago",
        "preferred-read-replica",
        "rebalance-total",
        "records-consumed-total",
        "records-lag",
        "records-lead",
        "successful-authentication-total",
        "sync-total",
    }
)
"""What both have to say the same of. Seconds are whole ones, and may differ by one."""
SECONDS = frozenset({"last-poll-seconds-ago", "last-rebalance-seconds-ago"})

LEFT_OUT = {
    "commit-id": "a text",
    "version": "a text",
    "count": "of the registry of metrics, which there is none of",
    **dict.fromkeys(
        (
            *("io-ratio", "io-time-ns-avg", "io-time-ns-total", "io-wait-ratio", "io-wait-time-ns-avg"),
            *("io-wait-time-ns-total", "select-rate", "select-total"),
        ),
        "of a selector, which there is none of",
    ),
    "application-events-expired-count": "no event expires",
    **dict.fromkeys(
        (
            *("application-event-queue-time-avg", "application-event-queue-time-max"),
            *("background-event-queue-time-avg", "background-event-queue-time-max"),
            *("background-event-queue-processing-time-avg", "background-event-queue-processing-time-max"),
        ),
        "a clock would be read for each event",
    ),
}


HEAD = """# Metrics beside those of Java's consumer

This page has the values of the metrics that both kwire and Java's consumer have. It is written by
`scripts/prove metrics --write docs/metrics-beside-java.md`. kwire and Java's consumer, in turn, read the same
{records:,} records of a real Kafka in a group of their own, commit three times, look up a commit and poll for another
second. Of partitions and topics the tables have the first one. A metric marked = is a count, or a place in a log, and
has to be equal. Times and rates are of one machine on one day. The requests of the two consumers differ, because each
fetches in its own way. [metrics.md](metrics.md) says which names kwire leaves out."""


class Key(NamedTuple):
    """A metric without the client: its group, its tags as text, and its name."""

    group: str
    tags: str
    name: str


Metrics = dict[Key, float]


def metrics(
    records: Annotated[int, typer.Option("--records", min=PARTITIONS, help="How many there are to read.")] = 30_000,
    group: Annotated[Group | None, typer.Option("--group", help="How the group shares; default: two ways.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the table, as Markdown, into this file.")] = None,
) -> list[str]:
    """What kwire says of itself, beside what Java's consumer says after doing the same."""
    broken: list[str] = []
    said: dict[Group, tuple[Metrics, Metrics]] = {}
    with KafkaCluster(1) as kafka:
        topic = f"metrics-{uuid4().hex[:8]}"
        make_filled(kafka.bootstrap_servers, topic, records)
        for way in (Group.RANGE, Group.CONSUMER) if group is None else (group,):
            theirs = read_by_java(kafka.bootstrap_servers, topic, records, way)
            ours = read_by_kwire(kafka.bootstrap_servers, topic, records, way)
            said[way] = theirs, ours
            print(f"\n{records:,} records, {way.value}\n")
            print("\n".join(table(theirs, ours)))
            broken += [f"{way.value}: {line}" for line in differences(theirs, ours)]
    if write is not None:
        write.write_text(page(said, records))
    return broken


def make_filled(bootstrap_servers: str, topic: str, records: int) -> None:
    """A topic with records in all partitions, each with a codec of its own."""
    make_topic(bootstrap_servers, topic, PARTITIONS)
    for partition, codec in enumerate(CODECS):
        numbers = range(partition, records, PARTITIONS)
        entries = (Entry(partition, f"{number:0{VALUE_BYTES}}".encode(), b"%d" % number) for number in numbers)
        fill(bootstrap_servers, topic, entries, {"compression.type": codec, "linger.ms": 20})


def settings_of(bootstrap_servers: str, way: Group) -> dict[str, str]:
    """Under Java's names, for both."""
    found = {**SETTINGS, "bootstrap.servers": bootstrap_servers, "group.id": f"g-{uuid4().hex[:8]}"}
    return found | {name.replace("_", "."): str(value) for name, value in way.settings.items() if value != "range"}


def read_by_java(bootstrap_servers: str, topic: str, records: int, way: Group) -> Metrics:
    """What Java's consumer says when it has read all."""
    kafka = ensure_kafka()
    command = [str(kafka.java), "-cp", f"{kafka.libs}/*", str(HERE / "metrics_reader.java"), topic, str(records)]
    pairs = [f"{name}={value}" for name, value in settings_of(bootstrap_servers, way).items()]
    output, code = run([*command, *pairs], timeout_s=JAVA_TIMEOUT_S)
    if code:
        raise ClusterError(f"metrics_reader.java failed: {first_error(output)}")
    return dict(_java_lines(output))


def _java_lines(output: str) -> Iterator[tuple[Key, float]]:
    for line in output.splitlines():
        if line.count("\t") == len(Key._fields):
            group, tags, name, value = line.split("\t")
            try:
                yield Key(group, tags, name), float(value)
            except ValueError:  # a text
                yield Key(group, tags, name), math.nan


def read_by_kwire(bootstrap_servers: str, topic: str, records: int, way: Group) -> Metrics:
    """What kwire says when it has done the same."""
    left = records
    with Consumer[bytes, bytes](topic, config=settings_of(bootstrap_servers, way)) as consumer:
        while left > 0:
            left -= len(consumer.poll(TIMEOUT_S))
        for _ in range(COMMITS):
            consumer.commit_sync()
        consumer.committed([TopicPartition(topic, 0)])
        for _ in range(LAST_POLLS):
            consumer.poll(LAST_POLL_S)
        return {
            Key(metric.group, _as_java(metric.tags[1:]), metric.name): value
            for metric, value in consumer.metrics().items()
        }


def _as_java(tags: Sequence[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{word}={value}" for word, value in sorted(tags)) + "}"


# --- what is told -------------------------------------------------------------------------------------------------


def table(theirs: Mapping[Key, float], ours: Mapping[Key, float]) -> Iterator[str]:
    """Metric by metric, but for single brokers, which the two number otherwise."""
    yield f"{'':1} {'metric':<92} {'Java':>16} {'kwire':>16}"
    for key in sorted(theirs.keys() | ours.keys()):
        if key.group != "consumer-node-metrics":
            mark = " " if key.name not in EQUAL else "=" if is_equal(key.name, theirs.get(key), ours.get(key)) else "!"
            name = f"{key.group} {key.tags if key.tags != '{}' else ''} {key.name}"
            yield f"{mark} {name:<92} {_shown(theirs.get(key)):>16} {_shown(ours.get(key)):>16}"


def page(said: Mapping[Group, tuple[Metrics, Metrics]], records: int) -> str:
    """Of each way a group shares, what both say: as Markdown. Of several partitions and brokers, the first."""
    lines = [HEAD.format(records=records)]
    for way, (theirs, ours) in said.items():
        lines += ["", f"## Group protocol: {way.value}", "", "| | metric | Java | kwire |", "|---|---|---:|---:|"]
        lines += [_row(key, theirs[key], ours[key]) for key in _of_the_first(theirs.keys() & ours.keys())]
    return "\n".join(lines) + "\n"


def _of_the_first(keys: Iterable[Key]) -> list[Key]:
    """Without single brokers, and of partitions the first."""
    known = [key for key in keys if key.group not in ("consumer-node-metrics", "app-info")]
    return sorted(key for key in known if "partition=" not in key.tags or "partition=0," in key.tags)


def _row(key: Key, theirs: float, ours: float) -> str:
    mark = "=" if key.name in EQUAL and is_equal(key.name, theirs, ours) else "**!**" if key.name in EQUAL else ""
    of = f", of a {_words(key.tags).split(',')[0]}" if key.tags != "{}" else ""
    return f"| {mark} | {key.name} ({key.group.removesuffix('-metrics')}{of}) | {_shown(theirs)} | {_shown(ours)} |"


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return "nan" if math.isnan(value) else f"{value:,.0f}" if value.is_integer() else f"{value:,.3f}"


def differences(theirs: Mapping[Key, float], ours: Mapping[Key, float]) -> Iterator[str]:
    """What is not equal and has to be; what is missing, of any broker for those of single ones."""
    for key, value in sorted(theirs.items()):
        if key.name in EQUAL and not is_equal(key.name, value, ours.get(key)):
            yield f"{key.group} {key.tags} {key.name}: Java {_shown(value)}, kwire {_shown(ours.get(key))}"
    names = {(key.group, _words(key.tags), key.name) for key in ours}
    for group, words, name in sorted({(key.group, _words(key.tags), key.name) for key in theirs} - names):
        if name not in LEFT_OUT:
            yield f"{group} of {words or 'the client'}: there is no {name}"


def _words(tags: str) -> str:
    return ",".join(pair.partition("=")[0] for pair in tags.strip("{}").split(", "))


def is_equal(name: str, theirs: float | None, ours: float | None) -> bool:
    """Whether the two say the same, as far as that can be."""
    if theirs is None or ours is None:
        return theirs is ours
    if math.isnan(theirs) or math.isnan(ours):
        return math.isnan(theirs) and math.isnan(ours)
    return abs(theirs - ours) <= (1 if name in SECONDS else 0)
