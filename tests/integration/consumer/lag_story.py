"""A partition whose consumers crash, one after the other, and what they leave in the two commit logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Unpack

from confluent_kafka import Producer

from kwire import Cursor, OffsetAndMetadata, Records, TopicPartition
from kwire.conformance.client import BrokerAddress, ClientConnection
from kwire.parallel_rebalance.token import decode, decode_mark
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kwire.parallel_rebalance.token import HeadMark, Token
    from tests.integration.conftest import Produce
    from tests.integration.consumer.conftest import BytesConsumer, BytesSettings, OpenConsumer, PollUntil
    from tests.integration.kafkas import SharedKafka

ONE_GROUP_VERSION = 5


class Committed(NamedTuple):
    """What a group's log has of a partition."""

    offset: int | None
    metadata: str

    @property
    def token(self) -> Token | None:
        return decode(self.metadata)

    @property
    def mark(self) -> HeadMark | None:
        return decode_mark(self.metadata)


class Story:
    """One partition, its consumers one after the other, and both commit logs."""

    def __init__(
        self,
        kafka: SharedKafka,
        name: str,
        group_id: str,
        protocol: str,
        produce: Produce,
        open_consumer: OpenConsumer,
        poll_until: PollUntil,
    ) -> None:
        self.tp = TopicPartition(name, 0)
        self._kafka = kafka
        self.group_id = group_id
        self._protocol = protocol
        self._produce = produce
        self._open = open_consumer
        self._poll_until = poll_until
        self.end = 0

    def produce_up_to(self, end: int) -> None:
        self._produce(self.tp.topic, [b"%d" % offset for offset in range(self.end, end)], partition=0)
        self.end = end

    def start(self, *, assigned: bool = False, **settings: Unpack[BytesSettings]) -> BytesConsumer:
        """A consumer of the group, or one that only takes the partition."""
        chosen: BytesSettings = {
            "group_id": self.group_id,
            "group_protocol": self._protocol,
            "enable_auto_commit": False,
            "enable_parallel_rebalance": True,
        }
        if self._protocol == "classic":
            chosen["heartbeat_interval_ms"] = 100
        if not assigned:
            return self._open(self.tp.topic, **(chosen | settings))
        consumer = self._open(**(chosen | settings))
        consumer.assign([self.tp])
        return consumer

    def read(self, consumer: BytesConsumer, *, main: Iterable[int], child: Iterable[int]) -> None:
        """Each cursor returns exactly these, each in order."""
        found: dict[Cursor, list[int]] = {Cursor.MAIN: [], Cursor.CHILD: []}

        def poll(records: Records[bytes, bytes]) -> None:
            for cursor, offsets in found.items():
                offsets += [record.offset for record in records.of(cursor)]

        wanted = {Cursor.MAIN: list(main), Cursor.CHILD: list(child)}
        for _ in range(150):
            poll(consumer.poll(0.1))
            if sum(map(len, found.values())) >= sum(map(len, wanted.values())):
                break
        assert found == wanted

    def read_all(self, consumer: BytesConsumer, offsets: Iterable[int]) -> None:
        """The two cursors return exactly these, each once."""
        wanted, found = sorted(offsets), list[int]()
        for _ in range(150):
            found += [record.offset for record in consumer.poll(0.1)]
            if len(found) >= len(wanted):
                break
        assert sorted(found) == wanted

    def write_transactions(self, kafka: SharedKafka, ends: Sequence[str]) -> list[bytes | None]:
        """One after the other, five records each; answers the values of those that are committed."""
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": self.tp.topic}
        producer = Producer(settings)
        producer.init_transactions(30.0)
        committed: list[bytes | None] = []
        for number, end in enumerate(ends):
            values = [b"%s-%d-%d-%d" % (end.encode(), self.end, number, each) for each in range(5)]
            producer.begin_transaction()
            for value in values:
                producer.produce(self.tp.topic, value, partition=self.tp.partition)
            if end == "commit":
                producer.commit_transaction(30.0)
                committed += values
            else:
                producer.flush(30.0)
                producer.abort_transaction(30.0)
        self.end += 1
        return committed

    def lag_of_nothing_read(
        self, **settings: Unpack[BytesSettings]
    ) -> tuple[BytesConsumer, list[Records[bytes, bytes]]]:
        """A consumer whose group has committed 1, and nothing more; its main cursor stands behind the lag.

        And what it returned on the way there: records may come in the same poll that sees the cursor placed.
        """
        before = self.start(assigned=True)
        before.commit_sync({self.tp: OffsetAndMetadata(1)})
        self.crash(before)
        consumer = self.start(**settings)
        returned: list[Records[bytes, bytes]] = []
        while not consumer.assignment() or not consumer.position(self.tp) > 1:
            returned.append(consumer.poll(0.0))
        return consumer, returned

    def until(self, condition: Callable[[], bool], consumer: BytesConsumer) -> None:
        """Polls until then, and nothing comes."""
        assert not self._poll_until(condition, consumer)

    def claim_of(self, consumer: BytesConsumer) -> Token:
        """The token that a consumer writes as soon as it knows what is to be caught up."""
        assert not self._poll_until(lambda: self.group_log().token is not None, consumer)
        token = self.group_log().token
        assert token is not None
        return token

    def lag(self, start: int, end: int, **settings: Unpack[BytesSettings]) -> BytesConsumer:
        """A consumer that finds this lag, and has returned nothing yet: the one before it had committed `start`."""
        self.produce_up_to(end)
        before = self.start()
        while before.poll(1.0).is_empty():
            pass
        before.commit_sync({self.tp: OffsetAndMetadata(start)})
        self.crash(before)
        return self.start(**settings)

    def crash(self, consumer: BytesConsumer) -> None:
        """What it had not committed is not."""
        consumer.close()

    def group_log(self) -> Committed:
        return self._log(self.group_id)

    def head_log(self) -> Committed:
        return self._log(f"{self.group_id}.head")

    def _log(self, group_id: str) -> Committed:
        """Asked as nobody in particular, and shown as it is: `committed()` leaves out what is kwire's own."""
        topics = [OffsetFetchRequestTopic(name=self.tp.topic, partition_indexes=[self.tp.partition])]
        with ClientConnection(BrokerAddress.parse(self._kafka.bootstrap_servers), 10.0) as connection:
            answer = connection.ask(OffsetFetchRequest(group_id=group_id, topics=topics), ONE_GROUP_VERSION)
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return Committed(None, "")  # other brokers than Kafka say so of a group without offsets
        (found,) = answer.topics[0].partitions
        assert not found.error_code
        return Committed(None if found.committed_offset < 0 else found.committed_offset, found.metadata or "")
