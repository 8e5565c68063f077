"""Creating, enlarging, emptying, configuring and deleting topics."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.conformance.batches import RecordToWrite, encode_batch
from kwire.conformance.broker import wait_for
from kwire.conformance.expectations import expect, expect_equal, expect_error, expect_ok, only, the
from kwire.conformance.producers import idempotent_producer
from kwire.conformance.reading import at, fetch
from kwire.conformance.registry import check
from kwire.conformance.writing import append
from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker
    from kwire.protocol.messages.create_topics import CreatableTopicResult
    from kwire.protocol.messages.delete_topics import DeletableTopicResult
    from kwire.protocol.messages.describe_configs import DescribeConfigsResult

TIMEOUT_MS = 10_000
DEFAULTS_FROM = 4
"""From this version on CreateTopics takes -1 for the broker's defaults (KIP-464)."""

IDS_FROM = 6
TOPIC_RESOURCE = 2
"""The type of a topic in DescribeConfigs (Kafka's ConfigResource)."""


def create(
    broker: JudgedBroker, version: int, wanted: CreatableTopic, *, validate_only: bool = False
) -> CreatableTopicResult:
    broker.topics.add(wanted.name)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    return only(broker.ask(request, version).topics, "topic in the answer")


def exists(broker: JudgedBroker, name: str) -> bool:
    return only(broker.metadata(name).topics, "topic in the answer").error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@check(CreateTopicsRequest)
def creates_a_topic(broker: JudgedBroker, version: int) -> None:
    name = broker.new_name()
    result = create(broker, version, CreatableTopic(name=name, num_partitions=2, replication_factor=1))
    expect_ok(result.error_code, "CreateTopics")
    found = broker.wait_for_leaders(name)
    expect_equal(len(found.partitions), 2, "the number of partitions in the metadata")
    if version >= 5:
        expect_equal((result.num_partitions, result.replication_factor), (2, 1), "partitions and replicas (KIP-525)")
        expect(bool(result.configs), "the answer shows no settings (KIP-525)")
    if version >= 7:
        expect_equal(result.topic_id, found.topic_id, "the topic id (KIP-516)")
    again = create(broker, version, CreatableTopic(name=name, num_partitions=2, replication_factor=1))
    expect_error(again.error_code, ErrorCode.TOPIC_ALREADY_EXISTS, what="creating it again")


@check(CreateTopicsRequest, versions=f"{DEFAULTS_FROM}+")
def creates_a_topic_with_the_brokers_defaults(broker: JudgedBroker, version: int) -> None:
    """KIP-464."""
    name = broker.new_name()
    result = create(broker, version, CreatableTopic(name=name, num_partitions=-1, replication_factor=-1))
    expect_ok(result.error_code, "CreateTopics")
    broker.wait_for_leaders(name)


@check(CreateTopicsRequest)
def only_validates_when_asked_to(broker: JudgedBroker, version: int) -> None:
    name = broker.new_name()
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    expect_ok(create(broker, version, wanted, validate_only=True).error_code, "CreateTopics")
    expect(not exists(broker, name), "the topic was created though it should only be validated")


@check(CreateTopicsRequest)
def refuses_what_cannot_be(broker: JudgedBroker, version: int) -> None:
    bad_name = CreatableTopic(name="no such name!", num_partitions=1, replication_factor=1)
    no_partitions = CreatableTopic(name=broker.new_name(), num_partitions=0, replication_factor=1)
    many_replicas = CreatableTopic(name=broker.new_name(), num_partitions=1, replication_factor=1000)
    setting = CreatableTopicConfig(name="retention.ms", value="for ever")
    bad_setting = CreatableTopic(name=broker.new_name(), num_partitions=1, replication_factor=1, configs=[setting])
    for wanted, error in (
        (bad_name, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (no_partitions, ErrorCode.INVALID_PARTITIONS),
        (many_replicas, ErrorCode.INVALID_REPLICATION_FACTOR),
        (bad_setting, ErrorCode.INVALID_CONFIG),
    ):
        expect_error(create(broker, version, wanted).error_code, error, what=f"{wanted!r:.80}")


def delete(broker: JudgedBroker, version: int, name: str) -> DeletableTopicResult:
    request = DeleteTopicsRequest(timeout_ms=TIMEOUT_MS)
    if version >= IDS_FROM:
        request.topics = [DeleteTopicState(name=name)]
    else:
        request.topic_names = [name]
    return only(broker.ask(request, version).responses, "topic in the answer")


@check(DeleteTopicsRequest)
def deletes_a_topic(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    expect_ok(delete(broker, version, topic.name).error_code, "DeleteTopics")
    wait_for(lambda: not exists(broker, topic.name), "the topic to be gone")
    code = delete(broker, version, topic.name).error_code
    expect_error(code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="deleting it again")


@check(DeleteTopicsRequest, versions=f"{IDS_FROM}+")
def deletes_a_topic_by_id(broker: JudgedBroker, version: int) -> None:
    """KIP-516."""
    topic = broker.topic()
    for topic_id, wanted in ((topic.id, ErrorCode.NONE), (uuid4(), ErrorCode.UNKNOWN_TOPIC_ID)):
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=TIMEOUT_MS)
        result = only(broker.ask(request, version).responses, "topic in the answer")
        expect_error(result.error_code, wanted, what="DeleteTopics by id")
    wait_for(lambda: not exists(broker, topic.name), "the topic to be gone")


@check(CreatePartitionsRequest)
def adds_partitions(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    for count, wanted in ((3, ErrorCode.NONE), (2, ErrorCode.INVALID_PARTITIONS)):
        enlarged = CreatePartitionsTopic(name=topic.name, count=count, assignments=None)
        answer = broker.ask(CreatePartitionsRequest(topics=[enlarged], timeout_ms=TIMEOUT_MS), version)
        result = only(answer.results, "topic in the answer")
        expect_error(result.error_code, wanted, what=f"CreatePartitions to {count}")
    wait_for(lambda: len(broker.wait_for_leaders(topic.name).partitions) == 3, "three partitions in the metadata")


@check(CreatePartitionsRequest)
def adds_no_partitions_to_an_unknown_topic(broker: JudgedBroker, version: int) -> None:
    enlarged = CreatePartitionsTopic(name=broker.new_name(), count=3, assignments=None)
    answer = broker.ask(CreatePartitionsRequest(topics=[enlarged], timeout_ms=TIMEOUT_MS), version)
    result = only(answer.results, "topic in the answer")
    expect_error(result.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown topic")


@check(DeleteRecordsRequest, needs=[ProduceRequest, FetchRequest])
def moves_the_start_of_the_log(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic()
    expect_ok(append(broker, topic, encode_batch(*[RecordToWrite(b"%d" % i) for i in range(5)])).error_code, "Produce")
    for offset, wanted in ((3, ErrorCode.NONE), (99, ErrorCode.OFFSET_OUT_OF_RANGE)):
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        wish = DeleteRecordsTopic(name=topic.name, partitions=[partition])
        answer = broker.ask(DeleteRecordsRequest(topics=[wish], timeout_ms=TIMEOUT_MS), version)
        result = only(only(answer.topics, "topic").partitions, "partition")
        expect_error(result.error_code, wanted, what=f"DeleteRecords up to {offset}")
        if wanted is ErrorCode.NONE:
            expect_equal(result.low_watermark, offset, "the low watermark")
    below = fetch(broker, topic, at(0))
    expect_error(below.error_code, ErrorCode.OFFSET_OUT_OF_RANGE, what="a fetch below the start of the log")
    expect_equal(fetch(broker, topic, at(3)).log_start_offset, 3, "the log start offset")


def describe(broker: JudgedBroker, version: int, topic: str, *keys: str) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(keys) or None
    )
    answer = broker.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), version)
    return only(answer.results, "resource in the answer")


@check(DescribeConfigsRequest)
def describes_the_settings_of_a_topic(broker: JudgedBroker, version: int) -> None:
    topic = broker.topic(config={"retention.ms": "1234567"})
    result = describe(broker, version, topic.name)
    expect_ok(result.error_code, "DescribeConfigs")
    found = the(result.configs, lambda setting: setting.name == "retention.ms", "setting retention.ms")
    expect_equal(found.value, "1234567", "retention.ms")
    expect(bool(found.synonyms), "there are no synonyms, though they were asked for (KIP-226)")
    alone = describe(broker, version, topic.name, "cleanup.policy")
    expect_equal([setting.name for setting in alone.configs], ["cleanup.policy"], "the settings, one being asked for,")


@check(DescribeConfigsRequest)
def describes_no_settings_of_an_unknown_topic(broker: JudgedBroker, version: int) -> None:
    code = describe(broker, version, broker.new_name()).error_code
    expect_error(code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what="an unknown topic")


@check(DescribeProducersRequest, needs=[ProduceRequest, InitProducerIdRequest])
def describes_a_producer(broker: JudgedBroker, version: int) -> None:
    """KIP-664."""
    topic, producer = broker.topic(), idempotent_producer(broker)
    batch = encode_batch(RecordToWrite(b"1"), RecordToWrite(b"2"), producer=producer, base_sequence=0)
    expect_ok(append(broker, topic, batch).error_code, "Produce")
    wanted = TopicRequest(name=topic.name, partition_indexes=[0])
    answer = broker.ask(DescribeProducersRequest(topics=[wanted]), version)
    partition = only(only(answer.topics, "topic").partitions, "partition")
    expect_ok(partition.error_code, "DescribeProducers")
    found = only(partition.active_producers, "producer")
    expect_equal((found.producer_id, found.producer_epoch), (producer.producer_id, producer.epoch), "id and epoch")
    expect_equal(found.last_sequence, 1, "the last sequence number")
    expect_equal(found.current_txn_start_offset, -1, "the start of the current transaction")


@check(CreateTopicsRequest, versions="7+")
def gives_every_topic_an_id_of_its_own(broker: JudgedBroker, version: int) -> None:
    """KIP-516: also a topic with the name of one that was deleted."""
    wanted = CreatableTopic(name=broker.new_name(), num_partitions=1, replication_factor=1)
    first = create(broker, version, wanted).topic_id
    expect_ok(delete(broker, broker.highest(DeleteTopicsRequest), wanted.name).error_code, "DeleteTopics")
    second = create(broker, version, wanted).topic_id
    expect(ZERO_UUID not in (first, second) and first != second, f"the topic ids are {first} and {second}")
