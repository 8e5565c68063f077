"""Strikes on connections: what the proxies are told, and that healing takes back exactly that."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults import kinds
from kwire.testing.faults.catalogue import FAMILIES, faults_in
from kwire.testing.faults.kinds import answers, connections, toxics
from kwire.testing.faults.proxies.stream import Stream
from kwire.testing.faults.proxies.tamperings import (
    AnnounceLength,
    BitPlace,
    BlackHole,
    ChaosDialer,
    FlipBit,
    HalfOpen,
    HoldBack,
    Refuse,
    Tampering,
    UnknownCode,
)
from kwire.testing.faults.proxies.toxics import Bandwidth, Latency, LimitData, ResetPeer, Slicer, SlowClose, Toxic
from kwire.testing.faults.targets import AllBrokers, GroupCoordinator, LeaderOf, OneBroker

if TYPE_CHECKING:
    from tests.testing.faults.kinds.recording_testbed import Struck
else:
    from recording_testbed import Struck

UP, DOWN = Stream.UPSTREAM, Stream.DOWNSTREAM


def test_every_module_of_faults_is_in_the_catalogue() -> None:
    modules = {f"{kinds.__name__}.{each.name}" for each in pkgutil.iter_modules(kinds.__path__)}
    assert {family.__name__ for family in FAMILIES} == modules


@pytest.mark.parametrize(
    ("fault", "toxics"),
    [
        ("latency", [Latency(latency_ms=100, stream=UP), Latency(latency_ms=100, stream=DOWN)]),
        ("bandwidth", [Bandwidth(rate_kb_per_s=375, stream=UP), Bandwidth(rate_kb_per_s=375, stream=DOWN)]),
        (
            "slicer",
            [
                Slicer(average_size_bytes=4, size_variation_bytes=3, delay_us=10, stream=UP),
                Slicer(average_size_bytes=4, size_variation_bytes=3, delay_us=10, stream=DOWN),
            ],
        ),
        ("slow-close", [SlowClose(delay_ms=5_000, stream=UP), SlowClose(delay_ms=5_000, stream=DOWN)]),
        ("reset", [ResetPeer(timeout_ms=0, stream=DOWN)]),
        ("limit-data", [LimitData(limit_bytes=5_000, stream=DOWN)]),
    ],
)
def test_toxics_come_and_go(fault: str, toxics: list[Toxic]) -> None:
    struck = Struck()
    heal = struck.strike(fault, AllBrokers())
    assert [list(proxy.toxic.values()) for proxy in struck.proxies] == [toxics] * 3
    assert struck.began == ["broker 0, 1, 2"]
    heal()
    assert not any(proxy.toxic for proxy in struck.proxies)


def test_latency_may_concern_one_way_alone() -> None:
    struck = Struck()
    struck.strike("latency", OneBroker(1), latency_ms=40, jitter_ms=7, direction="answers")
    assert list(struck.proxies[1].toxic.values()) == [Latency(latency_ms=40, jitter_ms=7, stream=DOWN)]


@pytest.mark.parametrize(
    ("fault", "tamperings", "hung_up"),
    [
        ("chaos-dialer", [ChaosDialer(shortest_ms=500, longest_ms=1_500, seed=0)], 0),
        ("refused", [Refuse()], 1),
        ("black-hole", [BlackHole()], 1),
        ("half-open", [HalfOpen()], 0),
        ("partition-broker", [HoldBack(), BlackHole()], 0),
    ],
)
def test_conditions_come_and_go(fault: str, tamperings: list[Tampering], hung_up: int) -> None:
    struck = Struck()
    heal = struck.strike(fault, OneBroker(2))
    assert [proxy.tampered for proxy in struck.proxies] == [[], [], tamperings]
    assert struck.proxies[2].hung_up == hung_up
    heal()
    assert struck.proxies[2].tampered == []


def test_healing_leaves_what_another_fault_has_done() -> None:
    """A broker that is down is refused by its proxy, whatever else ends meanwhile."""
    struck = Struck()
    struck.proxies[0].tamper(Refuse())
    struck.strike("refused", OneBroker(0))()
    assert struck.proxies[0].tampered == [Refuse()]


def test_a_partition_from_all_is_one_from_each() -> None:
    struck = Struck()
    struck.strike("partition-all", AllBrokers())
    assert [proxy.tampered for proxy in struck.proxies] == [[HoldBack(), BlackHole()]] * 3


def test_leaders_and_coordinators_are_looked_up_when_it_strikes() -> None:
    struck = Struck()
    struck.strike("half-open", LeaderOf(TopicPartition("orders", 0)))
    struck.strike("half-open", GroupCoordinator())
    assert [bool(proxy.tampered) for proxy in struck.proxies] == [False, True, True]
    assert struck.began == ["broker 2", "broker 1"]


def test_bits_flip_again_and_again_until_the_time_is_over() -> None:
    struck = Struck()
    heal = struck.strike("bit-flip", OneBroker(0), lasts_ms=1_000, where="crc", every=3)
    flips = struck.proxies[0].all_tampered
    assert len(flips) > 10
    assert all(
        isinstance(flip, FlipBit) and (flip.place, flip.nth, flip.api_key) == (BitPlace.CRC, 3, 1) for flip in flips
    )
    assert len(set(flips)) == len(flips)  # another bit each time
    assert struck.recorder.now_ms() == pytest.approx(1_000, abs=60)
    struck.proxies[0].tampered = [flips[-1]]  # the others have hit, and are over
    heal()
    assert struck.proxies[0].tampered == []


@pytest.mark.parametrize(("length", "length_bytes"), [("oversized", 2**31 - 1), ("zero", 0), ("negative", -1)])
def test_lengths_that_cannot_be_are_announced(length: str, length_bytes: int) -> None:
    struck = Struck()
    struck.strike("oversized-frame", OneBroker(0), lasts_ms=200, length=length)
    assert set(struck.proxies[0].all_tampered) == {AnnounceLength(api_key=1, nth=5, length_bytes=length_bytes)}


@pytest.mark.parametrize(("api", "api_key"), [("fetches", 1), ("commits", 8), ("metadata", 3)])
def test_errors_that_nobody_knows_are_told(api: str, api_key: int) -> None:
    struck = Struck()
    struck.strike("unknown-error", OneBroker(0), api=api, every=2)
    assert set(struck.proxies[0].all_tampered) == {UnknownCode(api_key=api_key, nth=2)}


def test_this_file_has_every_fault_of_the_network() -> None:
    tested = {
        "latency", "bandwidth", "slicer", "slow-close", "reset", "limit-data", "chaos-dialer", "refused", "black-hole",
        "half-open", "partition-broker", "partition-all", "bit-flip", "oversized-frame",
        "unknown-error",
    }  # fmt: skip
    assert tested == {each.kind.name for family in (toxics, connections, answers) for each in faults_in(family)}
