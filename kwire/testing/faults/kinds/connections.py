"""Faults of the connections between all clients and a broker, injected by the proxy that tampers with bytes.

Toxiproxy has no toxic for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault
from kwire.testing.faults.kind import Amount, FaultClaim, Lasting
from kwire.testing.faults.kinds.toxics import AGAIN_MS, names_of
from kwire.testing.faults.proxies.tamperings import BlackHole, ChaosDialer, HalfOpen, HoldBack, Refuse, Tampering
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import ANY_BROKERS, ONE_BROKER, AllBrokers
from kwire.testing.faults.testbed import Testbed

MS = Quantity.DURATION_MS


@fault(
    name="chaos-dialer",
    description="Each connection ends after a random short time.",
    targets=ANY_BROKERS,
    parameters=(
        Amount(name="least_ms", word="from", quantity=MS, default=500, least=1, most=60_000, doc="at the earliest"),
        Amount(name="most_ms", word="to", quantity=MS, default=1_500, least=1, most=60_000, doc="at the latest"),
    ),
    lasting=Lasting(default_ms=30_000),
    heals="new connections stay",
    claims=(FaultClaim.REACH,),
    increasing=(("least_ms", "most_ms"),),
    rows=(14,),
    bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
    simulated_as="short-lived-connections",
)
def chaos_dialer(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    dialer = ChaosDialer(shortest_ms=step.amount("least_ms"), longest_ms=step.amount("most_ms"), seed=step.at_ms)
    return _tamper(testbed, step, begin, [dialer])


@fault(
    name="refused",
    description="Connections are cut, and new ones refused.",
    targets=ANY_BROKERS,
    lasting=Lasting(),
    heals="the port listens again",
    claims=(FaultClaim.REACH,),
    rows=(11,),
    bound=within(AGAIN_MS, "reconnect_backoff_max_ms", "rebalance_slack_ms"),
    simulated_as="refused",
)
def refused(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    return _tamper(testbed, step, begin, [Refuse()], hangs_up=True)


@fault(
    name="black-hole",
    description="Connections are cut, and new ones get no answer at all.",
    targets=ANY_BROKERS,
    lasting=Lasting(),
    heals="new connections are answered; attempts of before may hang until they time out",
    claims=(FaultClaim.REACH,),
    rows=(11,),
    bound=within(AGAIN_MS, "socket_connection_setup_timeout_ms", "reconnect_backoff_max_ms", "rebalance_slack_ms"),
)
def black_hole(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    return _tamper(testbed, step, begin, [BlackHole()], hangs_up=True)


@fault(
    name="half-open",
    description="What passes between the clients and a broker vanishes, and nobody is told: sockets stay open.",
    targets=ANY_BROKERS,
    lasting=Lasting(default_ms=20_000),
    heals="connections that have lost bytes end, and new ones are well",
    claims=(FaultClaim.REACH,),
    rows=(10,),
    bound=within(AGAIN_MS, "request_timeout_ms", "rebalance_slack_ms"),
    simulated_as="half-open",
)
def half_open(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    return _tamper(testbed, step, begin, [HalfOpen()])


@fault(
    name="partition-broker",
    description="Nothing passes between the clients and one broker, on connections of now and on new ones.",
    targets=ONE_BROKER,
    lasting=Lasting(default_ms=15_000),
    heals="what was held back arrives, and everything passes",
    claims=(FaultClaim.REACH,),
    rows=(7, 8, 9),
    bound=within(AGAIN_MS, "request_timeout_ms", "rebalance_slack_ms"),
    simulated_as="partition-from-one-broker",
)
def partition_broker(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    return _tamper(testbed, step, begin, [HoldBack(), BlackHole()])


@fault(
    name="partition-all",
    description="Nothing passes between the clients and any broker, on connections of now and on new ones.",
    targets=(AllBrokers,),
    lasting=Lasting(default_ms=5_000),
    heals="what was held back arrives, and everything passes",
    claims=(FaultClaim.REACH,),
    rows=(8, 9),
    bound=within(AGAIN_MS, "request_timeout_ms", "rebalance_slack_ms"),
)
def partition_all(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    return _tamper(testbed, step, begin, [HoldBack(), BlackHole()])


def _tamper(testbed: Testbed, step: Step, begin: Begin, given: Sequence[Tampering], *, hangs_up: bool = False) -> Heal:
    """Args:
    hangs_up: whether connections of now are cut.
    """
    brokers = testbed.brokers(step.target)
    begin(names_of(brokers))
    with testbed.proxies_of(brokers) as proxies:
        for proxy in proxies:
            proxy.tamper(*given)
        for proxy in proxies:
            if hangs_up:
                proxy.hang_up(abruptly=True)
    return partial(lift, testbed, brokers, given)


def lift(testbed: Testbed, brokers: tuple[int, ...], given: Sequence[Tampering]) -> None:
    with testbed.proxies_of(brokers) as proxies:
        for proxy in proxies:
            for tampering in given:
                proxy.lift(tampering)
