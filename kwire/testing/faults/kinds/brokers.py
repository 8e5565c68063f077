"""What befalls brokers as processes, and what the cluster does by itself: failover, elections, quotas."""

from __future__ import annotations

from kwire.testing.faults.bounds import within
from kwire.testing.faults.kinds.kind import Amount, Claim, FaultKind, Lasting, Need, Since
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.targets import AllBrokers, Broker, Coordinator, Group, LeaderOf, PartitionOf, Topic

ANY_BROKER = (Broker, LeaderOf, Coordinator)
# A broker that is back reads what it has missed; taking the next one down before leaves partitions without leaders.
CATCHING_UP_MS = 5_000
# An election, or a move of a coordinator's partition with its log, on a busy machine.
MOVING_MS = 3_000

KINDS = (
    FaultKind(
        name="broker-kill",
        description="A broker's process is killed (SIGKILL); the others take over when its session has ended.",
        targets=ANY_BROKER,
        lasting=Lasting(default_ms=15_000, least_ms=1_000),
        heals="the broker is started again, with its data",
        claims=(Claim.BROKER_DOWN,),
        needs=(Need.THREE_BROKERS,),
        settles_ms=CATCHING_UP_MS,
        rows=(1,),
        bound=within(2_000, "broker_session_timeout_ms"),
        since=Since.STRIKE,
        simulated_as="broker-kill",
    ),
    FaultKind(
        name="broker-stop",
        description="A broker is shut down in order (SIGTERM), and hands its leaders over before it goes.",
        targets=ANY_BROKER,
        lasting=Lasting(least_ms=1_000),
        heals="the broker is started again, with its data",
        claims=(Claim.BROKER_DOWN,),
        needs=(Need.THREE_BROKERS,),
        settles_ms=CATCHING_UP_MS,
        rows=(2,),
        # The shutdown itself takes a while, in which some leaders have moved and others not.
        bound=within(7_000),
        since=Since.STRIKE,
    ),
    FaultKind(
        name="broker-freeze",
        description="A broker's process is stopped (SIGSTOP): its connections stay open, and nobody answers.",
        targets=ANY_BROKER,
        lasting=Lasting(default_ms=15_000, least_ms=1_000),
        heals="the process goes on (SIGCONT), and finds out what it has missed",
        claims=(Claim.BROKER_DOWN,),
        needs=(Need.THREE_BROKERS,),
        settles_ms=CATCHING_UP_MS,
        rows=(10,),
        bound=within(2_000, "broker_session_timeout_ms", "request_timeout_ms"),
        since=Since.STRIKE,
        simulated_as="broker-pause",
    ),
    FaultKind(
        name="rolling-restart",
        description="Each broker in turn is shut down in order and started again, evenly over the time.",
        targets=(AllBrokers,),
        parameters=(
            Amount(
                name="rounds",
                word="rounds",
                quantity=Quantity.COUNT,
                default=1,
                least=1,
                most=10,
                doc="how often each is restarted",
            ),
        ),
        lasting=Lasting(default_ms=45_000, least_ms=15_000),
        heals="the last broker is up again",
        claims=(Claim.BROKER_DOWN,),
        needs=(Need.THREE_BROKERS,),
        settles_ms=CATCHING_UP_MS,
        rows=(2,),
        bound=within(2_000),
        simulated_as="rolling-bounce",
    ),
    FaultKind(
        name="rolling-downgrade",
        description="Each broker in turn is restarted as an older release of Kafka, then each as its own again.",
        targets=(AllBrokers,),
        lasting=Lasting(default_ms=60_000, least_ms=30_000),
        heals="the last broker is up again, and all are of one release",
        claims=(Claim.BROKER_DOWN,),
        needs=(Need.THREE_BROKERS, Need.OLDER_STORAGE),
        settles_ms=CATCHING_UP_MS,
        rows=(43,),
        bound=within(2_000),
    ),
    FaultKind(
        name="leader-move",
        description="The leader of a partition, or of each of a topic, moves to another replica that is in sync.",
        targets=(PartitionOf, Topic),
        heals="nothing: it stays where it is",
        claims=(Claim.LEADERSHIP,),
        needs=(Need.THREE_BROKERS,),
        settles_ms=MOVING_MS,
        rows=(3,),
        bound=within(1_000),
        since=Since.STRIKE,
        simulated_as="leader-moves",
    ),
    FaultKind(
        name="coordinator-move",
        description="The partition of __consumer_offsets that holds the group gets another leader, which loads it.",
        targets=(Group,),
        heals="nothing: it stays where it is",
        claims=(Claim.COORDINATION,),
        needs=(Need.THREE_BROKERS,),
        settles_ms=MOVING_MS,
        rows=(5,),
        bound=within(2_000),
        since=Since.STRIKE,
        simulated_as="coordinator-moves",
    ),
    FaultKind(
        name="unclean-election",
        description="A partition's only follower stands still until the leader is alone; that is killed, and it leads.",
        targets=(PartitionOf,),
        lasting=Lasting(default_ms=30_000, least_ms=15_000),
        heals="the former leader is started again and cuts its log, and all replicas follow again",
        claims=(Claim.BROKER_DOWN, Claim.LEADERSHIP, Claim.TOPIC),
        needs=(Need.THREE_BROKERS,),
        settles_ms=CATCHING_UP_MS,
        rows=(24,),
        bound=within(2_000, "metadata_max_age_ms"),
        simulated_as="unclean-election",
    ),
    FaultKind(
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
        claims=(Claim.QUOTA,),
        rows=(42,),
        # A throttle lasts at most as long as the samples it is made of: eleven windows of a second.
        bound=within(11_000 + 2_000),
        simulated_as="throttled",
    ),
)
