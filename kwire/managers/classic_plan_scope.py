"""What the plan of a classic group covers, by its coordinator: a leader that was restarted has lost its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

from kwire.clock import NEVER_MS, Backoff
from kwire.errors import BrokerError, KafkaError
from kwire.logs import part_logger
from kwire.managers.base import RequestState
from kwire.managers.classic_requests import read_assignment
from kwire.managers.find_coordinator import COORDINATOR_MOVED, FindCoordinatorManager
from kwire.managers.unsent import NOTHING_TO_SEND, Destination, PollResult, UnsentRequest
from kwire.protocol.consumer_protocol import decode_subscription
from kwire.protocol.error_codes import ErrorCode, error_for
from kwire.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

log = part_logger("group")

Counts: TypeAlias = Mapping[str, int]
"""How many partitions of each topic a plan covers."""


class PlanScope(NamedTuple):
    """What the plan that a group goes by covers.

    Attributes:
        topics: What the members are subscribed to.
        counts: How many partitions of each topic have an owner.
    """

    topics: frozenset[str]
    counts: Counts


class PlanScopeLookUp:
    """Asks the coordinator what the group's plan covers, until it answers; one question at a time.

    Args:
        on_answer: told the scope, or None if the coordinator does not tell it to this client.
    """

    def __init__(
        self, coordinator: FindCoordinatorManager, backoff: Backoff, on_answer: Callable[[PlanScope | None], None]
    ) -> None:
        self._coordinator = coordinator
        self._backoff = backoff
        self._on_answer = on_answer
        self._question: RequestState | None = None

    @property
    def is_asked(self) -> bool:
        return self._question is not None

    def ask(self) -> None:
        self._question = RequestState(self._backoff)

    def cancel(self) -> None:
        """Ask no more; an answer that is still to come is dropped."""
        self._question = None

    def poll(self, now_ms: float) -> PollResult:
        question = self._question
        if question is None or question.in_flight:
            return NOTHING_TO_SEND
        self._coordinator.need()
        destination = self._coordinator.destination
        if destination is None:
            return NOTHING_TO_SEND
        if not question.ready(now_ms):
            return PollResult([], question.wake_at_ms)
        question.sent()
        return PollResult([self._request(question, destination)], NEVER_MS)

    def _request(self, question: RequestState, destination: Destination) -> UnsentRequest[DescribeGroupsResponse]:
        return UnsentRequest(
            request=DescribeGroupsRequest(groups=[self._coordinator.group_id or ""]),
            destination=destination,
            on_answer=partial(self._on_described, question),
            on_failure=partial(self._on_unanswered, question, destination),
        )

    def _on_described(self, question: RequestState, answer: DescribeGroupsResponse, now_ms: float) -> None:
        if question is not self._question:
            return
        try:
            scope = plan_scope_of(answer.groups)
        except KafkaError as error:
            self._on_error(question, error, now_ms)
        else:
            self._tell(scope)

    def _on_unanswered(self, question: RequestState, asked: Destination, error: KafkaError, now_ms: float) -> None:
        self._coordinator.unanswered(asked, error)
        if question is self._question:
            self._on_error(question, error, now_ms)

    def _on_error(self, question: RequestState, error: KafkaError, now_ms: float) -> None:
        if isinstance(error, BrokerError) and error.code in COORDINATOR_MOVED:
            self._coordinator.lost(error)
        if error.retriable:
            question.failed(now_ms)
        else:
            log.warning("who owns what in group %s stays unknown: %s", self._coordinator.group_id, error)
            self._tell(None)

    def _tell(self, scope: PlanScope | None) -> None:
        self._question = None
        self._on_answer(scope)


def plan_scope_of(groups: Iterable[DescribedGroup]) -> PlanScope:
    """The scope, by the descriptions of the group and its members.

    Raises:
        KafkaError: The group is not described, or what its members want or own cannot be read.
    """
    members: list[DescribedGroupMember] = []
    for group in groups:
        if group.error_code != ErrorCode.NONE:
            raise error_for(group.error_code, "describing the group")
        members += group.members
    subscriptions = [decode_subscription(member.member_metadata) for member in members if member.member_metadata]
    return PlanScope(frozenset[str]().union(*(one.topics for one in subscriptions)), _counts(members))


def _counts(members: Iterable[DescribedGroupMember]) -> Counts:
    """The partitions of each topic up to the last one that has an owner. New partitions of a topic come behind it, so
    it does not matter if an assignor leaves out others on purpose."""
    counts: dict[str, int] = {}
    for member in members:
        for tp in read_assignment(member.member_assignment):
            counts[tp.topic] = max(counts.get(tp.topic, 0), tp.partition + 1)
    return counts
