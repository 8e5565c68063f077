"""Logs: their first and last offsets are looked up, and records deleted from the start."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it has it, without saying so

from kwire.model import TopicPartition
from kwire.testing.faults.admin.patience import ANSWER_S, insist


class Logs:
    """The logs of partitions, whichever brokers lead them."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first offset of each partition."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # theirs

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offset behind the last record of each partition."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]  # theirs

    def delete(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records before these offsets (KIP-107)."""
        places = [Place(partition.topic, partition.partition, offset) for partition, offset in before.items()]
        insist(
            lambda: [each.result(ANSWER_S) for each in self._client.delete_records(places).values()],
            "records are deleted",
        )

    def _offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> Mapping[TopicPartition, int]:
        asked = {Place(each.topic, each.partition): spec for each in partitions}
        return insist(lambda: self._look(asked), "brokers tell of logs")

    def _look(self, asked: dict[Place, OffsetSpec]) -> Mapping[TopicPartition, int]:
        answers = {place: each.result(ANSWER_S) for place, each in self._client.list_offsets(asked).items()}
        return {TopicPartition(place.topic, place.partition): answer.offset for place, answer in answers.items()}
