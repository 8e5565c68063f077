"""What befalls permissions: consumers may not read any more, and later may again."""

from __future__ import annotations

from kwire.testing.faults.bounds import within
from kwire.testing.faults.kinds.kind import Claim, FaultKind, Lasting, Need
from kwire.testing.faults.targets import Group, Topic

# The poll that failed last was a moment ago, and what every broker has to hear comes as metadata does.
HEARING_MS = 2_000

KINDS = (
    FaultKind(
        name="topic-forbidden",
        description="Nobody may read a topic, nor commit positions in it; who writes to it goes on.",
        targets=(Topic,),
        lasting=Lasting(),
        heals="it may be read again",
        claims=(Claim.TOPIC,),
        needs=(Need.PERMISSIONS,),
        rows=(41,),
        bound=within(HEARING_MS, "retry_backoff_max_ms"),
    ),
    FaultKind(
        name="group-forbidden",
        description="Nobody may be in the group: members are refused, and after a session the group is empty.",
        targets=(Group,),
        lasting=Lasting(default_ms=15_000),
        heals="members may join again; one that is remembered from before keeps its partitions until its session ends",
        claims=(Claim.MEMBERSHIP, Claim.MEMBER),
        needs=(Need.PERMISSIONS,),
        rows=(41,),
        bound=within(HEARING_MS, "session_timeout_ms", "rebalance_slack_ms"),
    ),
)
