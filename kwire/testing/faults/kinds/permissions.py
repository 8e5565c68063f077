"""Faults of permissions: consumers may not read any more, and later may again."""

from __future__ import annotations

from functools import partial

from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault, stay_so
from kwire.testing.faults.kind import FaultClaim, Lasting, Need
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import OneTopic, WholeGroup, topic_of
from kwire.testing.faults.testbed import GROUP_ID, Testbed

# The poll that failed last was a moment ago, and what every broker has to hear comes as metadata does.
HEARING_MS = 2_000


@fault(
    name="topic-forbidden",
    description="Nobody may read a topic, nor commit positions in it; who writes to it goes on.",
    targets=(OneTopic,),
    lasting=Lasting(),
    heals="it may be read again",
    claims=(FaultClaim.TOPIC,),
    needs=(Need.PERMISSIONS,),
    rows=(41,),
    bound=within(HEARING_MS, "retry_backoff_max_ms"),
)
def forbid_topic(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    begin("")
    testbed.admin.permissions.forbid_topic(topic)
    stay_so(testbed, step)
    return partial(testbed.admin.permissions.allow_topic, topic)


@fault(
    name="group-forbidden",
    description="Nobody may be in the group: members are refused, and after a session the group is empty.",
    targets=(WholeGroup,),
    lasting=Lasting(default_ms=15_000),
    heals="members may join again; one that is remembered from before keeps its partitions until its session ends",
    claims=(FaultClaim.MEMBERSHIP, FaultClaim.MEMBER),
    needs=(Need.PERMISSIONS,),
    rows=(41,),
    bound=within(HEARING_MS, "session_timeout_ms", "rebalance_slack_ms"),
)
def forbid_group(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    begin("")
    testbed.admin.permissions.forbid_group(GROUP_ID)
    stay_so(testbed, step)
    return partial(testbed.admin.permissions.allow_group, GROUP_ID)
