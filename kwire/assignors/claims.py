"""Who had which partition before this rebalance, out of what all members claim to have had.

Claims collide: a member that missed a rebalance still names partitions which others got meanwhile. The claim of the
newest generation holds (KIP-341, KIP-792). Two in one generation cannot both be true, so neither holds. Called by the
sticky assignors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from kwire.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    """What one member says it had, and since when."""

    partitions: frozenset[TopicPartition]
    generation_id: int


@dataclass(frozen=True, slots=True)
class Past:
    """What the claims come to.

    `owners` are the members whose claims hold. `claimants` are all that claim a partition, the newest first.
    """

    owners: Mapping[TopicPartition, str]
    claimants: Mapping[TopicPartition, tuple[str, ...]]

    def still_held(self, tp: TopicPartition, new_owner: str) -> bool:
        """Whether somebody has to give the partition up before `new_owner` may start with it."""
        return self.owners.get(tp) != new_owner and any(one != new_owner for one in self.claimants.get(tp, ()))


def settle(claims: Mapping[str, Claim]) -> Past:
    """Settle who had what."""
    found: defaultdict[TopicPartition, list[tuple[int, str]]] = defaultdict(list)
    for member_id in sorted(claims):
        claim = claims[member_id]
        for tp in claim.partitions:
            found[tp].append((claim.generation_id, member_id))
    newest_first = {tp: sorted(rivals, key=lambda rival: -rival[0]) for tp, rivals in found.items()}
    return Past(
        owners={tp: rivals[0][1] for tp, rivals in newest_first.items() if _holds(rivals)},
        claimants={tp: tuple(member_id for _, member_id in rivals) for tp, rivals in newest_first.items()},
    )


def _holds(newest_first: list[tuple[int, str]]) -> bool:
    return len(newest_first) == 1 or newest_first[0][0] > newest_first[1][0]
