"""Groups, by requests to their coordinators: the list of groups, their members and commits; and commits for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from kwire.cli.admin.cluster import ClusterView, ask_until_final
from kwire.cli.admin.group_descriptions import Describe, describe_classic_group, describe_consumer_group
from kwire.cli.admin.group_values import GroupListing, GroupState
from kwire.config import Endpoint
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

T = TypeVar("T")


class Groups:
    """Asks the coordinators of groups. Raises `KafkaError` if there is no answer."""

    def __init__(self, view: ClusterView) -> None:
        self._client = view.client
        self._view = view

    def all(self) -> list[GroupListing]:
        """All groups that this client may see, of all coordinators."""
        return sorted(self._listings(), key=lambda listing: listing.group)

    def _listings(self) -> Iterator[GroupListing]:
        for broker, endpoint in self._view.brokers().items():
            answer = ask_until_final(
                lambda endpoint=endpoint: self._client.ask(ListGroupsRequest(), endpoint),  # type: ignore[misc]  # mypy infers no default
                lambda answer: [answer.error_code],
            )
            _raise_if(answer.error_code, f"the groups of broker {broker}")
            for group in answer.groups:
                yield GroupListing(
                    group=group.group_id,
                    state=group.group_state or "unknown",
                    type=(group.group_type or "classic").lower(),
                    protocol_type=group.protocol_type,
                    coordinator=broker,
                )

    def describe(self, group: str) -> GroupState:
        """State and members; the state Dead if there is no such group."""
        found = self._described(group, describe_consumer_group) or self._described(group, describe_classic_group)
        assert found is not None  # the classic request answers a dead group if there is no such group
        return found

    def _described(self, group: str, describe: Describe) -> GroupState | None:
        def ask(endpoint: Endpoint) -> tuple[GroupState | None, int]:
            return describe(self._client, group, endpoint)

        return self._at_coordinator(group, ask, lambda found: found[1])[0]

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The committed offset of each partition that the group has committed."""

        def request(version: int) -> OffsetFetchRequest:
            if version >= OffsetFetchRequest.first_version_with_groups:
                return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
            return OffsetFetchRequest(group_id=group, topics=None)

        def ask(endpoint: Endpoint) -> tuple[dict[TopicPartition, int], int]:
            answer = self._client.ask(
                OffsetFetchRequest(),
                endpoint,
                min_version=2,
                max_version=OffsetFetchRequest.last_version_with_names,
                for_version=request,
            )
            code = answer.groups[0].error_code if answer.groups else answer.error_code
            topics = answer.groups[0].topics if answer.groups else answer.topics
            offsets = {
                TopicPartition(topic.name, each.partition_index): each.committed_offset
                for topic in topics
                for each in topic.partitions
                if each.committed_offset >= 0
            }
            return offsets, code

        offsets, code = self._at_coordinator(group, ask, lambda found: found[1])
        _raise_if(code, f"the offsets of group {group}")
        return offsets

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ErrorCode]:
        """Commit for a group without members. Returns the result of each partition."""
        by_topic: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for (topic, number), offset in offsets.items():
            by_topic[topic].append(OffsetCommitRequestPartition(partition_index=number, committed_offset=offset))
        topics = [OffsetCommitRequestTopic(name=name, partitions=wanted) for name, wanted in by_topic.items()]
        request = OffsetCommitRequest(group_id=group, topics=topics)

        def ask(endpoint: Endpoint) -> dict[TopicPartition, ErrorCode]:
            answer = self._client.ask(request, endpoint, max_version=OffsetCommitRequest.last_version_with_names)
            return {
                TopicPartition(topic.name, each.partition_index): ErrorCode.of(each.error_code)
                for topic in answer.topics
                for each in topic.partitions
            }

        return self._at_coordinator(group, ask, lambda found: next((code for code in found.values() if code), 0))

    # --- coordinators ---------------------------------------------------------------------------------------

    def _at_coordinator(self, group: str, ask: Callable[[Endpoint], T], code: Callable[[T], int]) -> T:
        """Asked again while the coordinator loads or moves, and found anew each time."""
        return ask_until_final(lambda: ask(self.coordinator(group)), lambda found: [code(found)])

    def coordinator(self, group: str) -> Endpoint:
        """The group's coordinator."""
        answer = ask_until_final(
            lambda: self._client.ask(
                FindCoordinatorRequest(key=group), max_version=FindCoordinatorRequest.last_version_with_one_key
            ),
            lambda answer: [answer.error_code],
        )
        _raise_if(answer.error_code, f"the coordinator of group {group}")
        return Endpoint(answer.host, answer.port)


def _raise_if(code: int, what: str) -> None:
    if code:
        raise error_for(code, what)
