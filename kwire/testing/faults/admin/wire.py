"""What confluent-kafka's AdminClient cannot ask for, and one connection to ask it over.

Declared here and not in `kwire.protocol.messages`, which has what consumers, their tools and their tests speak. Called
by the modules beside this one; each question is a connection of its own, to a broker directly.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TypeVar, cast

from kwire.errors import DisconnectError, KafkaError
from kwire.protocol.framing import Answer, Framing
from kwire.protocol.schema import (
    Array,
    Bool,
    Float64,
    Int16,
    Int32,
    Message,
    NullableString,
    Request,
    Response,
    String,
    Structure,
    field,
)
from kwire.testing.faults.admin.patience import CLIENT_ID

TIMEOUT_S = 4.0

R = TypeVar("R", bound=Message)


class ReassignedPartition(Structure):
    """A partition and all replicas it is to have, the preferred leader first."""

    partition_index: Int32 = 0
    replicas: Array[Int32] = field(default=[])


class ReassignedTopic(Structure):
    """A topic and some of its partitions."""

    name: String = ""
    partitions: Array[ReassignedPartition] = field(default=[])


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"], key=45, versions="0", flexible="0+"
):
    """Which replicas partitions are to have (KIP-455)."""

    timeout_ms: Int32 = 60_000
    topics: Array[ReassignedTopic] = field(default=[])


class ReassignedPartitionResult(Structure):
    """A partition, and whether that was accepted."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None


class ReassignedTopicResult(Structure):
    """A topic and its partitions."""

    name: String = ""
    partitions: Array[ReassignedPartitionResult] = field(default=[])


class AlterPartitionReassignmentsResponse(Response, to=AlterPartitionReassignmentsRequest):
    """What became of the request, and of each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: Array[ReassignedTopicResult] = field(default=[])


class QuotaEntity(Structure):
    """Whom a quota is about; a name of None means all who have none of their own."""

    entity_type: String = ""
    entity_name: NullableString = None


class QuotaChange(Structure):
    """One quota, to be set or removed."""

    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class QuotaEntry(Structure):
    """The quotas of one entity."""

    entity: Array[QuotaEntity] = field(default=[])
    ops: Array[QuotaChange] = field(default=[])


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"], key=49, versions="0-1", flexible="1+"):
    """How much clients may do (KIP-546)."""

    entries: Array[QuotaEntry] = field(default=[])
    validate_only: Bool = False


class QuotaResult(Structure):
    """What became of one entity's quotas."""

    error_code: Int16 = 0
    error_message: NullableString = None
    entity: Array[QuotaEntity] = field(default=[])


class AlterClientQuotasResponse(Response, to=AlterClientQuotasRequest):
    """What became of each entity's quotas."""

    throttle_time_ms: Int32 = 0
    entries: Array[QuotaResult] = field(default=[])


def ask(address: tuple[str, int], request: Request[R], version: int | None = None) -> R:
    """One question in this version, or the newest one we know, and the answer.

    Raises:
        DisconnectError: the broker cannot be reached, or does not answer.
        ProtocolError: the answer is none.
    """
    framing = Framing(CLIENT_ID)
    try:
        with socket.create_connection(address, TIMEOUT_S) as connection:
            asked_in = request.max_version if version is None else version
            connection.sendall(framing.send(cast("Request[Message]", request), asked_in))
            (answer,) = _received(connection, framing)
    except OSError as error:
        raise DisconnectError(f"no answer from {address[0]}:{address[1]}: {error}") from error
    return cast("R", answer.response)


def _received(connection: socket.socket, framing: Framing) -> list[Answer]:
    while True:
        count = connection.recv_into(framing.writable_buffer())
        if count == 0:
            raise ConnectionResetError("hung up")
        if answers := framing.received(count):
            return answers


class Brokers:
    """All brokers, to be asked what any of them may answer. Who answered last is asked first: one that stands still
    would take its time each time.

    Args:
        addresses: their own, by number.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self.addresses = tuple(addresses)
        self._order = self.addresses

    def ask(self, request: Request[R]) -> R:
        """The first answer there is. What is the controller's, any broker hands on.

        Raises:
            KafkaError: nobody answers.
        """
        failures: list[KafkaError] = []
        for address in self._order:
            try:
                answer = ask(address, request)
            except KafkaError as error:
                failures.append(error)
            else:
                self._order = (address, *(each for each in self.addresses if each != address))
                return answer
        raise failures[-1]
