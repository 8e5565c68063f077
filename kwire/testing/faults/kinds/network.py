"""What befalls the connections between all clients and a broker. Brokers reach each other all the while.

Toxiproxy does what it has a toxic for; what it has none for is done by the proxy that tampers with bytes.
"""

from __future__ import annotations

from kwire.testing.faults.bounds import within
from kwire.testing.faults.kinds.kind import Amount, Choice, Claim, FaultKind, Lasting
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.targets import AllBrokers, Broker, Coordinator, LeaderOf

ONE_BROKER = (Broker, LeaderOf, Coordinator)
ANY_BROKERS = (*ONE_BROKER, AllBrokers)
MS, BYTES = Quantity.DURATION_MS, Quantity.BYTES

DIRECTION = Choice(
    name="direction",
    default="both",
    words=("both", "requests", "answers"),
    doc="which way the bytes go that it concerns",
)
EVERY = Amount(
    name="every",
    word="every",
    quantity=Quantity.COUNT,
    default=5,
    least=1,
    most=1_000_000,
    doc="one in so many of these answers is struck",
)
# A dial, and a look at what has changed meanwhile.
AGAIN_MS = 2_000

_SLOW = (
    FaultKind(
        name="latency",
        description="Bytes arrive late.",
        targets=ANY_BROKERS,
        parameters=(
            Amount(name="latency_ms", quantity=MS, default=100, least=1, most=30_000, doc="how late"),
            Amount(name="jitter_ms", word="jitter", quantity=MS, default=0, most=30_000, doc="so much more or less"),
            DIRECTION,
        ),
        lasting=Lasting(default_ms=15_000),
        heals="bytes arrive at once again",
        claims=(Claim.BROKER_LATENCY,),
        rows=(12,),
        bound=within(AGAIN_MS),
        simulated_as="slow-network",
    ),
    FaultKind(
        name="bandwidth",
        description="Only so many bytes pass in a second.",
        targets=ANY_BROKERS,
        parameters=(
            Amount(
                name="rate_kbits_per_second",
                quantity=Quantity.KBITS_PER_SECOND,
                default=3_000,
                least=8,
                most=10_000_000,
                doc="the bandwidth of each connection",
            ),
            DIRECTION,
        ),
        lasting=Lasting(default_ms=15_000),
        heals="bytes pass as fast as they come",
        claims=(Claim.BROKER_BANDWIDTH,),
        rows=(12,),
        bound=within(AGAIN_MS),
    ),
    FaultKind(
        name="slicer",
        description="Bytes arrive in slices, with pauses in between.",
        targets=ANY_BROKERS,
        parameters=(
            Amount(name="slice_bytes", quantity=BYTES, default=4, least=1, most=65_536, doc="a slice's average size"),
            Amount(name="vary_bytes", word="vary", quantity=BYTES, default=3, most=65_536, doc="so much more or less"),
            Amount(
                name="pause_us",
                word="pause",
                quantity=Quantity.DURATION_US,
                default=10,
                most=1_000_000,
                doc="pause between slices",
            ),
            DIRECTION,
        ),
        lasting=Lasting(default_ms=15_000),
        heals="bytes arrive as they were sent",
        claims=(Claim.BROKER_CHUNKS,),
        increasing=(("vary_bytes", "slice_bytes"),),
        rows=(13,),
        bound=within(AGAIN_MS),
        simulated_as="sliced-bytes",
    ),
    FaultKind(
        name="slow-close",
        description="The end of a connection arrives late.",
        targets=ANY_BROKERS,
        parameters=(Amount(name="delay_ms", quantity=MS, default=5_000, least=1, most=600_000, doc="how late"),),
        lasting=Lasting(default_ms=20_000),
        heals="connections end when they are closed",
        claims=(Claim.BROKER_CLOSING,),
        rows=(10,),
        bound=within(AGAIN_MS),
    ),
)

_BROKEN = (
    FaultKind(
        name="reset",
        description="Connections are reset (RST) at the first bytes that pass.",
        targets=ANY_BROKERS,
        parameters=(Amount(name="after_ms", word="after", quantity=MS, default=0, most=60_000, doc="so long after"),),
        lasting=Lasting(default_ms=5_000),
        heals="new connections stay",
        claims=(Claim.REACH,),
        rows=(14, 15),
        bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
    ),
    FaultKind(
        name="limit-data",
        description="Each connection ends after so many bytes of answers, in the middle of a frame.",
        targets=ANY_BROKERS,
        parameters=(
            Amount(name="limit_bytes", quantity=BYTES, default=5_000, least=1, most=1 << 30, doc="the bytes that pass"),
        ),
        lasting=Lasting(),
        heals="new connections stay",
        claims=(Claim.REACH,),
        rows=(15,),
        bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
    ),
    FaultKind(
        name="chaos-dialer",
        description="Each connection ends after a random short time.",
        targets=ANY_BROKERS,
        parameters=(
            Amount(name="least_ms", word="from", quantity=MS, default=500, least=1, most=60_000, doc="at the earliest"),
            Amount(name="most_ms", word="to", quantity=MS, default=1_500, least=1, most=60_000, doc="at the latest"),
        ),
        lasting=Lasting(default_ms=30_000),
        heals="new connections stay",
        claims=(Claim.REACH,),
        increasing=(("least_ms", "most_ms"),),
        rows=(14,),
        bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
        simulated_as="short-lived-connections",
    ),
)

_UNREACHABLE = (
    FaultKind(
        name="refused",
        description="Connections are cut, and new ones refused.",
        targets=ANY_BROKERS,
        lasting=Lasting(),
        heals="the port listens again",
        claims=(Claim.REACH,),
        rows=(11,),
        bound=within(AGAIN_MS, "reconnect_backoff_max_ms", "rebalance_slack_ms"),
        simulated_as="refused",
    ),
    FaultKind(
        name="black-hole",
        description="Connections are cut, and new ones get no answer at all.",
        targets=ANY_BROKERS,
        lasting=Lasting(),
        heals="new connections are answered; attempts of before may hang until they time out",
        claims=(Claim.REACH,),
        rows=(11,),
        bound=within(AGAIN_MS, "socket_connection_setup_timeout_ms", "reconnect_backoff_max_ms", "rebalance_slack_ms"),
    ),
    FaultKind(
        name="half-open",
        description="What passes between the clients and a broker vanishes, and nobody is told: sockets stay open.",
        targets=ANY_BROKERS,
        lasting=Lasting(default_ms=20_000),
        heals="connections that have lost bytes end, and new ones are well",
        claims=(Claim.REACH,),
        rows=(10,),
        bound=within(AGAIN_MS, "request_timeout_ms", "rebalance_slack_ms"),
        simulated_as="half-open",
    ),
    FaultKind(
        name="partition-broker",
        description="Nothing passes between the clients and one broker, on connections of now and on new ones.",
        targets=ONE_BROKER,
        lasting=Lasting(default_ms=15_000),
        heals="what was held back arrives, and everything passes",
        claims=(Claim.REACH,),
        rows=(7, 8, 9),
        bound=within(AGAIN_MS, "request_timeout_ms", "rebalance_slack_ms"),
        simulated_as="partition-from-one-broker",
    ),
    FaultKind(
        name="partition-all",
        description="Nothing passes between the clients and any broker, on connections of now and on new ones.",
        targets=(AllBrokers,),
        lasting=Lasting(default_ms=5_000),
        heals="what was held back arrives, and everything passes",
        claims=(Claim.REACH,),
        rows=(8, 9),
        bound=within(AGAIN_MS, "request_timeout_ms", "rebalance_slack_ms"),
    ),
)

_TAMPERED = (
    FaultKind(
        name="bit-flip",
        description="A bit of an answer to a fetch flips on the way.",
        targets=ANY_BROKERS,
        parameters=(
            Choice(
                name="where",
                default="payload",
                words=("header", "batch-header", "crc", "payload"),
                doc="in the correlation id, what is in front of a batch's records, its checksum, or the records",
            ),
            EVERY,
        ),
        lasting=Lasting(),
        heals="answers arrive as they were sent",
        claims=(Claim.ANSWERS,),
        rows=(16, 17),
        bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
        simulated_as="damaged-batches",
    ),
    FaultKind(
        name="oversized-frame",
        description="The length in front of an answer to a fetch is one that cannot be.",
        targets=ANY_BROKERS,
        parameters=(
            Choice(
                name="length",
                default="oversized",
                words=("oversized", "zero", "negative"),
                doc="beyond every limit, nothing, or below nothing",
            ),
            EVERY,
        ),
        lasting=Lasting(),
        heals="answers arrive as they were sent",
        claims=(Claim.ANSWERS,),
        rows=(16,),
        bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
    ),
    FaultKind(
        name="unknown-error",
        description="An answer says that it went wrong, with a code that nobody knows.",
        targets=ANY_BROKERS,
        parameters=(
            Choice(
                name="api",
                default="fetches",
                words=("fetches", "commits", "metadata"),
                doc="what is answered so; commits are taken all the same",
            ),
            EVERY,
        ),
        lasting=Lasting(),
        heals="answers say what happened",
        claims=(Claim.ANSWERS,),
        rows=(43,),
        bound=within(AGAIN_MS, "retry_backoff_max_ms"),
    ),
)

KINDS = (*_SLOW, *_BROKEN, *_UNREACHABLE, *_TAMPERED)
