"""Numbers that say which of several came later, each a type of its own: they are all small integers, and a mix-up would
look like sense.

Leader epochs (KIP-320) are plain integers, as users and the protocol have them.
"""

from __future__ import annotations

from typing import NewType, TypeAlias

SubscriptionEpoch = NewType("SubscriptionEpoch", int)
"""How often the application has subscribed, assigned or unsubscribed. What an older one is told is dropped."""

NOT_SUBSCRIBED = SubscriptionEpoch(0)

Generation = NewType("Generation", int)
"""Of a classic group: each rebalance begins another one, and requests of an older one are refused."""

MemberEpoch = NewType("MemberEpoch", int)
"""Of a member by the consumer protocol (KIP-848): which of its assignments it has taken over."""

GenerationOrMemberEpoch: TypeAlias = Generation | MemberEpoch
"""What requests to a coordinator carry (OffsetCommit's field of that name), by either protocol."""

Attempt = NewType("Attempt", int)
"""Which of a member's joins, syncs or callbacks: answers to an older one come too late."""

AssignmentEpoch = NewType("AssignmentEpoch", int)
"""Which position of a partition: a seek, a reset or a new assignment begins another one. Records and answers of an
older one are dropped."""
