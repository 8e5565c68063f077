"""FindCoordinator: every group and every transactional id has a coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.conformance.broker import GROUP, TRANSACTION, wait_for
from kwire.conformance.expectations import expect_equal, expect_error, expect_ok, only, the
from kwire.conformance.registry import check
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest

if TYPE_CHECKING:
    from kwire.conformance.broker import JudgedBroker
    from kwire.protocol.messages.find_coordinator import FindCoordinatorResponse

MANY_FROM = 4
NO_SUCH_TYPE = 99


def find(broker: JudgedBroker, version: int, key_type: int, *keys: str) -> list[Coordinator]:
    """The coordinators of these keys; before version 4, with one request for each."""
    if version >= MANY_FROM:
        return broker.ask(FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type), version).coordinators
    answers = [broker.ask(FindCoordinatorRequest(key=key, key_type=key_type), version) for key in keys]
    return [_one(key, answer) for key, answer in zip(keys, answers, strict=True)]


def _one(key: str, answer: FindCoordinatorResponse) -> Coordinator:
    return Coordinator(
        key=key, node_id=answer.node_id, host=answer.host, port=answer.port, error_code=answer.error_code
    )


def expect_coordinator(broker: JudgedBroker, version: int, key_type: int) -> None:
    key = broker.new_name()

    def look() -> Coordinator | None:
        found = only(find(broker, version, key_type, key), "coordinator in the answer")
        return None if found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE else found

    found = wait_for(look, "a coordinator")
    expect_ok(found.error_code, "FindCoordinator")
    expect_equal(found.key, key, "the key")
    nodes = broker.metadata().brokers
    node = the(nodes, lambda node: node.node_id == found.node_id, f"broker with id {found.node_id} in the metadata")
    expect_equal((found.host, found.port), (node.host, node.port), "the coordinator's address")


@check(FindCoordinatorRequest)
def finds_the_coordinator_of_a_group(broker: JudgedBroker, version: int) -> None:
    expect_coordinator(broker, version, GROUP)


@check(FindCoordinatorRequest, versions="1+")
def finds_the_coordinator_of_a_transaction(broker: JudgedBroker, version: int) -> None:
    expect_coordinator(broker, version, TRANSACTION)


@check(FindCoordinatorRequest, versions=f"{MANY_FROM}+")
def finds_many_at_once(broker: JudgedBroker, version: int) -> None:
    """KIP-699."""
    keys = [broker.group().name for _ in range(3)]
    found = {entry.key: entry.error_code for entry in find(broker, version, GROUP, *keys)}
    expect_equal(found, dict.fromkeys(keys, 0), "the error codes")


@check(FindCoordinatorRequest, versions="1+")
def refuses_a_type_of_key_there_is_not(broker: JudgedBroker, version: int) -> None:
    found = only(find(broker, version, NO_SUCH_TYPE, broker.new_name()), "coordinator in the answer")
    expect_error(found.error_code, ErrorCode.INVALID_REQUEST, what=f"key type {NO_SUCH_TYPE}")
