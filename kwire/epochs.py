"""Epochs: numbers that say which of two things came later. Each kind is a type of its own, because all are small
integers and nobody would notice a mix-up.

Leader epochs (KIP-320) are plain integers, as users and the protocol have them.
"""

from __future__ import annotations

from typing import NewType, TypeAlias

SubscriptionEpoch = NewType("SubscriptionEpoch", int)
"""How often the application has subscribed, assigned or unsubscribed. Events of an older subscription are dropped."""

NOT_SUBSCRIBED = SubscriptionEpoch(0)

Generation = NewType("Generation", int)
"""The generation of a classic group: each rebalance begins a new one, and requests of an older one are refused."""

MemberEpoch = NewType("MemberEpoch", int)
"""The epoch of a member of the consumer protocol (KIP-848): which of its assignments it has taken over."""

GenerationOrMemberEpoch: TypeAlias = Generation | MemberEpoch
"""What requests to a coordinator carry (OffsetCommit's field of that name), by either protocol."""

Attempt = NewType("Attempt", int)
"""The number of a join, sync or callback of a member. Answers to an older attempt come too late, and are dropped."""

AssignmentEpoch = NewType("AssignmentEpoch", int)
"""The number of a partition's position: a seek, a reset or a new assignment begins a new one. Records and answers of an
older one are dropped."""
