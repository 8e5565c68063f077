"""A ledger as operations of Jepsen's workload for Kafka."""

from __future__ import annotations

import json

import pytest

from kwire.testing.invariants.ledger import Event, Hidden, Killed, Removed, Sent, Sought, Truncated
from kwire.testing.invariants.user_events import GivenUp
from proofs.independent_checker.export import can_be_told, operations_of
from proofs.independent_checker.operations import Operation, Poll, Send, Word, edn, edn_lines, json_lines
from proofs.independent_checker.producers import FIRST_PRODUCER
from tests.proofs.small_history import BILLS, ORDERS, assigned, polled, revoked, sent, small_history, value


def told(*events: Event) -> list[str]:
    """What is told, one a line: who, what, how it ended."""
    return [
        f"{operation.process} {operation.function} {operation.kind} {_value(operation)}"
        for operation in operations_of(events)
        if operation.kind != "invoke"
    ]


def _value(operation: Operation) -> object:
    match operation.value:
        case Send(key, record, offset, is_told):
            return f"{key}:{record}" + (f"@{offset}" if is_told else "")
        case Poll(records):
            return {key: [offset for offset, _value in rows] for key, rows in (records or {}).items()}
        case other:
            return list(other) if other is not None else None


def test_records_of_one_poll_are_one_operation() -> None:
    at_once = polled(30, "a", ORDERS, 0), polled(30, "a", BILLS, 0)
    assert told(*sent(1, ORDERS, 0), *sent(1, BILLS, 0), assigned(2, "a", ORDERS, BILLS), *at_once)[-1] == (
        "0 poll ok {0: [0], 1: [0]}"
    )


def test_polls_of_the_same_partition_are_two_operations() -> None:
    lines = told(*sent(1, ORDERS, 0, 1), polled(30, "a", ORDERS, 0), polled(30, "a", ORDERS, 1))
    assert lines[-2:] == ["0 poll ok {0: [0]}", "0 poll ok {0: [1]}"]


def test_a_rebalance_keeps_some_keys_and_then_adds_others() -> None:
    lines = told(
        *sent(1, ORDERS, 0), *sent(1, BILLS, 0), assigned(2, "a", ORDERS, BILLS), revoked(3, "a", ORDERS),
        assigned(4, "a", ORDERS),
    )  # fmt: skip
    assert [line for line in lines if "assign" in line] == [
        "0 assign ok []",
        "0 assign ok [0, 1]",
        "0 assign ok [1]",
        "0 assign ok [1]",
        "0 assign ok [0, 1]",
    ]


def test_a_seek_is_an_assignment_without_the_key_and_one_with_it() -> None:
    seek = Sought(at_ms=9, member="a", partition=ORDERS, offset=0)
    lines = told(*sent(1, ORDERS, 0), assigned(2, "a", ORDERS), polled(3, "a", ORDERS, 0), seek)
    assert lines[-2:] == ["0 assign ok []", "0 assign ok [0]"]


def test_what_retention_took_unread_may_be_there_or_not() -> None:
    lines = told(*sent(1, ORDERS, 0, 1, 2), polled(2, "a", ORDERS, 1), Removed(at_ms=3, partition=ORDERS, before=2))
    assert [line.split(" ", 1)[1] for line in lines if "send" in line] == [
        "send info 0:value0-0",
        "send ok 0:value0-1@1",
        "send ok 0:value0-2@2",
    ]


def test_what_a_user_gave_up_unread_may_be_there_or_not() -> None:
    given_up = GivenUp(at_ms=2, member="a", value=value(ORDERS, 0), how="seek")
    assert "send info" in told(*sent(1, ORDERS, 0), given_up)[0]


def test_retention_moves_who_stands_in_front_of_the_start() -> None:
    removed = Removed(at_ms=4, partition=ORDERS, before=2)
    lines = told(
        *sent(1, ORDERS, 0, 1, 2), assigned(2, "a", ORDERS), polled(3, "a", ORDERS, 0), removed,
        polled(5, "a", ORDERS, 2),
    )  # fmt: skip
    assert lines[-3:] == ["0 assign ok []", "0 assign ok [0]", "0 poll ok {0: [2]}"]


def test_a_producer_that_hears_late_began_before_the_record_was_read() -> None:
    operations = list(operations_of([polled(1, "a", ORDERS, 0), *sent(2, ORDERS, 0)]))
    assert [(each.kind, each.function) for each in operations] == [
        ("invoke", "send"),
        ("invoke", "poll"),
        ("ok", "poll"),
        ("ok", "send"),
    ]
    assert operations[0].process == operations[-1].process != FIRST_PRODUCER


def test_what_was_aborted_and_read_has_failed() -> None:
    lines = told(Hidden(at_ms=1, partition=ORDERS, offsets=(0,)), polled(2, "a", ORDERS, 0))
    assert lines[0] == f"{FIRST_PRODUCER} send fail 0:value0-0"


def test_what_nobody_sent_has_no_producer() -> None:
    assert told(polled(2, "a", ORDERS, 0)) == ["0 poll ok {0: [0]}"]


def test_each_producer_sends_in_the_order_of_the_log() -> None:
    late, early = sent(1, ORDERS, 5), sent(2, ORDERS, 4)
    assert [line.split()[0] for line in told(*late, *early)] == [str(FIRST_PRODUCER + 1), str(FIRST_PRODUCER + 2)]


def test_a_child_is_a_process_of_its_own_that_seeks_before_each_poll() -> None:
    child = [polled(at_ms, "a", ORDERS, at_ms - 3, cursor="child") for at_ms in (3, 4)]
    lines = told(*sent(1, ORDERS, 0, 1, 2), assigned(2, "a", ORDERS), *child, polled(9, "a", ORDERS, 2, cursor="main"))
    assert lines[-5:] == [
        "1 poll ok {0: [0]}",
        "1 assign ok []",
        "1 assign ok [0]",
        "1 poll ok {0: [1]}",
        "0 poll ok {0: [2]}",
    ]


def test_a_killed_member_has_crashed() -> None:
    assert told(*sent(1, ORDERS, 0), assigned(2, "a", ORDERS), Killed(at_ms=3, member="a"))[-1] == "0 crash info None"


def test_a_log_that_was_cut_cannot_be_told() -> None:
    assert can_be_told(small_history())
    assert not can_be_told([*small_history(), Truncated(at_ms=1, partition=ORDERS, to=0)])


def test_time_does_not_go_back() -> None:
    late = Sent(at_ms=5, partition=ORDERS, offset=9, value="told late")  # a reconciled ledger tells such in the end
    times = [operation.at_ms for operation in operations_of([*small_history(), late])]
    assert times == sorted(times)


def test_edn_is_what_jepsen_reads_and_json_says_the_same() -> None:
    events = [*sent(1, ORDERS, 0), polled(2, "a", ORDERS, 0)]
    lines = list(edn_lines(operations_of(events)))
    assert lines[1] == ('{:process 1000001, :type :ok, :f :send, :value [[:send 0 [0 "value0-0"]]], :time 1000000}')
    assert lines[3] == '{:process 0, :type :ok, :f :poll, :value [[:poll {0 [[0 "value0-0"]]}]], :time 2000000}'
    assert json.loads(list(json_lines(operations_of(events)))[3]) == {
        "process": 0,
        "type": "ok",
        "f": "poll",
        "value": [["poll", {"0": [[0, "value0-0"]]}]],
        "time": 2000000,
    }


def test_edn_has_no_words_for_other_things() -> None:
    assert edn({Word("crash"): None}) == "{:crash nil}"
    with pytest.raises(TypeError, match="no part of a history"):
        edn(object())
