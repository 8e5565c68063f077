"""Produce: append one batch to each partition, in sequence, in transactions, acknowledged or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.testing.cluster.access import Operation
from kwire.testing.cluster.call import ConnectionCutError
from kwire.testing.cluster.leader_hints import LeaderHint, hinted_brokers, leader_hint
from kwire.testing.cluster.transaction import ProducerIdAndEpoch
from kwire.testing.cluster.transaction_checks import Participant, take_part
from kwire.testing.cluster.validation import RecordsRefusedError, the_batch

if TYPE_CHECKING:
    from kwire.protocol.record_batch import Batch
    from kwire.testing.cluster.call import Call
    from kwire.testing.cluster.topics import Partition, Topic

UNREAD = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""Errors of the log in whose answers Kafka does not say where it starts."""

NOBODY, LEADER, ALL_IN_SYNC = 0, 1, -1
TOLD = (ErrorCode.INVALID_TXN_STATE, ErrorCode.NOT_ENOUGH_REPLICAS)
"""What Kafka makes of the coordinator's refusals, which it therefore explains."""

RECORD_ERRORS_FROM, HINTS_FROM, ABORTABLE_FROM, JOINS_FROM, TOPIC_IDS_FROM = 8, 10, 11, 12, 13


async def handle(request: ProduceRequest, call: Call) -> ProduceResponse | None:
    """Append; None, so that nothing is sent, where nobody wants to know (acks=0)."""
    response = ProduceResponse(responses=[_append_topic(request, topic, call) for topic in request.topic_data])
    if request.transactional_id is not None:
        call.cluster.timers.look()  # a transaction that begins here has a time to end
    if request.acks == NOBODY:
        _say_nothing(response)
        return None
    if call.version >= HINTS_FROM:
        leaders = (one.current_leader for topic in response.responses for one in topic.partition_responses)
        hints = [LeaderHint(leader.leader_id, leader.leader_epoch) for leader in leaders]
        response.node_endpoints = [
            NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in hinted_brokers(call.cluster, hints)
        ]
    return response


def _say_nothing(response: ProduceResponse) -> None:
    """A client that gets no answer learns of an error by losing the connection."""
    for topic in response.responses:
        for one in topic.partition_responses:
            if one.error_code != ErrorCode.NONE:
                raise ConnectionCutError(f"Produce with acks=0 failed: {ErrorCode.of(one.error_code).name}")


def _append_topic(request: ProduceRequest, data: TopicProduceData, call: Call) -> TopicProduceResponse:
    by_id = call.version >= TOPIC_IDS_FROM
    topic = call.cluster.topic_by_id(data.topic_id) if by_id else call.cluster.topics.get(data.name)
    name = data.name if topic is None else topic.name
    if name and not call.may(Operation.WRITE, name):
        forbidden = [_refused(one.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for one in data.partition_data]
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=forbidden)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answers = [
        _refused(one.index, unknown) if topic is None else _append_one(request, topic, one, call)
        for one in data.partition_data
    ]
    return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)


def _append_one(
    request: ProduceRequest, topic: Topic, data: PartitionProduceData, call: Call
) -> PartitionProduceResponse:
    try:
        partition = _writable(request, topic, data.index, call)
        batch = the_batch(data.records, call.version)
        _check_transaction(request, partition, batch, call)
    except RecordsRefusedError as refusal:
        return _refusal(topic, data.index, refusal, call)
    try:
        placed = partition.log.append(batch, partition.leader_epoch, call.cluster.wall_clock_ms())
    except RecordsRefusedError as refusal:
        answer = _refusal(topic, data.index, refusal, call)
        if refusal.code not in UNREAD:
            answer.log_start_offset = partition.log.log_start_offset
        return answer
    if not placed.is_repetition:
        call.cluster.changed.notify(partition.key)
    return PartitionProduceResponse(
        index=data.index,
        base_offset=placed.base_offset,
        log_append_time_ms=placed.log_append_time_ms,
        log_start_offset=placed.log_start_offset,
    )


def _writable(request: ProduceRequest, topic: Topic, index: int, call: Call) -> Partition:
    """The partition, if this broker appends to it now. Raises: RecordsRefusedError."""
    if request.acks not in (NOBODY, LEADER, ALL_IN_SYNC):
        raise RecordsRefusedError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}")
    if topic.is_internal:
        raise RecordsRefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {topic.name} is internal")
    found = call.cluster.led_by(call.broker, topic.name, index)
    if isinstance(found, ErrorCode):
        raise RecordsRefusedError(found, found.meaning)
    wanted = min(topic.settings.min_insync_replicas, len(found.replicas))
    if request.acks == ALL_IN_SYNC and len(found.isr) < wanted:
        raise RecordsRefusedError(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(found.isr)} replicas are in sync, {wanted} have to be"
        )
    return found


def _check_transaction(request: ProduceRequest, partition: Partition, batch: Batch, call: Call) -> None:
    """Transactional records belong to a transaction that the coordinator knows of (KIP-890). Raises: as above."""
    if not batch.is_transactional:
        return
    if request.transactional_id is None:
        raise RecordsRefusedError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records without a transactional id"
        )
    known = partition.log.producers.find(batch.producer_id)
    if known is not None and known.transaction_start is not None and known.epoch == batch.producer_epoch:
        return
    participant = Participant(
        transactional_id=request.transactional_id,
        producer=ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch),
        partitions=((partition.topic, partition.index),),
        joins=call.version >= JOINS_FROM,
        knows_abortable=call.version >= ABORTABLE_FROM,
    )
    code = take_part(call.cluster, participant)
    if code is not ErrorCode.NONE:
        raise RecordsRefusedError(code, code.meaning, is_told=code in TOLD)


def _refusal(topic: Topic, index: int, refusal: RecordsRefusedError, call: Call) -> PartitionProduceResponse:
    answer = _refused(index, refusal.code)
    if refusal.is_told:
        answer.error_message = refusal.message
    if call.version >= RECORD_ERRORS_FROM:
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=problem)
            for at, problem in refusal.record_errors
        ]
    if refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and call.version >= HINTS_FROM:
        hint = leader_hint(call.cluster, topic.name, index)
        answer.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
    return answer


def _refused(index: int, code: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)
