"""`spark.read.format("kwire")` in a real session: what tasks read is what is in the topics, neither more nor less."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.types import BinaryType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.kafkas import SharedKafka
    from tests.integration.spark.frames import Read, rows
else:
    from frames import rows

REASON = "what tasks ask of Kafka is asked by the consumer, which is tested against both; sessions of Spark take long"
pytestmark = [
    pytest.mark.only("kafka", reason=REASON),
    pytest.mark.slow,
    # Spark tells of pandas' and its own deprecations
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]


def test_every_column_of_every_record(read: Read, topic: MakeTopic, produce: Produce) -> None:
    name = topic(partitions=2)
    produce(
        name,
        [b"a", None, b"\xff"],
        keys=[None, b"k", b""],
        headers=[[("h", b"1"), ("h", None)], [], [("i", b"")]],
        timestamps_ms=[1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_002],
        partition=1,
    )
    frame = read({"subscribe": name, "includeHeaders": "true"})
    assert frame.rdd.getNumPartitions() == 2
    found = rows(frame)
    assert [row.asDict(recursive=True) for row in found] == [
        {
            "key": key,
            "value": value,
            "topic": name,
            "partition": 1,
            "offset": offset,
            "timestamp": datetime.datetime(2023, 11, 14, 22, 13, 20, 1_000 * offset),  # noqa: DTZ001  as Spark has it
            "timestampType": 0,
            "headers": headers,
        }
        for offset, (key, value, headers) in enumerate(
            [
                (None, b"a", [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]),
                (b"k", None, None),
                (b"", b"\xff", [{"key": "i", "value": b""}]),
            ]
        )
    ]


def test_ranges_are_cut_and_nothing_is_read_twice(read: Read, topic: MakeTopic, produce: Produce) -> None:
    name = topic(partitions=2)
    for partition in range(2):
        produce(name, [b"%d" % n for n in range(1_000)], partition=partition)
    options = {
        "subscribe": name,
        "startingOffsets": f'{{"{name}":{{"0":100,"1":-2}}}}',
        "endingOffsets": f'{{"{name}":{{"0":900,"1":-1}}}}',
        "minPartitions": "6",
    }
    frame = read(options)
    assert frame.rdd.getNumPartitions() == 6
    assert [(row.partition, row.value) for row in rows(frame)] == [
        (partition, b"%d" % n) for partition, span in enumerate([range(100, 900), range(1_000)]) for n in span
    ]
    together = read({**options, "kwire.rangesPerTask": "2"})
    assert together.rdd.getNumPartitions() < 6
    assert together.count() == 1_800


def test_ends_are_looked_up_by_each_action_again(read: Read, topic: MakeTopic, produce: Produce) -> None:
    name = topic()
    produce(name, [b"x"] * 3)
    frame = read({"subscribe": name})
    assert frame.count() == 3
    produce(name, [b"x"] * 2)
    assert frame.count() == 5


def test_a_filter_leaves_the_frame_it_was_made_from_alone(read: Read, topic: MakeTopic, produce: Produce) -> None:
    name = topic(partitions=2)
    for partition in range(2):
        produce(name, [b"x"] * 3, partition=partition)
    frame = read({"subscribe": name})
    assert frame.where("partition = 0").count() == 3
    assert frame.select("offset").count() == 6


def test_times_mean_the_first_record_that_is_not_older(read: Read, topic: MakeTopic, produce: Produce) -> None:
    name = topic()
    produce(name, [b"%d" % n for n in range(10)], timestamps_ms=[1_000 * (n + 1) for n in range(10)])
    between = {"startingTimestamp": "2500", "endingTimestamp": "6000"}
    assert [row.value for row in rows(read({"subscribe": name, **between}))] == [b"2", b"3", b"4"]
    late = {"subscribe": name, "startingTimestamp": "99000"}
    with pytest.raises(AnalysisException, match=f"No offset matched from request of topic-partition {name}-0"):
        read(late).count()
    assert read({**late, "startingOffsetsByTimestampStrategy": "latest"}).count() == 0


def test_nothing_to_read_is_no_rows(read: Read, topic: MakeTopic) -> None:
    assert read({"subscribePattern": topic()}).count() == 0
    assert read({"subscribePattern": "no-topic-has-this-name"}).count() == 0


def test_what_is_gone_fails_the_query_or_is_skipped_as_the_user_says(
    read: Read, topic: MakeTopic, produce: Produce
) -> None:
    name = topic()
    produce(name, [b"x"] * 3)
    beyond = {
        "subscribe": name,
        "startingOffsets": f'{{"{name}":{{"0":100}}}}',
        "endingOffsets": f'{{"{name}":{{"0":200}}}}',
    }
    with pytest.raises(PythonException, match=r"Could not read records in offset \[100, 200\)"):
        read(beyond).count()
    assert read({**beyond, "failOnDataLoss": "false"}).count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minPartitions": "a"}, "Option 'minPartitions': For input string"),
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"kafka.auto.offset.reset": "latest"}, "'auto.offset.reset' is not supported"),
        ({"subscribe": "there-is-no-such-topic"}, "This server does not host this topic-partition"),
    ],
)
def test_what_cannot_be_is_said_when_the_query_is_planned(
    read: Read, topic: MakeTopic, options: dict[str, str], message: str
) -> None:
    fast = {"fetchOffset.retryIntervalMs": "1"}
    with pytest.raises(AnalysisException, match=message):
        read({"subscribe": topic(), **fast, **options}).count()


def test_another_schema_is_refused(spark: SparkSession, kafka: SharedKafka, topic: MakeTopic) -> None:
    reader = spark.read.format("kwire").schema(StructType([StructField("value", BinaryType())]))
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic()}
    with pytest.raises(AnalysisException, match="fixed schema and cannot be set with a custom one"):
        reader.options(**options).load().count()
