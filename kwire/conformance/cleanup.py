"""Deletes the topics and groups that a run has created, and reports those that cannot be deleted.

Transactional ids stay: the protocol has no way to delete them, and brokers forget them after a week.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kwire.conformance.broker import READY_TIMEOUT_S
from kwire.errors import KafkaError
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kwire.conformance.broker import JudgedBroker
    from kwire.conformance.client import BrokerAddress

GONE = frozenset(
    {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_ID}
)
NAMES_UP_TO = 5
"""The last version of DeleteTopics with plain names."""


def clean_up(broker: JudgedBroker) -> list[str]:
    """Delete what the suite has created. Returns what could not be deleted, and why."""
    leftovers = _attempt("topics", partial(_delete_topics, broker)) if broker.topics else []
    by_address: dict[BrokerAddress, list[str]] = {}
    for group in broker.groups:
        by_address.setdefault(group.address, []).append(group.name)
    for address, names in by_address.items():
        leftovers += _attempt("groups", partial(_delete_groups, broker, address, names))
    return leftovers


def _attempt(what: str, delete: Callable[[], list[str]]) -> list[str]:
    try:
        return delete()
    except KafkaError as error:
        return [f"{what}: {error}"]


def _delete_topics(broker: JudgedBroker) -> list[str]:
    version = broker.highest(DeleteTopicsRequest)
    request = DeleteTopicsRequest(timeout_ms=int(broker.timeout_s * 1000))
    if version > NAMES_UP_TO:
        request.topics = [DeleteTopicState(name=name) for name in _names(broker)]
    else:
        request.topic_names = _names(broker)
    answer = broker.ask(request, version)
    return _failed("topic", ((result.name or "", result.error_code) for result in answer.responses))


def _names(broker: JudgedBroker) -> list[str]:
    """The topics of this run. Names that were meant to be refused do not have its prefix."""
    return sorted(name for name in broker.topics if name.startswith(broker.prefix))


def _delete_groups(broker: JudgedBroker, address: BrokerAddress, names: list[str]) -> list[str]:
    # Deleting a share group waits for its state to be deleted elsewhere, and many wait in line.
    with broker.connect(address, timeout_s=max(broker.timeout_s, READY_TIMEOUT_S)) as connection:
        answer = connection.ask(DeleteGroupsRequest(groups_names=names), broker.highest(DeleteGroupsRequest))
    return _failed("group", ((result.group_id, result.error_code) for result in answer.results))


def _failed(kind: str, results: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{kind} {name}: {ErrorCode.of(code).name}" for name, code in results if code not in GONE]
