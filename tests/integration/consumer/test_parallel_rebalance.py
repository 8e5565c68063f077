"""Parallel rebalance against Kafka, under both protocols: after a crash the newest records first, and nothing lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Unpack

import pytest

from kwire import Cursor, OffsetAndMetadata, Records, TopicPartition
from kwire.catch_up.token import decode, decode_mark
from kwire.conformance.client import Address, Connection
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.catch_up.token import HeadMark, Token
    from kwire.config import Settings
    from tests.integration.conftest import MakeTopic, Produce
    from tests.integration.consumer.conftest import BytesConsumer, OpenConsumer, PollUntil
    from tests.integration.kafkas import SharedKafka

pytestmark = pytest.mark.slow

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
        self._group_id = group_id
        self._protocol = protocol
        self._produce = produce
        self._open = open_consumer
        self._poll_until = poll_until
        self.end = 0

    def produce_up_to(self, end: int) -> None:
        self._produce(self.tp.topic, [b"%d" % offset for offset in range(self.end, end)], partition=0)
        self.end = end

    def start(self, **settings: Unpack[Settings]) -> BytesConsumer:
        """A consumer that has got the partition; what its first polls returned is not lost: there is nothing yet."""
        chosen: Settings = {
            "group_id": self._group_id,
            "group_protocol": self._protocol,
            "enable_auto_commit": False,
            "enable_parallel_rebalance": True,
        }
        if self._protocol == "classic":
            chosen["heartbeat_interval_ms"] = 100
        return self._open(self.tp.topic, **(chosen | settings))

    def read(self, consumer: BytesConsumer, *, main: Iterable[int], child: Iterable[int]) -> None:
        """Each cursor returns exactly these, each in order."""
        found: dict[Cursor, list[int]] = {Cursor.MAIN: [], Cursor.CHILD: []}

        def poll(records: Records[bytes, bytes]) -> None:
            for cursor, offsets in found.items():
                offsets += [record.offset for record in records.of(cursor)]

        wanted = {Cursor.MAIN: list(main), Cursor.CHILD: list(child)}
        for _ in range(300):
            poll(consumer.poll(0.1))
            if sum(map(len, found.values())) >= sum(map(len, wanted.values())):
                break
        assert found == wanted

    def claim_of(self, consumer: BytesConsumer) -> Token:
        """The token that a consumer writes as soon as it knows what is to be caught up."""
        assert not self._poll_until(lambda: self.group_log().token is not None, consumer)
        token = self.group_log().token
        assert token is not None
        return token

    def crash(self, consumer: BytesConsumer) -> None:
        """What it had not committed is not."""
        consumer.close()

    def group_log(self) -> Committed:
        return self._log(self._group_id)

    def head_log(self) -> Committed:
        return self._log(f"{self._group_id}.head")

    def _log(self, group_id: str) -> Committed:
        """Asked as nobody in particular, and shown as it is: `committed()` leaves out what is kwire's own."""
        topics = [OffsetFetchRequestTopic(name=self.tp.topic, partition_indexes=[self.tp.partition])]
        with Connection(Address.parse(self._kafka.bootstrap_servers), 10.0) as connection:
            answer = connection.ask(OffsetFetchRequest(group_id=group_id, topics=topics), ONE_GROUP_VERSION)
        (found,) = answer.topics[0].partitions
        assert not found.error_code
        return Committed(None if found.committed_offset < 0 else found.committed_offset, found.metadata or "")


@pytest.fixture(params=["classic", "consumer"])
def story(
    request: pytest.FixtureRequest,
    kafka: SharedKafka,
    topic: MakeTopic,
    group_id: str,
    produce: Produce,
    open_consumer: OpenConsumer,
    poll_until: PollUntil,
) -> Story:
    return Story(kafka, topic(), group_id, request.param, produce, open_consumer, poll_until)


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


def test_the_worked_example_of_the_proposal_offset_by_offset(story: Story) -> None:
    """Committed 70, crash at 100, the end at 120; then committed 140, crash at 170, the end at 190."""
    tp = story.tp
    story.produce_up_to(100)
    first = story.start()
    story.read(first, main=range(100), child=range(0))
    assert not first.child_consumer_is_alive()
    first.commit_sync({tp: at(70)})
    story.crash(first)
    assert (story.group_log().offset, story.group_log().token, story.head_log().offset) == (70, None, None)

    story.produce_up_to(120)
    second = story.start()
    story.read(second, main=range(0), child=range(70, 120))
    assert second.child_consumer_is_alive()
    assert second.position(tp) == 120
    assert second.committed([tp]) == {tp: at(70)}
    token = story.claim_of(second)
    assert (story.group_log().offset, token.undone, token.head) == (70, (range(70, 120),), 120)
    assert story.head_log().offset is None

    story.produce_up_to(170)
    story.read(second, main=range(120, 170), child=range(0))
    second.commit_sync({tp: at(100)})
    second.commit_sync({tp: at(130)})
    assert (story.group_log().offset, story.head_log().offset) == (100, 130)
    assert second.committed([tp])[tp] == at(100)
    mark, written = story.head_log().mark, story.group_log().token
    assert mark is not None
    assert written is not None
    assert mark.life == written.life == token.life
    assert written.undone == (range(100, 120),)
    second.commit_sync({tp: at(120)})
    assert second.committed([tp])[tp] is not None
    assert (story.group_log().offset, story.group_log().metadata) == (130, "")
    second.commit_sync({tp: at(140)})
    assert (story.group_log().offset, story.group_log().metadata, story.head_log().offset) == (140, "", 130)
    assert second.child_consumer_is_alive()
    story.crash(second)

    story.produce_up_to(190)
    third = story.start()
    story.read(third, main=range(0), child=range(140, 190))
    assert third.position(tp) == 190
    token = story.claim_of(third)
    assert (story.group_log().offset, token.undone, token.head) == (140, (range(140, 190),), 190)
    story.produce_up_to(200)
    story.read(third, main=range(190, 200), child=range(0))
    third.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (200, "")
    story.crash(third)


def test_a_second_crash_while_catching_up_adds_its_lag_to_what_is_left_of_the_first(story: Story) -> None:
    """The child had committed 100 of [70, 120), the head 140; the log has grown to 190."""
    tp = story.tp
    story.produce_up_to(100)
    first = story.start()
    story.read(first, main=range(100), child=range(0))
    first.commit_sync({tp: at(70)})
    story.crash(first)
    story.produce_up_to(120)
    second = story.start()
    story.read(second, main=range(0), child=range(70, 120))
    story.produce_up_to(170)
    story.read(second, main=range(120, 170), child=range(0))
    second.commit_sync({tp: at(100)})
    second.commit_sync({tp: at(140)})
    assert (story.group_log().offset, story.head_log().offset) == (100, 140)
    story.crash(second)

    story.produce_up_to(190)
    third = story.start()
    story.read(third, main=range(0), child=[*range(100, 120), *range(140, 190)])
    assert third.committed([tp])[tp] == at(100)
    third.commit_sync()
    assert (story.group_log().offset, story.group_log().metadata) == (190, "")
