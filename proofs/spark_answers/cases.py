"""The matrix of `scripts/prove spark-answers`: options of a read, and whether it has to fail."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proofs.spark.topics import CODECS, FIRST_MS, RECORDS, STEP_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proofs.spark.topics import Topics, Written

MIDDLE_MS = FIRST_MS + RECORDS * STEP_MS // 2
NEVER_MS = FIRST_MS + 10 * RECORDS * STEP_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One read.

    Args:
        name: what it is about.
        options: those of the source, without the servers.
        fails: whether it is wrong, so that both have to say so.
        schema: one of the user's own, which is wrong, too.
        words: what both have to say, where Spark's own tells of its client's inside, or Spark refuses it by itself.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    fails: bool = False
    schema: str | None = None
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """The topics that cases are about."""

    codecs: Mapping[str, Written]
    uneven: Written
    stamped: Written
    large: Written
    cut: Written
    transactions: Written
    compacted: Written
    timeless: Written
    textless: Written
    boundless: Written


def make_set(topics: Topics) -> Set:
    """All of them, written."""
    return Set(
        codecs={codec: topics.of_codec(codec) for codec in CODECS},
        uneven=topics.unevenly_filled(),
        stamped=topics.stamped_by_the_broker(),
        large=topics.with_large_values(),
        cut=topics.cut_in_front(),
        transactions=topics.transactional(),
        compacted=topics.compacted(),
        timeless=topics.without_timestamps(),
        textless=topics.with_keys_that_are_no_text(),
        boundless=topics.with_times_out_of_bounds(),
    )


def batch_cases(found: Set) -> list[Case]:
    """Reads that have to be answered."""
    return [*_contents(found), *_places(found.codecs["zstd"]), *_splits(found), *_passed_through(found)]


def _contents(found: Set) -> Iterator[Case]:
    headers = {"includeHeaders": "true"}
    for codec, topic in found.codecs.items():
        yield Case(name=f"codec {codec}", options={"subscribe": topic.name, **headers})
    for level in ("read_committed", "read_uncommitted"):
        isolation = {"kafka.isolation.level": level}
        yield Case(name=f"transactions, {level}", options={"subscribe": found.transactions.name, **isolation})
    yield Case(name="transactions, no level given", options={"subscribe": found.transactions.name})
    for name in ("stamped", "large", "cut", "compacted", "timeless", "textless"):
        yield Case(name=name, options={"subscribe": getattr(found, name).name, **headers})
    several = ",".join([found.codecs["lz4"].name, found.uneven.name, found.compacted.name])
    yield Case(name="several topics", options={"subscribe": several})
    pattern = found.codecs["none"].name.removesuffix("none") + "(lz4|zs.*)"
    yield Case(name="a pattern", options={"subscribePattern": pattern})
    yield Case(name="a pattern that is only part of names", options={"subscribePattern": "codec-lz4"})
    assigned = json.dumps({found.codecs["lz4"].name: [2, 0], found.uneven.name: [0, 3]})
    yield Case(name="assigned partitions", options={"assign": assigned})
    yield Case(name="an empty assignment", options={"assign": "{}"})
    yield Case(name="without headers", options={"subscribe": found.codecs["gzip"].name, "includeHeaders": "false"})


def _places(topic: Written) -> Iterator[Case]:
    """Where a read begins and ends, and which option wins."""
    half, all_but_ten = topic.offsets(lambda end: end // 2), topic.offsets(lambda end: end - 10)
    at_middle, never = topic.offsets(lambda _: MIDDLE_MS), topic.offsets(lambda _: NEVER_MS)
    wanted = {
        "earliest to latest": {"startingOffsets": "earliest", "endingOffsets": "latest"},
        "offsets": {"startingOffsets": half, "endingOffsets": all_but_ten},
        "offsets -2 and -1": {
            "startingOffsets": topic.offsets(lambda _: -2),
            "endingOffsets": topic.offsets(lambda _: -1),
        },
        "nothing between": {"startingOffsets": half, "endingOffsets": half},
        "from a time": {"startingTimestamp": str(MIDDLE_MS)},
        "up to a time": {"endingTimestamp": str(MIDDLE_MS)},
        "times by partition": {"startingOffsetsByTimestamp": at_middle, "endingOffsetsByTimestamp": never},
        "a time for the start, offsets for the end": {
            "startingOffsetsByTimestamp": at_middle,
            "endingOffsets": all_but_ten,
        },
        "offsets for the start, a time for the end": {
            "startingOffsets": topic.offsets(lambda _: 3),
            "endingOffsetsByTimestamp": at_middle,
        },
        "a time before all": {"startingTimestamp": "0", "endingTimestamp": str(MIDDLE_MS)},
        "a time behind all, latest": {
            "startingTimestamp": str(NEVER_MS),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        "the latest by partition": {
            "startingOffsetsByTimestamp": never,
            "startingOffsetsByTimestampStrategy": "LATEST",
        },
        "a time wins over times by partition": {
            "startingTimestamp": str(MIDDLE_MS),
            "startingOffsetsByTimestamp": topic.offsets(lambda _: 0),
            "startingOffsets": "earliest",
        },
        "times win over offsets": {
            "startingOffsetsByTimestamp": at_middle,
            "startingOffsets": "earliest",
            "endingOffsetsByTimestamp": at_middle,
            "endingOffsets": "latest",
        },
        "words in capitals": {"STARTINGOFFSETS": "EARLIEST", "endingoffsets": "Latest", "IncludeHeaders": "TRUE"},
    }
    for name, options in wanted.items():
        yield Case(name=name, options={"subscribe": topic.name, **options})


def _splits(found: Set) -> Iterator[Case]:
    uneven = {"subscribe": found.uneven.name}
    for number in ("1", "3", "4", "5", "7", "24", "100"):
        yield Case(name=f"minPartitions {number}", options={**uneven, "minPartitions": number})
    for number in ("1000", "300", "100"):
        yield Case(name=f"maxRecordsPerPartition {number}", options={**uneven, "maxRecordsPerPartition": number})
    both = {"minPartitions": "12", "maxRecordsPerPartition": "200"}
    yield Case(name="both kinds of splits", options={**uneven, **both})
    for name in ("transactions", "compacted"):
        topic: Written = getattr(found, name)
        committed = {"kafka.isolation.level": "read_committed", "minPartitions": "9"}
        yield Case(name=f"splits of {name}", options={"subscribe": topic.name, **committed})


def _passed_through(found: Set) -> Iterator[Case]:
    options = {
        "groupIdPrefix": "mine",
        "kafka.group.id": "my-group",
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": "60000",
        "fetchOffset.numRetries": "5",
        "fetchOffset.retryIntervalMs": "50",
        "maxOffsetsPerTrigger": "10",
        "kafka.client.id": "somebody",
        "kafka.max.poll.records": "7",
        "kafka.max.partition.fetch.bytes": "500",
        "kafka.fetch.max.bytes": "1000",
        "kafka.fetch.min.bytes": "1",
        "kafka.fetch.max.wait.ms": "50",
        "kafka.receive.buffer.bytes": "65536",
        "kafka.request.timeout.ms": "20000",
        "kafka.default.api.timeout.ms": "90000",
        "kafka.metadata.max.age.ms": "10000",
        "kafka.check.crcs": "true",
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.session.timeout.ms": "30000",
        "kafka.reconnect.backoff.ms": "60",
    }
    for key, value in options.items():
        yield Case(name=f"{key}={value}", options={"subscribe": found.codecs["lz4"].name, key: value})


# --- what is wrong ----------------------------------------------------------------------------------------------------


def wrong_cases(found: Set) -> list[Case]:
    """Reads that both have to refuse; `servers` are given to all but one."""
    good = {"subscribe": found.codecs["none"].name}
    wrong: dict[str, Mapping[str, str]] = {
        **_wrong_topics(found.codecs["none"].name),
        **_wrong_places(found.codecs["none"], found.cut),
        **{name: {**good, **options} for name, options in WRONG_VALUES.items()},
        "lost records": {"subscribe": found.cut.name, "startingOffsets": found.cut.offsets(lambda _: 10)},
        "times out of bounds": {"subscribe": found.boundless.name},
        **{f"{key} is forbidden": {**good, key: value} for key, value in FORBIDDEN.items()},
    }
    words = {
        "lost records": f"{found.cut.name}-0",
        "times out of bounds": "overflow",
        "an isolation level that is none": "isolation.level",
    }
    cases = [Case(name=name, options=options, fails=True, words=words.get(name, "")) for name, options in wrong.items()]
    return [
        *cases,
        Case(name="a schema of the user's", options=good, fails=True, schema="value string", words="schema"),
    ]


def _wrong_topics(topic: str) -> dict[str, Mapping[str, str]]:
    return {
        "no topics at all": {},
        "two ways to name topics": {"subscribe": topic, "subscribePattern": ".*"},
        "an assignment that is no JSON": {"assign": "{nothing"},
        "no topic in subscribe": {"subscribe": ""},
        "an empty pattern": {"subscribePattern": ""},
    }


def _wrong_places(topic: Written, cut: Written) -> dict[str, Mapping[str, str]]:
    """Wrong starts and ends.

    Args:
        cut: A topic of one partition: of several, which one Spark names first depends on how it hashes.
    """
    good, one = {"subscribe": topic.name}, {"subscribe": cut.name}
    partial = json.dumps({topic.name: {"0": 0}})
    foreign = json.dumps({topic.name: {"0": 0, "1": 0, "2": 0, "9": 0}})
    return {
        "start at latest": {**good, "startingOffsets": "latest"},
        "start at -1": {**good, "startingOffsets": topic.offsets(lambda _: -1)},
        "end at earliest": {**good, "endingOffsets": "earliest"},
        "end at -2": {**good, "endingOffsets": topic.offsets(lambda _: -2)},
        "offsets that are no JSON": {**good, "startingOffsets": "{what"},
        "offsets of some partitions": {**good, "startingOffsets": partial},
        "offsets of a partition that is not there": {**good, "startingOffsets": foreign},
        "ends of some partitions": {**good, "endingOffsets": partial},
        "times of some partitions": {**good, "startingOffsetsByTimestamp": partial},
        "times that are no JSON": {**good, "startingOffsetsByTimestamp": "now"},
        "a time that is none": {**good, "startingTimestamp": "yesterday"},
        "an ending time that is none": {**good, "endingTimestamp": "tomorrow"},
        "a time behind all": {**one, "startingTimestamp": str(NEVER_MS)},
        "a time behind all, by partition": {**one, "startingOffsetsByTimestamp": cut.offsets(lambda _: NEVER_MS)},
        "a strategy that is none": {**good, "startingOffsetsByTimestampStrategy": "guess"},
        "starts behind ends": {
            **good,
            "startingOffsets": topic.offsets(lambda end: end - 1),
            "endingOffsets": topic.offsets(lambda end: end - 5),
        },
        "a start behind the latest": {**one, "startingOffsets": cut.offsets(lambda end: end + 5)},
    }


WRONG_VALUES: Mapping[str, Mapping[str, str]] = {
    "an isolation level that is none": {"kafka.isolation.level": "guess"},
    "minPartitions 0": {"minPartitions": "0"},
    "minPartitions -3": {"minPartitions": "-3"},
    "minPartitions that is none": {"minPartitions": "many"},
    "maxRecordsPerPartition 0": {"maxRecordsPerPartition": "0"},
    "failOnDataLoss perhaps": {"failOnDataLoss": "perhaps"},
    "includeHeaders perhaps": {"includeHeaders": "perhaps"},
    "kafka.group.id empty prefix": {"kafkaConsumer.pollTimeoutMs": "soon"},
}
FORBIDDEN = {
    "kafka.auto.offset.reset": "latest",
    "kafka.key.deserializer": "some.Class",
    "kafka.value.deserializer": "some.Class",
    "kafka.enable.auto.commit": "true",
    "kafka.interceptor.classes": "some.Class",
}


def wrong_streams(found: Set) -> list[Case]:
    topic = found.codecs["none"]
    good = {"subscribe": topic.name}
    wrong: dict[str, Mapping[str, str]] = {
        "an end": {**good, "endingOffsets": "latest"},
        "ending times": {**good, "endingOffsetsByTimestamp": topic.offsets(lambda _: MIDDLE_MS)},
        "least above most": {**good, "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "10"},
        "maxOffsetsPerTrigger that is none": {**good, "maxOffsetsPerTrigger": "some"},
        "maxTriggerDelay that is none": {**good, "minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"},
        "offsets of some partitions": {**good, "startingOffsets": json.dumps({topic.name: {"0": 0}})},
        "kafka.auto.offset.reset": {**good, "kafka.auto.offset.reset": "earliest"},
        "two ways to name topics": {**good, "assign": topic.assign()},
        "no topics at all": {},
    }
    return [Case(name=name, options=options, fails=True) for name, options in wrong.items()]
