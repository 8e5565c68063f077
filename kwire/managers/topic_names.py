"""Topic id -> name, for members of a consumer group: the broker assigns by id (KIP-516, KIP-848).

The cluster snapshot answers for subscribed topics. What it lacks (a topic chosen by the broker's regular expression,
or one made a moment ago) is asked for by id, again and again with back-off while it is wanted. Owned by
`consumer_group.py`, which polls it.
"""

from __future__ import annotations

from uuid import UUID

from kwire.clock import Backoff
from kwire.cluster import ClusterSnapshot
from kwire.errors import KafkaError
from kwire.logs import part_logger
from kwire.managers.base import RequestState
from kwire.managers.metadata import MetadataManager
from kwire.managers.unsent import ANY_NODE, NOTHING_TO_SEND, PollResult, UnsentRequest
from kwire.model import ZERO_UUID
from kwire.protocol.error_codes import ErrorCode
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = part_logger("group")

BY_ID_MIN_VERSION = 12  # Metadata v12 (KIP-516): topics may be asked for by id


class TopicNames:
    """Names asked for by id are kept while they are wanted; then the topics are owned, and the owner knows them."""

    def __init__(self, metadata: MetadataManager, backoff: Backoff) -> None:
        self._metadata = metadata
        self._request = RequestState(backoff)
        self._snapshot = ClusterSnapshot()
        self._in_snapshot: dict[UUID, str] = {}
        self._found: dict[UUID, str] = {}
        self._wanted: frozenset[UUID] = frozenset()

    def name_of(self, topic_id: UUID) -> str | None:
        """The name, if it is known by now."""
        if self._snapshot is not self._metadata.cluster:
            self._snapshot = self._metadata.cluster
            topics = self._snapshot.topics.values()
            self._in_snapshot = {topic.topic_id: topic.name for topic in topics if topic.topic_id != ZERO_UUID}
        return self._in_snapshot.get(topic_id) or self._found.get(topic_id)

    def want(self, topic_ids: frozenset[UUID]) -> None:
        """Look up the names of these topics, and no longer those wanted before."""
        if topic_ids - self._wanted:
            self._request.not_before_ms = 0.0
        self._wanted = topic_ids

    def forget(self) -> None:
        """The membership has ended: ids may come to mean something else before the next one."""
        self._wanted = frozenset()
        self._found.clear()

    def poll(self, now_ms: float) -> PollResult:
        """Ask for what is wanted and not known."""
        if not self._wanted:
            return NOTHING_TO_SEND
        if not self._request.ready(now_ms):
            return PollResult([], self._request.wake_at_ms)
        self._request.sent()
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(self._wanted)]
        query = UnsentRequest(
            request=MetadataRequest(topics=topics, allow_auto_topic_creation=False),
            destination=ANY_NODE,
            on_answer=self._on_answer,
            on_failure=self._on_failure,
            min_version=BY_ID_MIN_VERSION,
        )
        return PollResult([query])

    def _on_answer(self, answer: MetadataResponse, now_ms: float) -> None:
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._metadata.rebootstrap_required(now_ms)
        codes = {topic.topic_id: ErrorCode.of(topic.error_code) for topic in answer.topics}
        found = {
            topic.topic_id: topic.name
            for topic in answer.topics
            if topic.name is not None and codes[topic.topic_id] is ErrorCode.NONE
        }
        self._found.update(found)
        if missing := self._wanted - found.keys():
            # Just made, and not known to every broker yet; or just deleted, and the next target is without it.
            first = min(missing)
            log.info("assigned topic %s has no name yet: %s", first, codes.get(first, ErrorCode.NONE).name)
            self._request.failed(now_ms)
        else:
            self._request.succeeded()
        self._wanted = missing

    def _on_failure(self, error: KafkaError, now_ms: float) -> None:
        log.info("looking up names of assigned topics failed: %s", error)
        self._request.failed(now_ms)
