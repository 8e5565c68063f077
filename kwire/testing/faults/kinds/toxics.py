"""Faults of the connections between all clients and a broker, injected by toxics of toxiproxy. Brokers reach
each other all the while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault
from kwire.testing.faults.kind import Amount, Choice, FaultClaim, Lasting
from kwire.testing.faults.proxies.chain import BrokerProxy
from kwire.testing.faults.proxies.stream import Stream
from kwire.testing.faults.proxies.toxics import Bandwidth, Latency, LimitData, ResetPeer, Slicer, SlowClose, Toxic
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import ANY_BROKERS
from kwire.testing.faults.testbed import Testbed

MS, BYTES = Quantity.DURATION_MS, Quantity.BYTES
# A dial, and a look at what has changed meanwhile.
AGAIN_MS = 2_000
KBITS_PER_KB = 8
STREAMS: Mapping[str, tuple[Stream, ...]] = {
    "both": (Stream.UPSTREAM, Stream.DOWNSTREAM),
    "requests": (Stream.UPSTREAM,),
    "answers": (Stream.DOWNSTREAM,),
}
DIRECTION = Choice(
    name="direction",
    default="both",
    words=("both", "requests", "answers"),
    doc="which way the bytes go that it concerns",
)


@fault(
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
    claims=(FaultClaim.BROKER_LATENCY,),
    rows=(12,),
    bound=within(AGAIN_MS),
    simulated_as="slow-network",
)
def latency(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    late_ms, jitter_ms = step.amount("latency_ms"), step.amount("jitter_ms")
    toxics = [Latency(latency_ms=late_ms, jitter_ms=jitter_ms, stream=stream) for stream in _streams(step)]
    return _poison(testbed, step, begin, toxics)


@fault(
    name="bandwidth",
    description="Only this many bytes pass in a second.",
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
    claims=(FaultClaim.BROKER_BANDWIDTH,),
    rows=(12,),
    bound=within(AGAIN_MS),
)
def bandwidth(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    rate_kb_per_s = max(1, step.amount("rate_kbits_per_second") // KBITS_PER_KB)
    toxics = [Bandwidth(rate_kb_per_s=rate_kb_per_s, stream=stream) for stream in _streams(step)]
    return _poison(testbed, step, begin, toxics)


@fault(
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
    claims=(FaultClaim.BROKER_CHUNKS,),
    increasing=(("vary_bytes", "slice_bytes"),),
    rows=(13,),
    bound=within(AGAIN_MS),
    simulated_as="sliced-bytes",
)
def slicer(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    toxics = [
        Slicer(
            average_size_bytes=step.amount("slice_bytes"),
            size_variation_bytes=step.amount("vary_bytes"),
            delay_us=step.amount("pause_us"),
            stream=stream,
        )
        for stream in _streams(step)
    ]
    return _poison(testbed, step, begin, toxics)


@fault(
    name="slow-close",
    description="The end of a connection arrives late.",
    targets=ANY_BROKERS,
    parameters=(Amount(name="delay_ms", quantity=MS, default=5_000, least=1, most=600_000, doc="how late"),),
    lasting=Lasting(default_ms=20_000),
    heals="connections end when they are closed",
    claims=(FaultClaim.BROKER_CLOSING,),
    rows=(10,),
    bound=within(AGAIN_MS),
)
def slow_close(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    toxics = [SlowClose(delay_ms=step.amount("delay_ms"), stream=stream) for stream in STREAMS["both"]]
    return _poison(testbed, step, begin, toxics)


@fault(
    name="reset",
    description="Connections are reset (RST) at the first bytes that pass.",
    targets=ANY_BROKERS,
    parameters=(Amount(name="after_ms", word="after", quantity=MS, default=0, most=60_000, doc="so long after"),),
    lasting=Lasting(default_ms=5_000),
    heals="new connections stay",
    claims=(FaultClaim.REACH,),
    rows=(14, 15),
    bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
)
def reset(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """At the first answer: the broker has done what it was asked, and nobody hears of it."""
    return _poison(testbed, step, begin, [ResetPeer(timeout_ms=step.amount("after_ms"))])


@fault(
    name="limit-data",
    description="Each connection ends after this many bytes of answers, in the middle of a frame.",
    targets=ANY_BROKERS,
    parameters=(
        Amount(name="limit_bytes", quantity=BYTES, default=5_000, least=1, most=1 << 30, doc="the bytes that pass"),
    ),
    lasting=Lasting(),
    heals="new connections stay",
    claims=(FaultClaim.REACH,),
    rows=(15,),
    bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
)
def limit_data(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    return _poison(testbed, step, begin, [LimitData(limit_bytes=step.amount("limit_bytes"))])


def names_of(brokers: tuple[int, ...]) -> str:
    return "broker " + ", ".join(map(str, brokers))


def _poison(testbed: Testbed, step: Step, begin: Begin, toxics: Sequence[Toxic]) -> Heal:
    brokers = testbed.brokers(step.target)
    begin(names_of(brokers))
    with testbed.proxies_of(brokers) as proxies:
        given = [(proxy, name) for proxy in proxies for name in proxy.toxics(*toxics)]
    return partial(_take_back, testbed, given)


def _take_back(testbed: Testbed, given: Sequence[tuple[BrokerProxy, str]]) -> None:
    with testbed.proxying:
        for proxy, name in given:
            proxy.untoxic(name)


def _streams(step: Step) -> tuple[Stream, ...]:
    return STREAMS[step.choice("direction")]
