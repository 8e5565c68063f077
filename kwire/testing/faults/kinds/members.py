"""What befalls the consumers and their group."""

from __future__ import annotations

from kwire.testing.faults.bounds import within
from kwire.testing.faults.kinds.kind import Amount, Choice, Claim, FaultKind, Lasting, Need, Since
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.targets import Group, Member

# A process that starts: Java's takes seconds on a busy machine.
STARTING_MS = 5_000
HOUR_MS = 3_600_000
HALF_DAY_MS = 12 * HOUR_MS

KINDS = (
    FaultKind(
        name="consumer-kill",
        description="A member's process is killed (SIGKILL); its partitions wait for the end of its session.",
        targets=(Member,),
        lasting=Lasting(default_ms=15_000),
        heals="another process takes its place, and its instance id if it had one",
        claims=(Claim.MEMBER,),
        settles_ms=STARTING_MS,
        rows=(38, 46),
        bound=within(2_000, "session_timeout_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
        simulated_as="member-kill",
    ),
    FaultKind(
        name="consumer-freeze",
        description="A member's process is stopped (SIGSTOP); beyond its session it is a zombie with work in hand.",
        targets=(Member,),
        lasting=Lasting(default_ms=25_000),
        heals="the process goes on (SIGCONT), and hears that it is no member any more",
        claims=(Claim.MEMBER,),
        settles_ms=STARTING_MS,
        rows=(30, 32, 45),
        bound=within(2_000, "session_timeout_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
        simulated_as="member-freeze",
    ),
    FaultKind(
        name="consumer-close",
        description="A member commits, leaves and ends (SIGTERM).",
        targets=(Member,),
        lasting=Lasting(),
        heals="another process takes its place, and its instance id if it had one",
        claims=(Claim.MEMBER,),
        settles_ms=STARTING_MS,
        # A static member does not leave: it is given up when its session ends.
        rows=(28, 38, 48),
        bound=within(2_000, "session_timeout_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="catch-up-end",
        description="A member ends at a moment of its catching up with a lag; who takes it over may go the same way.",
        targets=(Member,),
        parameters=(
            Choice(
                name="moment",
                default="catching-up",
                words=("catching-up", "handed-over", "between-commits"),
                doc="when: its last poll had records of a lag; it has polled nothing yet of what it was "
                "assigned; of a poll with records of both cursors, one is committed",
            ),
            Choice(
                name="ending",
                default="killed",
                words=("killed", "closed"),
                doc="how: by SIGKILL, or in order, by SIGTERM",
            ),
        ),
        lasting=Lasting(default_ms=15_000),
        heals="another process takes its place",
        claims=(Claim.MEMBER,),
        needs=(Need.TWO_CURSORS,),
        settles_ms=STARTING_MS,
        rows=(49,),
        # What it was to catch up with may be that of one who was killed shortly before: a session more.
        bound=within(2_000, "session_timeout_ms", "session_timeout_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="consumer-join",
        description="One more member comes and stays: like those of the first line; the next one like the second.",
        targets=(Group,),
        heals="nothing: it stays",
        claims=(Claim.MEMBERSHIP,),
        rows=(48,),
        bound=within(STARTING_MS, "rebalance_slack_ms"),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="storm",
        description="Members come, leave and are killed, again and again.",
        targets=(Group,),
        parameters=(
            Amount(
                name="changes",
                quantity=Quantity.COUNT,
                default=20,
                least=1,
                most=1_000,
                doc="how many come, leave or are killed, evenly over the time",
            ),
        ),
        lasting=Lasting(default_ms=40_000, least_ms=1_000),
        heals="there are as many members as before, and they stay",
        claims=(Claim.MEMBERSHIP, Claim.MEMBER),
        settles_ms=STARTING_MS,
        rows=(31, 38),
        bound=within(STARTING_MS, "session_timeout_ms", "max_poll_interval_ms"),
        simulated_as="storm",
    ),
    FaultKind(
        name="member-expelled",
        description="Somebody who is allowed to takes a member out of the group; it hears so with its next request.",
        targets=(Member,),
        heals="the member joins again by itself",
        claims=(Claim.MEMBER,),
        settles_ms=STARTING_MS,
        rows=(32,),
        bound=within(2_000, "heartbeat_interval_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="duplicate-instance",
        description="Another process comes with a member's instance id; only one of the two may stay.",
        targets=(Member,),
        lasting=Lasting(default_ms=20_000, least_ms=1_000),
        heals="whichever of the two is still there after all is left alone; one process holds the id",
        claims=(Claim.MEMBER,),
        needs=(Need.STATIC_MEMBERS,),
        settles_ms=STARTING_MS,
        rows=(29,),
        bound=within(2_000, "session_timeout_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="slow-consumer",
        description="A member takes its time over each record, and goes on polling.",
        targets=(Member,),
        parameters=(
            Amount(
                name="each_ms",
                quantity=Quantity.DURATION_MS,
                default=100,
                least=1,
                most=60_000,
                doc="time over each record",
            ),
        ),
        lasting=Lasting(default_ms=30_000),
        heals="it is as fast as before, and catches up",
        claims=(Claim.MEMBER,),
        needs=(Need.OWN_RUNNER,),
        rows=(34,),
        bound=within(2_000),
    ),
    FaultKind(
        name="poll-interval-exceeded",
        description="A member's handler is stuck over a record for longer than max_poll_interval_ms.",
        targets=(Member,),
        lasting=Lasting(default_ms=25_000, least_ms=1_000),
        heals="the handler returns, and the next poll joins again",
        claims=(Claim.MEMBER,),
        needs=(Need.OWN_RUNNER,),
        settles_ms=STARTING_MS,
        rows=(33,),
        bound=within(2_000, "max_poll_interval_ms", "rebalance_slack_ms"),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="clock-jump",
        description="The wall clock of the members jumps; their monotonic clock goes on.",
        targets=(Group, Member),
        parameters=(
            Amount(
                name="step_ms",
                quantity=Quantity.CLOCK_STEP_MS,
                default=HOUR_MS,
                least=-HALF_DAY_MS,
                most=HALF_DAY_MS,
                doc="how far: forward, or backward with a minus",
            ),
        ),
        lasting=Lasting(default_ms=15_000),
        heals="the clock is right again, which is another jump",
        claims=(Claim.CLOCK,),
        needs=(Need.LIBFAKETIME,),
        rows=(45,),
        bound=within(2_000),
        since=Since.STRIKE,
        simulated_as="wall-clock-steps",
    ),
)
