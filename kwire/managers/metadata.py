"""Metadata: keeps the cluster snapshot fresh for what is subscribed, and answers look-ups of single topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from kwire.clock import NEVER_MS, Backoff
from kwire.cluster import ClusterSnapshot
from kwire.errors import InvalidTopicError, KafkaError, RetriableBrokerError, TopicAuthorizationError
from kwire.events import ErrorRaised, FoundTopics, LookUpTopics
from kwire.logs import part_logger
from kwire.managers.base import Deliver, LastError, RequestState
from kwire.managers.unsent import ANY_NODE, AnyUnsentRequest, PollResult, UnsentRequest
from kwire.model import NO_LEADER_EPOCH, TopicPartition
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.subscription.subscription import Subscription, SubscriptionKind

log = part_logger("metadata")

Topics: TypeAlias = frozenset[str] | None
"""Some topics, or None for all."""

ON_DEMAND = 0.0  # a moment that has always passed
MIN_TRIGGER_MS = 1_000.0  # time to dial somebody: a shorter trigger would hang up on each bootstrap server
FIRST_VERSION_WITH_EPOCHS = 9
"""The first version of Metadata whose epochs are believed. In older ones brokers (Kafka 2.1 to 2.3) may name epochs
that are long over (KAFKA-9212)."""
NO_AUTO_CREATION_MIN_VERSION = 4  # KIP-204: older brokers create whatever they are asked about


class MetadataManager:
    """The owner of the cluster snapshot.

    Two kinds of requests: the *refresh* of everything of interest (at most one in flight; on age, on demand, and again
    with back-off while a topic of interest has no leader), and one request for each look-up of the user.

    Args:
        rebootstrap_trigger_ms: How long to ask in vain before all brokers are forgotten (KIP-1102); None for never.
    """

    def __init__(
        self,
        subscription: Subscription,
        backoff: Backoff,
        deliver: Deliver,
        *,
        max_age_ms: float,
        allow_auto_create_topics: bool,
        rebootstrap_trigger_ms: float | None,
    ) -> None:
        self.cluster = ClusterSnapshot()
        self.refreshes = 0
        """How many answers the snapshot has had."""
        self.last_error = LastError()
        self.refused: dict[str, KafkaError] = {}
        """The topics of the newest answer that this client may not read, or that cannot exist."""
        self.on_update: list[Callable[[float], None]] = []
        self.on_rebootstrap: list[Callable[[], None]] = []
        """Called when the brokers are forgotten: their connections are closed."""
        self._subscription = subscription
        self._backoff = backoff
        self._deliver = deliver
        self._max_age_ms = max_age_ms
        self._allow_auto_create_topics = allow_auto_create_topics
        self._refresh = RequestState(backoff)
        self._refresh_at_ms = NEVER_MS
        self._rebootstrap_trigger_ms = rebootstrap_trigger_ms
        self._in_vain_since_ms = NEVER_MS
        self._asked_for: Topics = frozenset()
        self._asked_by_age = False
        self._answered_for: Topics = frozenset()
        self._transient: frozenset[str] = frozenset()
        self._passed_over: frozenset[str] = frozenset()
        """Topics of which the last answer had an error that concerned nobody."""
        self._watched: frozenset[str] = frozenset()
        self._watched_for_others: frozenset[str] = frozenset()
        self._interest: Topics = frozenset()
        self._interest_version = -1
        self._queries: list[_TopicQuery] = []
        self.unknown: dict[str, float] = {}
        """The topics of the newest answer that do not exist, and since when that is known."""

    # --- what others ask for --------------------------------------------------------------------------------

    def request_update(self) -> None:
        """Something in the snapshot has proved wrong or missing: refresh as soon as the back-off allows."""
        self._refresh_at_ms = ON_DEMAND

    def set_transient(self, topics: frozenset[str]) -> None:
        """Cover these topics until the next call, though they are not subscribed: somebody needs their leaders. A
        request for a topic may have the broker create it, so topics that nobody needs any more are not covered."""
        if topics != self._transient:
            self._transient = topics
            self._interest_version = -1

    def watch(self, topics: frozenset[str], *, own: frozenset[str]) -> None:
        """Cover these topics until the next call: the leader of a group looks after topics of all its members.

        Args:
            own: Those that this member wanted when it joined. What is wrong with them matters while it still does.
        """
        self._watched_for_others = topics - own
        if topics != self._watched:
            self._watched = topics
            self._interest_version = -1

    def adopt_leaders(
        self, leaders: Mapping[TopicPartition, LeaderIdAndEpoch], endpoints: Iterable[NodeEndpoint]
    ) -> None:
        """Take over what a former leader says of its successors, where that is news (KIP-951)."""
        self.cluster = self.cluster.with_leaders(leaders, endpoints)

    def rebootstrap_required(self, now_ms: float) -> None:
        """A broker says that this client's metadata is of no use to it (KIP-1102)."""
        if self._rebootstrap_trigger_ms is None:
            log.warning(
                "a broker asks this client to start from its bootstrap servers again; "
                "metadata_recovery_strategy=none forbids it"
            )
        else:
            self._rebootstrap("a broker asks for it", now_ms)

    @property
    def next_refresh_ms(self) -> float:
        """When it is asked for again; NEVER_MS while an answer is awaited."""
        return max(self._refresh_at_ms, self._refresh.wake_at_ms)

    def has_looked_for(self, topics: Topics) -> bool:
        """Whether the snapshot would have these topics, if they existed."""
        return _covers(self._answered_for, topics)

    def look_up(self, event: LookUpTopics) -> None:
        self._queries.append(_TopicQuery(event, RequestState(self._backoff)))

    def of_interest(self) -> Topics:
        """The topics the snapshot has to cover. Worked out when the subscription changes, not in every turn."""
        if self._interest_version != self._subscription.version:
            self._interest_version = self._subscription.version
            self._interest = self._work_out_interest()
        return self._interest

    def _work_out_interest(self) -> Topics:
        if self._subscription.kind is SubscriptionKind.PATTERN:
            return None
        assigned = {tp.topic for tp in self._subscription.partitions}
        return self._subscription.topics.union(assigned, self._transient, self._watched)

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        requests: list[AnyUnsentRequest] = []
        wake_at_ms = self._poll_refresh(now_ms, requests)
        self._queries = [query for query in self._queries if not query.is_over]
        for query in self._queries:
            if query.state.ready(now_ms):
                requests.append(self._send_query(query))
            wake_at_ms = min(wake_at_ms, query.state.wake_at_ms)
        return PollResult(requests, wake_at_ms)

    def _poll_refresh(self, now_ms: float, requests: list[AnyUnsentRequest]) -> float:
        topics = self.of_interest()
        if not self._refresh.in_flight and not (_covers(self._asked_for, topics) and self._knows_what_is_wrong()):
            self._passed_over = frozenset()
            self._refresh.reset()
            self.request_update()
        if not topics and topics is not None:
            self._in_vain_since_ms = NEVER_MS
            return NEVER_MS
        rebootstrap_at_ms = self._watch_trigger(now_ms)
        due_ms = self.next_refresh_ms
        if now_ms < due_ms:
            return min(due_ms, rebootstrap_at_ms)
        self._refresh.sent()
        self._in_vain_since_ms = min(self._in_vain_since_ms, now_ms)
        self._asked_for, self._asked_by_age = topics, self._refresh_at_ms > ON_DEMAND
        may_create = self._allow_auto_create_topics and self._are_named_by_user
        requests.append(self._request(topics, self._on_refreshed, self._on_refresh_failed, may_create=may_create))
        return self._rebootstrap_at_ms

    def _knows_what_is_wrong(self) -> bool:
        """Whether no topic is wanted by now that the last answer had an error of. The answer covered it, as one of a
        former subscription, so nothing else would ask for it before the next refresh by age."""
        return not self._passed_over or not self._passed_over & self._of_subscription()  # almost always the first

    @property
    def _are_named_by_user(self) -> bool:
        """Whether the user has named a topic of interest, so that the broker may create it. Topics that the broker has
        matched exist. If one has just been deleted, a request for it must not create it anew."""
        if self._subscription.kind is not SubscriptionKind.BROKER_PATTERN:
            return True
        return not self._transient <= {tp.topic for tp in self._subscription.partitions}

    def _of_subscription(self) -> frozenset[str]:
        """The topics that the present subscription names, and those of its partitions."""
        subscription = self._subscription
        return subscription.topics.union(tp.topic for tp in subscription.partitions if subscription.still_wants(tp))

    # --- back to the bootstrap servers ----------------------------------------------------------------------
    # That no broker can be connected to is found out by the client, which then dials the bootstrap servers as well
    # (KIP-899). Here is what it cannot see: brokers that take connections and do not answer, or answer with errors.

    @property
    def _rebootstrap_at_ms(self) -> float:
        if self._rebootstrap_trigger_ms is None:
            return NEVER_MS
        return self._in_vain_since_ms + max(self._rebootstrap_trigger_ms, MIN_TRIGGER_MS)

    def _watch_trigger(self, now_ms: float) -> float:
        """When the trigger has to be looked at again; one that has passed starts from the bootstrap servers again."""
        if now_ms >= self._rebootstrap_at_ms:
            trigger_ms = now_ms - self._in_vain_since_ms
            self._rebootstrap(f"no metadata for {trigger_ms:.0f} ms{self.last_error}", now_ms)
        return self._rebootstrap_at_ms

    def _rebootstrap(self, why: str, now_ms: float) -> None:
        log.warning("starting from the bootstrap servers again: %s", why)
        self._in_vain_since_ms = now_ms
        self.cluster = self.cluster.without_nodes()
        self.request_update()
        for close_connections in self.on_rebootstrap:
            close_connections()
        for handler in self.on_update:
            handler(now_ms)

    def _request(
        self,
        topics: Topics,
        on_answer: Callable[[MetadataResponse, float], None],
        on_failure: Callable[[KafkaError, float], None],
        *,
        may_create: bool,
    ) -> UnsentRequest[MetadataResponse]:
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in sorted(topics)]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=may_create)
        version = FIRST_VERSION_WITH_EPOCHS

        def written(negotiated: int) -> MetadataRequest:
            nonlocal version
            version = negotiated
            return request

        def on_believable(answer: MetadataResponse, now_ms: float) -> None:
            if version < FIRST_VERSION_WITH_EPOCHS:
                _drop_epochs(answer)
            on_answer(answer, now_ms)

        return UnsentRequest(
            request=request,
            for_version=written,
            destination=ANY_NODE,
            on_answer=on_believable,
            on_failure=on_failure,
            min_version=None if may_create else NO_AUTO_CREATION_MIN_VERSION,
        )

    # --- answers to the refresh -----------------------------------------------------------------------------

    def _on_refreshed(self, answer: MetadataResponse, now_ms: float) -> None:
        if (error := self._error_of(answer, "refreshing metadata", now_ms)) is not None:
            self._on_refresh_failed(error, now_ms)
            return
        self._in_vain_since_ms = NEVER_MS
        self.last_error.error = None
        self.refreshes += 1
        before = self.cluster
        self.cluster = before.updated(answer, in_doubt=not self._asked_by_age)
        self._answered_for = self._asked_for
        self._refresh_at_ms = now_ms + self._max_age_ms
        complete = self._report_topics(answer, now_ms)
        if self._asked_by_age or self.cluster.topics != before.topics:
            self._refresh.succeeded()
        # Asking again has to wait, longer and longer while nothing changes. Otherwise a missing partition or broker
        # would be asked for in every loop iteration.
        self._refresh.failed(now_ms)
        if not complete:
            self.request_update()
        for handler in self.on_update:
            handler(now_ms)

    def _error_of(self, answer: MetadataResponse, doing: str, now_ms: float) -> KafkaError | None:
        """What is wrong with the answer as a whole."""
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self.rebootstrap_required(now_ms)
            # Final for the connection it came on (KIP-1102), but not for the query.
            return RetriableBrokerError(
                str(error_for(answer.error_code, doing)),
                code=answer.error_code,
                name=ErrorCode.REBOOTSTRAP_REQUIRED.name,
            )
        if answer.error_code:
            return error_for(answer.error_code, doing)
        if not answer.brokers:
            # As in Java: a broker that has just started knows of no broker and no topic, which is not to be believed.
            return RetriableBrokerError(f"{doing}: the broker does not know the cluster yet")
        return None

    def _on_refresh_failed(self, error: KafkaError, now_ms: float) -> None:
        self.last_error.error = error
        self._refresh.failed(now_ms)
        self.request_update()
        if not error.retriable:
            self._deliver(ErrorRaised(error))

    def _report_topics(self, answer: MetadataResponse, now_ms: float) -> bool:
        """Tell the user what is wrong with topics of interest; whether the answer was complete."""
        wanted = self._wanted(answer)
        covered = wanted | self._transient
        topics = [topic for topic in answer.topics if topic.name in covered]
        self._passed_over = frozenset(
            topic.name for topic in answer.topics if topic.name and topic.error_code and topic.name not in covered
        )
        codes = {topic.name: ErrorCode.of(topic.error_code) for topic in topics if topic.name is not None}
        forbidden = _named(codes, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        invalid = _named(codes, ErrorCode.INVALID_TOPIC_EXCEPTION)
        self.refused = {topic: TopicAuthorizationError({topic}) for topic in forbidden}
        self.refused |= {topic: InvalidTopicError({topic}) for topic in invalid}
        # Who added a transient topic looks for it in `refused`, and tells the call that is waiting.
        if raised := forbidden & wanted:
            self._raise(TopicAuthorizationError(raised))
        if raised := invalid & wanted:
            self._raise(InvalidTopicError(raised))
        self._warn_of_unknown(_named(codes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), now_ms)
        leaders = {p.leader_id for topic in topics for p in topic.partitions}
        # What is forbidden may be permitted the next moment, and nobody says so: it has to be asked about. A member
        # that waited for the next refresh by age would sit there with nothing for five minutes.
        is_settled = not any(code.retriable or code is ErrorCode.TOPIC_AUTHORIZATION_FAILED for code in codes.values())
        # One that is there and not in the snapshot was named by a former id, by a broker that lags behind.
        has_all = _named(codes, ErrorCode.NONE) <= self.cluster.topics.keys()
        return is_settled and has_all and leaders <= self.cluster.nodes.keys()

    def _wanted(self, answer: MetadataResponse) -> frozenset[str]:
        """The topics of an answer that the present subscription wants, or that other members want whom this one leads.

        Those of a former subscription are covered until a rebalance has taken their partitions and the leader has
        joined again. With a pattern an answer has the whole cluster, and somebody else's topic may be without a leader
        for days.
        """
        pattern, named = self._subscription.pattern, self._of_subscription() | self._watched_for_others
        names = (topic.name for topic in answer.topics if topic.name is not None)
        return frozenset(name for name in names if name in named or (pattern is not None and pattern.search(name)))

    def _warn_of_unknown(self, unknown: Collection[str], now_ms: float) -> None:
        # Not an error: a topic may be subscribed before it is created, as with the Java client.
        for topic in sorted(set(unknown) - self.unknown.keys()):
            log.warning("topic %r does not exist (yet); waiting for it", topic, extra={"topic": topic})
        for topic in sorted(self.unknown.keys() - set(unknown) & self.cluster.topics.keys()):
            log.info("topic %r exists now", topic, extra={"topic": topic})
        self.unknown = {topic: self.unknown.get(topic, now_ms) for topic in sorted(unknown)}

    def _raise(self, error: KafkaError) -> None:
        self._deliver(ErrorRaised(error, self._subscription.epoch))

    # --- look-ups -------------------------------------------------------------------------------------------

    def _send_query(self, query: _TopicQuery) -> UnsentRequest[MetadataResponse]:
        query.state.sent()
        query.event.reply.waiting_for = "the answer of a broker to Metadata"

        def on_answer(answer: MetadataResponse, now_ms: float) -> None:
            if (error := self._error_of(answer, "looking up topics", now_ms)) is not None:
                query.failed(error, now_ms)
            else:
                query.answered(answer, self.cluster.updated(answer), now_ms)

        may_create = self._allow_auto_create_topics
        return self._request(query.event.topics, on_answer, query.failed, may_create=may_create)


class _TopicQuery:
    """One call of `partitions_for` or `list_topics`, retried until it is answered or given up."""

    def __init__(self, event: LookUpTopics, state: RequestState) -> None:
        self.event = event
        self.state = state

    @property
    def is_over(self) -> bool:
        return self.event.reply.done or self.event.reply.abandoned

    def answered(self, answer: MetadataResponse, cluster: ClusterSnapshot, now_ms: float) -> None:
        codes = {topic.name: ErrorCode.of(topic.error_code) for topic in answer.topics if topic.name is not None}
        asked = self.event.topics or frozenset()
        if refused := asked & _named(codes, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            self.event.reply.fail(TopicAuthorizationError(refused))
        elif invalid := asked & _named(codes, ErrorCode.INVALID_TOPIC_EXCEPTION):
            self.event.reply.fail(InvalidTopicError(invalid))
        elif starting := asked & _named(codes, ErrorCode.LEADER_NOT_AVAILABLE):
            # Just created (by this very request, perhaps): it has no leader for a moment.
            self.failed(error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"looking up {', '.join(starting)}"), now_ms)
        else:
            self.event.reply.succeed(_found(answer, cluster))

    def failed(self, error: KafkaError, now_ms: float) -> None:
        if not error.retriable:
            self.event.reply.fail(error)
        self.event.reply.waiting_for = f"a broker to answer Metadata (last error: {error})"
        self.state.failed(now_ms)


def _found(answer: MetadataResponse, cluster: ClusterSnapshot) -> FoundTopics:
    return FoundTopics(
        {topic: cluster.partition_infos(topic) for topic in cluster.topics},
        nodes=cluster.nodes.values(),
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
    )


def _drop_epochs(answer: MetadataResponse) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            partition.leader_epoch = NO_LEADER_EPOCH


def _covers(covering: Topics, topics: Topics) -> bool:
    if covering is None or topics is None:
        return covering is None
    return topics <= covering


def _named(codes: dict[str, ErrorCode], wanted: ErrorCode) -> frozenset[str]:
    return frozenset(name for name, code in codes.items() if code is wanted)
