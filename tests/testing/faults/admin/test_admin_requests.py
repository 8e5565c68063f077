"""What AdminClient lacks: bytes on the wire, and asking more than once."""

from __future__ import annotations

import pytest

from kwire.errors import DisconnectError
from kwire.protocol.compiler import encode_message
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.testing.faults.admin import patience, wire
from kwire.testing.faults.admin.group import java_hash
from kwire.testing.faults.admin.leaders import another_first
from kwire.testing.faults.admin.patience import AdminError, insist, wait_for
from kwire.testing.faults.admin.topics import Placement
from kwire.testing.faults.admin.wire import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    Brokers,
    QuotaChange,
    QuotaEntity,
    QuotaEntry,
    ReassignedPartition,
    ReassignedTopic,
)


def test_reassignments_are_written_as_kafka_reads_them() -> None:
    partition = ReassignedPartition(partition_index=1, replicas=[2, 0, 1])
    request = AlterPartitionReassignmentsRequest(topics=[ReassignedTopic(name="a", partitions=[partition])])
    timeout, one_topic = "0000ea60", "02" + "0261"
    one_partition = "02" + "00000001" + "04" + "000000020000000000000001" + "00"
    assert encode_message(request, 0).hex() == timeout + one_topic + one_partition + "00" + "00"


def test_quotas_are_written_as_kafka_reads_them() -> None:
    change = QuotaChange(key="k", value=1.5)
    request = AlterClientQuotasRequest(entries=[QuotaEntry(entity=[QuotaEntity(entity_type="c")], ops=[change])])
    entity = "02" + "0263" + "00" + "00"  # no name: all clients
    ops = "02" + "026b" + "3ff8000000000000" + "00" + "00"
    assert encode_message(request, 1).hex() == "02" + entity + ops + "00" + "00" + "00"


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("hello", 99_162_322), ("Hello World", 862_545_276), ("polygenelubricants", 0)],
)
def test_groups_are_kept_where_java_looks_for_them(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_a_broker_that_stands_still_is_not_asked_first_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask(address: tuple[str, int], _request: object) -> str:
        asked.append(address[1])
        if address[1] == 1:
            raise DisconnectError("no answer")
        return "answer"

    monkeypatch.setattr(wire, "ask", ask)
    brokers = Brokers([("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3)])
    for _ in range(3):
        brokers.ask(MetadataRequest())
    assert asked == [1, 2, 2, 2]


def test_nobody_who_answers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_address: tuple[str, int], _request: object) -> None:
        raise DisconnectError("no answer")

    monkeypatch.setattr(wire, "ask", ask)
    with pytest.raises(DisconnectError):
        Brokers([("127.0.0.1", 1), ("127.0.0.1", 2)]).ask(MetadataRequest())


def test_the_next_replica_in_sync_behind_the_leader_leads() -> None:
    assert another_first(Placement(leader=1, replicas=(0, 1, 2), in_sync=(0, 1, 2))) == (2, 0, 1)
    assert another_first(Placement(leader=2, replicas=(0, 1, 2), in_sync=(0, 1, 2))) == (0, 1, 2)
    assert another_first(Placement(leader=1, replicas=(0, 1, 2), in_sync=(1, 0))) == (0, 1, 2)


def test_a_leader_cannot_move_to_who_lacks_records() -> None:
    with pytest.raises(AdminError, match="nobody else is in sync"):
        another_first(Placement(leader=1, replicas=(0, 1, 2), in_sync=(1,)))


def test_what_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_S", 0.0)
    failures = [DisconnectError("gone"), DisconnectError("gone")]

    def action() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert insist(action, "it is done") == "done"


def test_what_goes_on_failing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    monkeypatch.setattr(patience, "PAUSE_S", 0.0)

    def action() -> None:
        raise DisconnectError("gone")

    with pytest.raises(AdminError, match="it is done: gone"):
        insist(action, "it is done")


def test_what_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_S", 0.0)
    with pytest.raises(AdminError, match="a leader"):
        wait_for(lambda: None, "a leader", timeout_s=0.0)
