"""Faults of members' processes, handlers and clocks."""

from __future__ import annotations

from functools import partial

from kwire.errors import KafkaError
from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault, stays
from kwire.testing.faults.kind import Amount, Choice, FaultClaim, Lasting, Need, Since
from kwire.testing.faults.member_plan import MemberPlan
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import OneMember, WholeGroup
from kwire.testing.faults.testbed import Testbed

# A process that starts: Java's takes seconds on a busy machine.
STARTING_MS = 5_000
HOUR_MS = 3_600_000
HALF_DAY_MS = 12 * HOUR_MS
# For a lag: a session ends, a rebalance comes to its end.
COMES_TO_IT_S = 40.0


class MomentError(KafkaError):
    """A member never came to the moment at which it was to be struck."""


@fault(
    name="consumer-kill",
    description="A member's process is killed (SIGKILL); its partitions wait for the end of its session.",
    targets=(OneMember,),
    lasting=Lasting(default_ms=15_000),
    heals="another process takes its place, and its instance id if it had one",
    claims=(FaultClaim.MEMBER,),
    settles_ms=STARTING_MS,
    rows=(38, 46),
    bound=within(2_000, "session_timeout_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
    simulated_as="member-kill",
)
def kill(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    number, name = struck(testbed, step)
    begin(name)
    if name:
        testbed.members.kill(name)
    return partial(put_back, testbed, number)


@fault(
    name="consumer-freeze",
    description="A member's process is stopped (SIGSTOP); beyond its session it is a zombie with work in hand.",
    targets=(OneMember,),
    lasting=Lasting(default_ms=25_000),
    heals="the process goes on (SIGCONT), and hears that it is no member any more",
    claims=(FaultClaim.MEMBER,),
    settles_ms=STARTING_MS,
    rows=(30, 32, 45),
    bound=within(2_000, "session_timeout_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
    simulated_as="member-freeze",
)
def freeze(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    _number, name = struck(testbed, step)
    begin(name)
    if not name:
        return stays
    testbed.members.freeze(name)
    return partial(testbed.members.thaw, name)


@fault(
    name="consumer-close",
    description="A member commits, leaves and ends (SIGTERM).",
    targets=(OneMember,),
    lasting=Lasting(),
    heals="another process takes its place, and its instance id if it had one",
    claims=(FaultClaim.MEMBER,),
    settles_ms=STARTING_MS,
    # A static member does not leave: it is given up when its session ends.
    rows=(28, 38, 48),
    bound=within(2_000, "session_timeout_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
)
def close(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    number, name = struck(testbed, step)
    begin(name)
    if name:
        testbed.members.close(name)
    return partial(put_back, testbed, number)


@fault(
    name="catch-up-end",
    description="A member ends at a moment of its catching up with a lag; who takes it over may go the same way.",
    targets=(OneMember,),
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
    claims=(FaultClaim.MEMBER,),
    needs=(Need.TWO_CURSORS,),
    settles_ms=STARTING_MS,
    rows=(49,),
    # What it was to catch up with may be that of one who was killed shortly before: a session more.
    bound=within(2_000, "session_timeout_ms", "session_timeout_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
)
def end_catching_up(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Raises: MomentError."""
    moment = step.choice("moment")
    assert isinstance(step.target, OneMember)
    number = step.target.number

    def is_at_it() -> bool:
        """The member that has that number by then."""
        name = testbed.members.running(number)
        return name is not None and testbed.members.is_at(name, moment)

    if not testbed.members.wait(is_at_it, COMES_TO_IT_S):
        raise MomentError(f"{step.target} never was {moment}")
    name = testbed.members.running(number) or ""
    begin(name)
    if name:
        (testbed.members.kill if step.choice("ending") == "killed" else testbed.members.close)(name)
    return partial(put_back, testbed, number)


@fault(
    name="slow-consumer",
    description="A member takes its time over each record, and goes on polling.",
    targets=(OneMember,),
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
    claims=(FaultClaim.MEMBER,),
    needs=(Need.OWN_RUNNER,),
    rows=(34,),
    bound=within(2_000),
)
def slow(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    _number, name = struck(testbed, step)
    begin(name)
    if not name:
        return stays
    testbed.members.slow(name, step.amount("each_ms"))
    return partial(testbed.members.slow, name, 0)


@fault(
    name="poll-interval-exceeded",
    description="A member's handler is stuck over a record for longer than max_poll_interval_ms.",
    targets=(OneMember,),
    lasting=Lasting(default_ms=25_000, least_ms=1_000),
    heals="the handler returns, and the next poll joins again",
    claims=(FaultClaim.MEMBER,),
    needs=(Need.OWN_RUNNER,),
    settles_ms=STARTING_MS,
    rows=(33,),
    bound=within(2_000, "max_poll_interval_ms", "rebalance_slack_ms"),
    since=Since.STRIKE,
)
def stick(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    _number, name = struck(testbed, step)
    begin(name)
    if not name:
        return stays
    testbed.members.stick(name)
    return partial(testbed.members.unstick, name)


@fault(
    name="clock-jump",
    description="The wall clock of the members jumps; their monotonic clock goes on.",
    targets=(WholeGroup, OneMember),
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
    claims=(FaultClaim.CLOCK,),
    needs=(Need.LIBFAKETIME,),
    rows=(45,),
    bound=within(2_000),
    since=Since.STRIKE,
    simulated_as="wall-clock-steps",
)
def jump(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Of all that run now, or of one."""
    names = (struck(testbed, step)[1],) if isinstance(step.target, OneMember) else tuple(testbed.members.names())
    begin(", ".join(names))
    _shift(testbed, names, step.amount("step_ms"))
    return partial(_shift, testbed, names, 0)


def _shift(testbed: Testbed, names: tuple[str, ...], step_ms: int) -> None:
    for name in names:
        if name and not testbed.members.has_ended(name):
            testbed.members.shift_clock(name, step_ms)


def struck(testbed: Testbed, step: Step) -> tuple[int, str]:
    """The number that is meant, and the process that has it; "" if it has ended, which the ledger knows already."""
    assert isinstance(step.target, OneMember)
    number = step.target.number
    return number, testbed.members.running(number) or ""


def put_back(testbed: Testbed, number: int) -> None:
    """Have a process in its place, unless there is one."""
    if not testbed.members.running(number):
        start(testbed, number)


def start(testbed: Testbed, number: int) -> None:
    testbed.members.start(MemberPlan.of(number, testbed.schedule))
