"""The options: names in any case, Spark's defaults, precedence and refusals in Spark's words."""

from __future__ import annotations

import logging
import pickle
import re

import pytest

from kwire import TopicPartition
from kwire.spark.errors import OffsetsError, OptionError
from kwire.spark.kafka_options import task_config
from kwire.spark.limits import (
    EARLIEST,
    LATEST,
    GlobalTimestamp,
    Limit,
    OnNoMatch,
    SpecificOffsets,
    SpecificTimestamps,
)
from kwire.spark.options import batch_options, stream_options
from kwire.spark.source import KwireDataSource
from kwire.spark.strategies import AssignPartitions, SubscribePattern, SubscribeTopics

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def given(**options: str) -> dict[str, str]:
    return {**SERVERS, "subscribe": "t", **options}


# --- what is read ---------------------------------------------------------------------------------------------


def test_the_defaults_of_a_batch() -> None:
    options = batch_options(given())
    assert options.strategy == SubscribeTopics(frozenset({"t"}))
    assert (options.start, options.end) == (EARLIEST, LATEST)
    assert (options.fail_on_data_loss, options.include_headers) == (True, False)
    assert (options.min_partitions, options.max_records_per_partition, options.ranges_per_task) == (None, None, 1)
    assert (options.poll_timeout_ms, options.offset_attempts, options.offset_retry_interval_ms) == (120_000, 3, 1_000)


def test_a_stream_starts_at_the_end_by_default() -> None:
    options = stream_options(given())
    assert (options.start, options.max_trigger_delay_ms) == (LATEST, 15 * 60_000)
    assert (options.min_offsets_per_trigger, options.max_offsets_per_trigger) == (None, None)


def test_names_are_the_same_in_any_case() -> None:
    upper = {name.upper(): value for name, value in given(includeHeaders="TRUE", minPartitions="7").items()}
    options = batch_options(upper)
    assert (options.include_headers, options.min_partitions) == (True, 7)
    assert options.kafka["bootstrap_servers"] == "localhost:9092"


def test_topics_are_separated_by_commas_and_trimmed() -> None:
    assert batch_options(given(subscribe=" a, b ,,a")).strategy == SubscribeTopics(frozenset({"a", "b"}))


def test_a_pattern() -> None:
    strategy = batch_options({**SERVERS, "subscribePattern": " orders-.* "}).strategy
    assert isinstance(strategy, SubscribePattern)
    assert strategy.pattern.pattern == "orders-.*"


def test_partitions_by_name() -> None:
    assert batch_options({**SERVERS, "assign": '{"t":[0,1]}'}).strategy == AssignPartitions(frozenset({T0, T1}))


STARTS: list[tuple[dict[str, str], Limit]] = [
    ({"startingOffsets": " Earliest "}, EARLIEST),
    ({"startingOffsets": '{"t":{"0":5}}'}, SpecificOffsets({T0: 5})),
    (
        {"startingOffsetsByTimestamp": '{"t":{"0":9}}', "startingOffsets": "earliest"},
        SpecificTimestamps({T0: 9}, OnNoMatch.ERROR),
    ),
    (
        {"startingTimestamp": "11", "startingOffsetsByTimestamp": '{"t":{"0":9}}'},
        GlobalTimestamp(11, OnNoMatch.ERROR),
    ),
    (
        {"startingTimestamp": "11", "startingOffsetsByTimestampStrategy": "Latest"},
        GlobalTimestamp(11, OnNoMatch.LATEST),
    ),
]


@pytest.mark.parametrize(("options", "limit"), STARTS)
def test_a_timestamp_for_all_wins_over_one_for_each_and_that_over_offsets(
    options: dict[str, str], limit: Limit
) -> None:
    assert batch_options(given(**options)).start == limit
    assert stream_options(given(**options)).start == limit


def test_the_same_order_holds_for_the_end() -> None:
    options = {"endingTimestamp": "11", "endingOffsetsByTimestamp": '{"t":{"0":9}}', "endingOffsets": "latest"}
    assert batch_options(given(**options)).end == GlobalTimestamp(11, OnNoMatch.ERROR)


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("250us", 0.25), ("100ms", 100), ("50s", 50_000), ("2min", 120_000), ("3", 3), ("1d", 864e5)]
)
def test_a_delay_has_sparks_units(text: str, delay_ms: float) -> None:
    assert stream_options(given(maxTriggerDelay=text)).max_trigger_delay_ms == delay_ms


def test_settings_of_kafka_go_to_the_consumer() -> None:
    options = batch_options(
        given(**{"kafka.isolation.level": "read_committed", "kafka.max.partition.fetch.bytes": "12345"})
    )
    config = task_config(options.kafka)
    assert (config.isolation_level.name, config.max_partition_fetch_bytes) == ("READ_COMMITTED", 12345)
    assert (config.group_id, config.enable_auto_commit, config.auto_offset_reset.kind.name) == (None, False, "NONE")


def test_options_travel_to_tasks() -> None:
    options = stream_options({**SERVERS, "subscribePattern": "a.*", "startingTimestamp": "5"})
    assert pickle.loads(pickle.dumps(options)) == options


# --- what is refused ------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, str], str]] = [
    ({"subscribe": "", "kafka.bootstrap.servers": "a:1"}, "No topics to subscribe"),
    ({"subscribePattern": "x"}, "Only one of the following options can be specified for Kafka source"),
    ({"minPartitions": "a"}, "Option 'minPartitions': For input string: \"a\""),
    ({"minPartitions": "1.0"}, 'For input string: "1.0"'),
    ({"minPartitions": "0"}, "minPartitions must be positive"),
    ({"minPartitions": "-1"}, "minPartitions must be positive"),
    ({"minPartitions": "2147483648"}, "For input string"),
    ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be positive"),
    ({"failOnDataLoss": "perhaps"}, "Option 'failOnDataLoss': For input string: \"perhaps\""),
    ({"startingTimestamp": "soon"}, "Expected a single long value, got soon"),
    ({"startingOffsets": "early"}, "Option 'startingOffsets': Expected e.g."),
    ({"startingOffsets": '{"t":{"0":-3}}'}, "Option 'startingOffsets': t-0 has no offset -3"),
    ({"startingOffsetsByTimestamp": "early"}, "Option 'startingOffsetsByTimestamp': Expected e.g."),
    ({"startingOffsetsByTimestampStrategy": "no"}, "No value found for 'NO'"),
    ({"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "10"}, "higher than the maxOffsetsPerTrigger(10)"),
    ({"maxTriggerDelay": "soon"}, "Failed to parse time string: soon"),
    ({"kafka.auto.offset.reset": "latest"}, "set the source option 'startingOffsets'"),
    ({"kafka.auto_offset_reset": "latest"}, "set the source option 'startingOffsets'"),
    ({"kafka.enable_auto_commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
    ({"kafka.key.deserializer": "x"}, "'key.deserializer' is not supported as keys are deserialized as byte arrays"),
    ({"kafka.value.deserializer": "x"}, "'value.deserializer' is not supported as values are deserialized"),
    ({"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
    ({"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported"),
    ({"kafka.ssl.provider": "x"}, "Option 'kafka.ssl.provider': kwire has no setting 'ssl.provider'"),
    ({"kafka.fetch.min.byte": "1"}, "Option 'kafka.fetch.min.byte': unknown setting"),
    ({"kafka.fetch.min.bytes": "few"}, "Option 'kafka.fetch.min.bytes'"),
    ({"kwire.rangesPerTsk": "2"}, "unknown option 'kwire.rangespertsk'; did you mean kwire.rangesPerTask?"),
]


@pytest.mark.parametrize(("options", "message"), [each for each in REFUSED if "starting" not in str(each[0])])
def test_it_is_refused_when_spark_asks_for_the_schema(options: dict[str, str], message: str) -> None:
    """That is in `load()`. A stream started, and ended by itself with an error that nobody saw who did not wait."""
    with pytest.raises(OptionError, match=re.escape(message)):
        KwireDataSource(given(**options)).schema()


def test_a_misspelled_option_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    source = KwireDataSource(given(maxOffsetPerTrigger="5"))
    source.streamReader(source.schema())
    assert caplog.text.count("did you mean 'maxOffsetsPerTrigger'?") == 1


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_is_refused_and_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        batch_options(given(**options))
    with pytest.raises(OptionError, match=re.escape(message)):
        stream_options(given(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign"),
        ({"assign": ""}, "No topicpartitions to assign as specified value for option 'assign' is ''"),
        ({"assign": '{"t":0}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}'),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribePattern": "(("}, "Option 'subscribePattern': Python's regular expressions"),
        ({"subscribePattern": "[a-z&&[^b-g]]+"}, "Option 'subscribePattern': Python's regular expressions"),
        ({"subscribe": "t", "kafka.bootstrap.servers": None}, "Option 'kafka.bootstrap.servers' must be specified"),
    ],
)
def test_a_query_without_what_it_needs_is_refused(options: dict[str, str | None], message: str) -> None:
    asked = {name: value for name, value in {**SERVERS, **options}.items() if value is not None}
    for read in (batch_options, stream_options):
        with pytest.raises(OptionError, match=re.escape(message)):
            read(asked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"t":{"0":-3}}'}, "Option 'endingOffsets': t-0 has no offset -3"),
    ],
)
def test_a_batch_is_of_what_there_is(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        batch_options(given(**options))


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ('{"t":{"0":7}}', '{"t":{"0":6}}', "start offset 7 is greater than the end offset 6 for topic t partition 0"),
        ('{"t":{"0":7}}', '{"t":{"1":9}}', "Topic-partitions for start offset: t-0, topic-partitions for end"),
    ],
)
def test_the_end_of_a_batch_lies_behind_its_start(start: str, end: str, message: str) -> None:
    with pytest.raises(OffsetsError, match=re.escape(message)):
        batch_options(given(startingOffsets=start, endingOffsets=end))
    with pytest.raises(
        OffsetsError,
        match=re.escape(message.replace("offset 7", "timestamp 7").replace("end offset 6", "end timestamp 6")),
    ):
        batch_options(given(startingOffsetsByTimestamp=start, endingOffsetsByTimestamp=end))


def test_ends_that_are_looked_up_are_not_compared() -> None:
    batch_options(given(startingOffsets='{"t":{"0":7}}', endingOffsets='{"t":{"0":-1}}'))


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        stream_options(given(endingOffsets="latest"))
    with pytest.raises(OptionError, match="ending timestamp not valid in streaming queries"):
        stream_options(given(endingOffsetsByTimestamp='{"t":{"0":9}}'))


# --- what is warned of ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxOffsetsPerTrigger": "7"}, "maxOffsetsPerTrigger option ignored in batch queries"),
        ({"kwire.freshFirst": "stateless"}, "kwire.freshFirst option ignored in batch queries"),
        ({"startingOffset": "earliest"}, "option 'startingoffset' is ignored; did you mean 'startingOffsets'?"),
        ({"kafka.group.id": "g"}, "Kafka option 'kafka.group.id' has been set on this query"),
        ({"kafka.group_id": "g"}, "Kafka option 'kafka.group.id' has been set on this query"),
    ],
)
def test_what_has_no_effect_is_warned_of(
    options: dict[str, str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        batch_options(given(**options))
    assert message in caplog.text
