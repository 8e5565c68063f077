"""Records that are hard to read: a large one, and those of a transaction that goes quiet, so that who reads what is
committed waits for its end."""

from __future__ import annotations

from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from kwire.model import TopicPartition
from kwire.testing.faults.admin.patience import PATIENCE_S, AdminError
from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault, stays
from kwire.testing.faults.kind import Amount, Choice, FaultClaim, Lasting, Since
from kwire.testing.faults.payload import identity
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import PartitionOf
from kwire.testing.faults.testbed import Testbed
from kwire.testing.faults.traffic import CLIENT_ID
from kwire.testing.invariants.ledger import Sent

MIB = 1024 * 1024
RECORDS = 5
RECORD_BYTES = 100
# Beyond the time it is to last: the broker must not end it by itself before.
TIMEOUT_MARGIN_MS = 60_000
MAX_TIMEOUT_MS = 900_000  # the brokers' transaction.max.timeout.ms


@fault(
    name="large-record",
    description="A record is sent that is larger than a fetch may be.",
    targets=(PartitionOf,),
    parameters=(
        Amount(
            name="size_bytes",
            quantity=Quantity.BYTES,
            default=2 * MIB,
            least=1,
            most=64 * MIB,
            doc="the size of its value",
        ),
    ),
    heals="nothing: it is read like any other",
    claims=(FaultClaim.TRAFFIC,),
    rows=(19,),
    bound=within(2_000),
    since=Since.STRIKE,
)
def send_large(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    (partition,) = testbed.partitions(step.target)
    begin("")
    testbed.traffic.send_large(partition, step.amount("size_bytes"))
    return stays


@fault(
    name="open-transaction",
    description="A transaction writes and goes quiet: who reads what is committed waits for its end.",
    targets=(PartitionOf,),
    parameters=(Choice(name="ending", default="aborted", words=("aborted", "committed"), doc="how it ends"),),
    lasting=Lasting(default_ms=10_000),
    heals="the transaction ends",
    claims=(FaultClaim.TRAFFIC,),
    rows=(27,),
    bound=within(2_000, "fetch_max_wait_ms"),
)
def open_transaction(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    assert step.lasts_ms is not None
    (partition,) = testbed.partitions(step.target)
    timeout_ms = min(step.lasts_ms + TIMEOUT_MARGIN_MS, MAX_TIMEOUT_MS)
    producer = Producer(
        {
            "bootstrap.servers": testbed.cluster.direct_servers,
            "client.id": CLIENT_ID,
            "transactional.id": f"faults-{step.at_ms}",
            "transaction.timeout.ms": timeout_ms,
            "log_level": 2,
        }
    )
    producer.init_transactions(PATIENCE_S)
    begin("")
    producer.begin_transaction()
    is_aborted = step.choice("ending") == "aborted"
    _send(testbed, producer, partition, is_hidden=is_aborted and _is_anybody_careful(testbed))
    return partial(producer.abort_transaction if is_aborted else producer.commit_transaction, PATIENCE_S)


def _is_anybody_careful(testbed: Testbed) -> bool:
    """What was aborted is nothing to read for those that read what is committed; for others it is like any other."""
    return any(members.read_committed for members in testbed.schedule.members)


def _send(testbed: Testbed, producer: Producer, partition: TopicPartition, *, is_hidden: bool) -> None:
    problems: list[KafkaError] = []

    def note(error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        value, offset = message.value(), message.offset()
        if error is not None or value is None or offset is None:
            problems.append(error or KafkaError(KafkaError.UNKNOWN))
        elif not is_hidden:
            at_ms, told = testbed.recorder.now_ms(), identity(value.decode())
            testbed.recorder.write(Sent(at_ms=at_ms, partition=partition, offset=offset, value=told))

    for _ in range(RECORDS):
        value = testbed.traffic.next_value(RECORD_BYTES)
        producer.produce(partition.topic, value.encode(), partition=partition.partition, on_delivery=note)
    if producer.flush(PATIENCE_S) or problems:
        raise AdminError(f"a transaction on {partition} could not write: {problems[:1]}")
