"""The state of everything that the network thread owns, for `Consumer.describe()`. Reads only.

Loaded when somebody asks for the first time.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.config import ConsumerConfig
from kwire.description.consumer_description import ConsumerDescription
from kwire.description.values import Cause, CauseKind, GroupDescription, SubscriptionDescription, age_s
from kwire.errors import AuthorizationError, FencedInstanceIdError, KafkaError
from kwire.managers.find_coordinator import CoordinatorStatus
from kwire.managers.membership import MemberStatus
from kwire.managers.registry import RequestManagers
from kwire.managers.unsent import Channel
from kwire.metrics import ConsumerMetrics
from kwire.model import Node
from kwire.network.client import NetworkClient
from kwire.network.describing_partitions import PartitionDescriber, broker_cause, wait_s
from kwire.subscription.subscription import SubscriptionKind


class NetworkDescriber:
    """Describes one consumer's network side."""

    def __init__(
        self, config: ConsumerConfig, managers: RequestManagers, client: NetworkClient, metrics: ConsumerMetrics
    ) -> None:
        self._config = config
        self._managers = managers
        self._client = client
        self._metrics = metrics.coordinator

    def describe(self, now_ms: float) -> ConsumerDescription:
        """What the network thread knows. Who asked has its own part to add."""
        managers, failures = self._managers, self._client.broker_failures(now_ms)
        describer = PartitionDescriber(
            managers.metadata,
            failures,
            self._client.throttled_until_ms(now_ms),
            now_ms,
            read_committed=self._config.reads_committed,
        )
        coordinator, member = managers.coordinator.status(), managers.membership.status()
        return ConsumerDescription(
            client_id="",
            group=self._group(coordinator, member, now_ms),
            subscription=self._subscription(),
            causes=(
                *(broker_cause(failure, now_ms) for failure in failures),
                *self._coordinator_causes(coordinator, now_ms),
                *(self._member_causes(member, coordinator.node, now_ms) if managers.subscription.is_group else ()),
                *self._topic_causes(now_ms),
            ),
            partitions=tuple(
                describer.describe(partition, cursor)
                for cursor in managers.cursors
                for _, partition in sorted(cursor.subscription.partitions.items())
            ),
        )

    def _subscription(self) -> SubscriptionDescription | None:
        subscription = self._managers.subscription
        if subscription.kind is SubscriptionKind.NONE:
            return None
        pattern = subscription.regex or (None if subscription.pattern is None else subscription.pattern.pattern)
        return SubscriptionDescription(
            topics=tuple(sorted(subscription.topics)),
            pattern=pattern,
            is_by_hand=subscription.kind is SubscriptionKind.MANUAL,
        )

    # --- the group ------------------------------------------------------------------------------------------

    def _group(self, coordinator: CoordinatorStatus, member: MemberStatus, now_ms: float) -> GroupDescription | None:
        if self._config.group_id is None:
            return None
        node = coordinator.node
        return GroupDescription(
            group_id=self._config.group_id,
            protocol=self._config.group_protocol.value,
            state=member.state,
            waits_for=member.waits_for,
            member_id=member.member_id,
            group_instance_id=self._config.group_instance_id,
            generation=member.generation,
            coordinator=None if node is None else str(node),
            is_coordinator_connected=node is not None and self._client.is_connected(node, Channel.COORDINATOR),
            last_heartbeat_s=age_s(self._metrics.heartbeat_answered_ms, now_ms),
            rebalancing_s=age_s(self._metrics.rebalances.since_ms, now_ms),
        )

    def _coordinator_causes(self, coordinator: CoordinatorStatus, now_ms: float) -> Iterator[Cause]:
        if (refusal := coordinator.refusal) is not None:
            text = f"brokers do not say who the coordinator of group {self._config.group_id} is"
            yield Cause(kind=_kind_of(refusal), text=text, error=str(refusal))
        elif coordinator.missing_since_ms is not None:
            yield Cause(
                kind=CauseKind.NO_COORDINATOR,
                text=f"the coordinator of group {self._config.group_id} is not known",
                error=_words(coordinator.error),
                for_s=age_s(coordinator.missing_since_ms, now_ms),
                next_try_in_s=wait_s(coordinator.next_try_ms, now_ms),
            )

    def _member_causes(self, member: MemberStatus, coordinator: Node | None, now_ms: float) -> Iterator[Cause]:
        if (refusal := self._managers.membership.refusal) is not None:
            yield Cause(kind=_kind_of(refusal), text="the group does not take this member", error=str(refusal))
        elif (refusal := member.heartbeat_refusal) is not None:
            yield Cause(kind=_kind_of(refusal), text="the coordinator refuses its heartbeats", error=str(refusal))
        elif member.awaits_poll:
            yield Cause(kind=CauseKind.NOT_POLLED, text="the member joins its group when the application polls")
        elif member.owes_callback and member.generation is None:
            yield Cause(
                kind=CauseKind.MEMBERSHIP_LOST,
                text="the group has gone on without this member: when poll() has run the callback for what is lost, it "
                "joins again",
            )
        elif member.owes_callback:
            yield Cause(
                kind=CauseKind.CALLBACK_PENDING,
                text="a rebalance callback has not ended: poll() runs it, and the group waits for it",
                for_s=age_s(self._metrics.rebalances.since_ms, now_ms),
            )
        elif member.is_joining:
            yield Cause(
                kind=CauseKind.JOINING,
                text=self._joining(coordinator),
                for_s=age_s(self._metrics.rebalances.since_ms, now_ms),
            )
        elif member.generation is not None and not self._managers.subscription.partitions:
            yield Cause(
                kind=CauseKind.NO_PARTITIONS,
                text="the group has given this member no partition: another member has not given one back yet, or "
                "there are more members than partitions",
            )

    def _joining(self, coordinator: Node | None) -> str:
        if coordinator is None:
            return f"the member joins when the coordinator of group {self._config.group_id} is known"
        if self._client.is_connected(coordinator, Channel.COORDINATOR):
            return (
                "a rebalance is under way: it goes on when all other members have joined, and given back what they lose"
            )
        return f"the member joins when there is a connection to the coordinator, {coordinator}"

    # --- topics ---------------------------------------------------------------------------------------------

    def _topic_causes(self, now_ms: float) -> Iterator[Cause]:
        metadata = self._managers.metadata
        for topic, since_ms in metadata.unknown.items():
            yield Cause(
                kind=CauseKind.UNKNOWN_TOPIC,
                text=f"topic {topic!r} does not exist",
                for_s=age_s(since_ms, now_ms),
                next_try_in_s=wait_s(metadata.next_refresh_ms, now_ms),
            )
        for topic, error in metadata.refused.items():
            yield Cause(kind=_kind_of(error), text=f"topic {topic!r} cannot be read", error=str(error))


def _kind_of(error: KafkaError) -> CauseKind:
    match error:
        case FencedInstanceIdError():
            return CauseKind.FENCED
        case AuthorizationError():
            return CauseKind.AUTHORIZATION
        case _:
            return CauseKind.REFUSED


def _words(error: KafkaError | None) -> str | None:
    return None if error is None else str(error)
