"""What a classic member owns, gives up and takes: all at once (eager), or only what moves (cooperative, KIP-429).

`classic_group.py` asks before it fires an event, and `classic_member.py` performs effects of its table through this.
"""

from __future__ import annotations

from kwire.assignors.base import RebalanceProtocol
from kwire.epochs import GenerationOrMemberEpoch
from kwire.holds import Hold
from kwire.managers.classic_requests import LastAssignment
from kwire.model import Partitions
from kwire.subscription.subscription import Subscription

NONE: Partitions = frozenset()


class OwnedPartitions:
    """The partitions of a classic member, and those that a rebalance takes or brings."""

    def __init__(self, subscription: Subscription, protocol: RebalanceProtocol) -> None:
        self._subscription = subscription
        self._cooperative = protocol is RebalanceProtocol.COOPERATIVE
        self._plan: Partitions | None = None
        self.last: LastAssignment | None = None
        self.giving_up: Partitions = NONE
        """Partitions that the running revoked callback is for."""
        self.added: Partitions = NONE
        """Partitions that the running assigned callback is for."""

    @property
    def partitions(self) -> Partitions:
        return frozenset(self._subscription.partitions) if self._subscription.is_group else NONE

    # --- before a join --------------------------------------------------------------------------------------

    def give_up_before_join(self) -> None:
        self.giving_up = self._surplus()

    def give_up_all(self) -> None:
        self.giving_up = self.partitions

    @property
    def keeps_all(self) -> bool:
        """Whether a member may join as it is. An eager one calls back before, even if it owns nothing, as in Java."""
        return self._cooperative and not self._unwanted()

    @property
    def must_give_up(self) -> bool:
        """Whether a member that is about to join still owns partitions that it has to give up first."""
        return bool(self._surplus())

    def _surplus(self) -> Partitions:
        """Under the eager protocol everything; under the cooperative one what is of topics no longer wanted."""
        return self._unwanted() if self._cooperative else self.partitions

    def _unwanted(self) -> Partitions:
        return frozenset(tp for tp in self.partitions if tp.topic not in self._subscription.topics)

    def has_unwanted(self, assigned: Partitions) -> bool:
        """Whether some of these are of topics that are not subscribed any more. A pattern may be newer than what is
        known of the topics that it matches."""
        topics, pattern = self._subscription.topics, self._subscription.pattern
        others = {tp.topic for tp in assigned} - topics
        return bool(others) and not (pattern is not None and all(map(pattern.search, others)))

    def withhold_unwanted(self) -> None:
        """Return no more records of topics that were unsubscribed from, however long the rebalance takes."""
        self._subscription.hold(self._unwanted(), Hold.CALLBACK_PENDING)

    # --- after a sync ---------------------------------------------------------------------------------------

    def take_plan(self, assigned: Partitions, generation_id: GenerationOrMemberEpoch) -> None:
        """What the leader gave this member."""
        self._plan = assigned
        self.last = LastAssignment(assigned, generation_id)
        self.giving_up = self.partitions - assigned

    @property
    def plan_follows(self) -> bool:
        """Whether there is a plan that is not adopted yet: first the partitions that it takes are given up."""
        return self._plan is not None

    def forget_plan(self) -> None:
        """The membership that it was for is over."""
        self._plan = None

    # --- effects --------------------------------------------------------------------------------------------

    def stop_fetching(self) -> None:
        self._subscription.hold(self.giving_up, Hold.CALLBACK_PENDING)

    def drop(self) -> None:
        self._subscription.remove(self.giving_up)

    def adopt(self) -> None:
        """Add what is new, withheld until the callback has run; what was kept goes on."""
        assert self._plan is not None
        self.added, self._plan = self._plan - self.partitions, None
        self._subscription.add(self.added)

    def start_fetching(self) -> None:
        self._subscription.unhold(list(self._subscription.partitions), Hold.CALLBACK_PENDING)
