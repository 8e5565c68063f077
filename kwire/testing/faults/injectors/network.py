"""What befalls the connections between all clients and a broker: `kinds/network.py` carried out on its proxies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing.faults.injectors.injector import Begin, Heal, Injector
from kwire.testing.faults.proxies.chain import BrokerProxy
from kwire.testing.faults.proxies.stream import Stream
from kwire.testing.faults.proxies.tamperings import (
    AnnounceLength,
    BlackHole,
    ChaosDialer,
    FlipBit,
    HalfOpen,
    Hold,
    Place,
    Refuse,
    Tampering,
    UnknownCode,
)
from kwire.testing.faults.proxies.toxics import Bandwidth, Latency, LimitData, ResetPeer, Slicer, SlowClose, Toxic
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.testbed import Testbed

KBITS_PER_KB = 8
STREAMS: Mapping[str, tuple[Stream, ...]] = {
    "both": (Stream.UPSTREAM, Stream.DOWNSTREAM),
    "requests": (Stream.UPSTREAM,),
    "answers": (Stream.DOWNSTREAM,),
}
APIS: Mapping[str, int] = {
    "fetches": FetchRequest.api_key,
    "commits": OffsetCommitRequest.api_key,
    "metadata": MetadataRequest.api_key,
}
LENGTHS_BYTES: Mapping[str, int] = {"oversized": (1 << 31) - 1, "zero": 0, "negative": -1}
# How often it is looked whether a strike has hit, so that the next one is ordered.
LOOK_MS = 50.0

Toxics: TypeAlias = Callable[[Step], Sequence[Toxic]]
Tamperings: TypeAlias = Callable[[Step], Sequence[Tampering]]
Answered: TypeAlias = FlipBit | AnnounceLength | UnknownCode
Striking: TypeAlias = Callable[[Step, int], Answered]


# --- what toxiproxy does ------------------------------------------------------------------------------------------


def poison(toxics: Toxics, testbed: Testbed, step: Step, begin: Begin) -> Heal:
    brokers = testbed.brokers(step.target)
    begin(_named(brokers))
    with testbed.proxies_of(brokers) as proxies:
        given = [(proxy, name) for proxy in proxies for name in proxy.toxics(*toxics(step))]
    return partial(_take_back, testbed, given)


def _take_back(testbed: Testbed, given: Sequence[tuple[BrokerProxy, str]]) -> None:
    with testbed.proxying:
        for proxy, name in given:
            proxy.untoxic(name)


def latency(step: Step) -> Sequence[Toxic]:
    late_ms, jitter_ms = step.amount("latency_ms"), step.amount("jitter_ms")
    return [Latency(latency_ms=late_ms, jitter_ms=jitter_ms, stream=stream) for stream in _streams(step)]


def bandwidth(step: Step) -> Sequence[Toxic]:
    rate_kb_per_s = max(1, step.amount("rate_kbits_per_second") // KBITS_PER_KB)
    return [Bandwidth(rate_kb_per_s=rate_kb_per_s, stream=stream) for stream in _streams(step)]


def slicer(step: Step) -> Sequence[Toxic]:
    return [
        Slicer(
            average_size_bytes=step.amount("slice_bytes"),
            size_variation_bytes=step.amount("vary_bytes"),
            delay_us=step.amount("pause_us"),
            stream=stream,
        )
        for stream in _streams(step)
    ]


def slow_close(step: Step) -> Sequence[Toxic]:
    return [SlowClose(delay_ms=step.amount("delay_ms"), stream=stream) for stream in STREAMS["both"]]


def reset(step: Step) -> Sequence[Toxic]:
    """At the first answer: the broker has done what it was asked, and nobody hears of it."""
    return [ResetPeer(timeout_ms=step.amount("after_ms"))]


def limit_data(step: Step) -> Sequence[Toxic]:
    return [LimitData(limit_bytes=step.amount("limit_bytes"))]


def _streams(step: Step) -> tuple[Stream, ...]:
    return STREAMS[step.choice("direction")]


# --- what the tampering proxy does ----------------------------------------------------------------------------


def tamper(tamperings: Tamperings, testbed: Testbed, step: Step, begin: Begin, *, hangs_up: bool = False) -> Heal:
    """Args:
    hangs_up: whether connections of now are cut.
    """
    brokers = testbed.brokers(step.target)
    given = tuple(tamperings(step))
    begin(_named(brokers))
    with testbed.proxies_of(brokers) as proxies:
        for proxy in proxies:
            proxy.tamper(*given)
        for proxy in proxies:
            if hangs_up:
                proxy.hang_up(abruptly=True)
    return partial(_lift, testbed, brokers, given)


def _lift(testbed: Testbed, brokers: tuple[int, ...], given: Sequence[Tampering]) -> None:
    with testbed.proxies_of(brokers) as proxies:
        for proxy in proxies:
            for tampering in given:
                proxy.lift(tampering)


def chaos_dialer(step: Step) -> Sequence[Tampering]:
    return [
        ChaosDialer(shortest_ms=step.amount("least_ms"), longest_ms=step.amount("most_ms"), seed=step.at_ms),
    ]


# --- one answer in so many ------------------------------------------------------------------------------------


def strike_again(striking: Striking, testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """A strike is over when it has hit: until the end of the step, the next one is ordered then."""
    assert step.lasts_ms is not None
    brokers = testbed.brokers(step.target)
    begin(_named(brokers))
    ends_ms = testbed.recorder.now_ms() + step.lasts_ms
    ordered = {broker: _order(striking, testbed, step, broker, 0) for broker in brokers}
    while testbed.recorder.now_ms() < ends_ms:
        testbed.sleep(LOOK_MS)
        for broker, (number, hits, _strike) in ordered.items():
            if _hits(testbed, broker) > hits:
                ordered[broker] = _order(striking, testbed, step, broker, number + 1)
    return partial(_call_off, testbed, {broker: order for broker, (_number, _hits, order) in ordered.items()})


def _order(striking: Striking, testbed: Testbed, step: Step, broker: int, number: int) -> tuple[int, int, Answered]:
    """Which one it is, how many had hit before, and the order itself."""
    order, before = striking(step, number), _hits(testbed, broker)
    with testbed.proxies_of((broker,)) as proxies:
        proxies[0].tamper(order)
    return number, before, order


def _call_off(testbed: Testbed, orders: Mapping[int, Answered]) -> None:
    for broker, order in orders.items():
        _lift(testbed, (broker,), [order])


def _hits(testbed: Testbed, broker: int) -> int:
    with testbed.proxies_of((broker,)) as proxies:
        counts = proxies[0].counts
    return counts.flipped_bits + counts.false_lengths + counts.unknown_codes


def flip_bit(step: Step, number: int) -> FlipBit:
    """Another bit each time."""
    place = Place(step.choice("where"))
    return FlipBit(api_key=FetchRequest.api_key, nth=step.amount("every"), place=place, seed=step.at_ms + number)


def announce_length(step: Step, _number: int) -> AnnounceLength:
    length_bytes = LENGTHS_BYTES[step.choice("length")]
    return AnnounceLength(api_key=FetchRequest.api_key, nth=step.amount("every"), length_bytes=length_bytes)


def tell_unknown(step: Step, _number: int) -> UnknownCode:
    return UnknownCode(api_key=APIS[step.choice("api")], nth=step.amount("every"))


def _named(brokers: tuple[int, ...]) -> str:
    return "broker " + ", ".join(map(str, brokers))


INJECTORS: Mapping[str, Injector] = {
    "latency": partial(poison, latency),
    "bandwidth": partial(poison, bandwidth),
    "slicer": partial(poison, slicer),
    "slow-close": partial(poison, slow_close),
    "reset": partial(poison, reset),
    "limit-data": partial(poison, limit_data),
    "chaos-dialer": partial(tamper, chaos_dialer),
    "refused": partial(tamper, lambda _step: [Refuse()], hangs_up=True),
    "black-hole": partial(tamper, lambda _step: [BlackHole()], hangs_up=True),
    "half-open": partial(tamper, lambda _step: [HalfOpen()]),
    "partition-broker": partial(tamper, lambda _step: [Hold(), BlackHole()]),
    "partition-all": partial(tamper, lambda _step: [Hold(), BlackHole()]),
    "bit-flip": partial(strike_again, flip_bit),
    "oversized-frame": partial(strike_again, announce_length),
    "unknown-error": partial(strike_again, tell_unknown),
}
