"""Faults that a cluster causes by itself: leaders and coordinators move, and clients are throttled."""

from __future__ import annotations

from kwire.model import TopicPartition
from kwire.testing.faults.admin.patience import CLIENT_ID
from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault, stay_so, stays
from kwire.testing.faults.kind import Amount, FaultClaim, Lasting, Need, Since
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import AllBrokers, OneTopic, PartitionOf, WholeGroup
from kwire.testing.faults.testbed import Testbed
from kwire.testing.faults.traffic import CLIENT_ID as TRAFFIC_CLIENT_ID

# An election, or a move of a coordinator's partition with its log, on a busy machine.
MOVING_MS = 3_000
# Of those who are not to be struck: more than they could ever use.
SPARED = {"consumer_byte_rate": 1e12, "request_percentage": 1e6}


@fault(
    name="leader-move",
    description="The leader of a partition, or of each of a topic, moves to another replica that is in sync.",
    targets=(PartitionOf, OneTopic),
    heals="nothing: it stays where it is",
    claims=(FaultClaim.LEADERSHIP,),
    needs=(Need.THREE_BROKERS,),
    settles_ms=MOVING_MS,
    rows=(3,),
    bound=within(1_000),
    since=Since.STRIKE,
    simulated_as="leader-moves",
)
def move_leaders(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    return _move(testbed, testbed.partitions(step.target), begin)


@fault(
    name="coordinator-move",
    description="The partition of __consumer_offsets that holds the group gets another leader, which loads it.",
    targets=(WholeGroup,),
    heals="nothing: it stays where it is",
    claims=(FaultClaim.COORDINATION,),
    needs=(Need.THREE_BROKERS,),
    settles_ms=MOVING_MS,
    rows=(5,),
    bound=within(2_000),
    since=Since.STRIKE,
    simulated_as="coordinator-moves",
)
def move_coordinator(testbed: Testbed, _step: Step, begin: Begin) -> Heal:
    return _move(testbed, (testbed.admin.group.kept_in(),), begin)


def _move(testbed: Testbed, partitions: tuple[TopicPartition, ...], begin: Begin) -> Heal:
    moves = testbed.admin.leaders.prepare_move(partitions)
    begin("to broker " + ", ".join(str(number) for number in sorted(set(moves.values()))))
    testbed.admin.leaders.elect(moves)
    return stays


@fault(
    name="quota",
    description="Brokers throttle what members may read, or how much time their requests may take.",
    targets=(AllBrokers,),
    parameters=(
        Amount(
            name="fetch_rate_bytes_per_second",
            quantity=Quantity.BYTES,
            default=16 * 1024,
            least=1024,
            most=64 * 1024 * 1024,
            doc="bytes that a broker answers each client in a second",
        ),
        Amount(
            name="request_percent",
            word="requests",
            quantity=Quantity.PERCENT,
            default=100,
            least=1,
            most=100,
            doc="share of a thread's time that requests may take",
        ),
    ),
    lasting=Lasting(default_ms=15_000, least_ms=1_000),
    heals="the quota is taken back; what is throttled by then waits for its time",
    claims=(FaultClaim.QUOTA,),
    rows=(42,),
    # A throttle lasts at most as long as the samples it is made of: eleven windows of a second.
    bound=within(11_000 + 2_000),
    simulated_as="throttled",
)
def throttle(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """All clients but the harness's own, whose records have to come."""
    percent = step.amount("request_percent")
    quotas: dict[str, float | None] = {"consumer_byte_rate": float(step.amount("fetch_rate_bytes_per_second"))}
    if percent < 100:
        quotas["request_percentage"] = float(percent)
    begin("all clients")
    testbed.admin.quotas.change({CLIENT_ID: SPARED, TRAFFIC_CLIENT_ID: SPARED, None: quotas})
    stay_so(testbed, step)
    gone = dict.fromkeys(SPARED)
    return lambda: testbed.admin.quotas.change({None: dict.fromkeys(quotas), CLIENT_ID: gone, TRAFFIC_CLIENT_ID: gone})
