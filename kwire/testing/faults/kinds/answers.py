"""Faults of a broker's answers on the way to the clients: one of a given number is struck."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.testing.faults.bounds import within
from kwire.testing.faults.fault import Begin, Heal, fault
from kwire.testing.faults.kind import Amount, Choice, FaultClaim, Lasting
from kwire.testing.faults.kinds.connections import lift
from kwire.testing.faults.kinds.toxics import AGAIN_MS, names_of
from kwire.testing.faults.proxies.tamperings import AnnounceLength, BitPlace, FlipBit, UnknownCode
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import ANY_BROKERS
from kwire.testing.faults.testbed import Testbed

APIS: Mapping[str, int] = {
    "fetches": FetchRequest.api_key,
    "commits": OffsetCommitRequest.api_key,
    "metadata": MetadataRequest.api_key,
}
LENGTHS_BYTES: Mapping[str, int] = {"oversized": (1 << 31) - 1, "zero": 0, "negative": -1}
# How often it is looked whether a strike has hit, so that the next one is ordered.
LOOK_MS = 50.0
EVERY = Amount(
    name="every",
    word="every",
    quantity=Quantity.COUNT,
    default=5,
    least=1,
    most=1_000_000,
    doc="one in this many answers is struck",
)

Struck: TypeAlias = FlipBit | AnnounceLength | UnknownCode
Striking: TypeAlias = Callable[[int], Struck]
"""What is ordered, by how many have been before it."""


@fault(
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
    claims=(FaultClaim.ANSWERS,),
    rows=(16, 17),
    bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
    simulated_as="damaged-batches",
)
def flip_bit(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    """Another bit each time."""
    place, nth = BitPlace(step.choice("where")), step.amount("every")

    def order(number: int) -> FlipBit:
        return FlipBit(api_key=FetchRequest.api_key, nth=nth, place=place, seed=step.at_ms + number)

    return _strike_again(testbed, step, begin, order)


@fault(
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
    claims=(FaultClaim.ANSWERS,),
    rows=(16,),
    bound=within(AGAIN_MS, "reconnect_backoff_max_ms"),
)
def announce_length(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    length_bytes = LENGTHS_BYTES[step.choice("length")]
    order = AnnounceLength(api_key=FetchRequest.api_key, nth=step.amount("every"), length_bytes=length_bytes)
    return _strike_again(testbed, step, begin, lambda _number: order)


@fault(
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
    claims=(FaultClaim.ANSWERS,),
    rows=(43,),
    bound=within(AGAIN_MS, "retry_backoff_max_ms"),
)
def tell_unknown(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    order = UnknownCode(api_key=APIS[step.choice("api")], nth=step.amount("every"))
    return _strike_again(testbed, step, begin, lambda _number: order)


def _strike_again(testbed: Testbed, step: Step, begin: Begin, striking: Striking) -> Heal:
    """A strike is over when it has hit: until the end of the step, the next one is ordered then."""
    assert step.lasts_ms is not None
    brokers = testbed.brokers(step.target)
    begin(names_of(brokers))
    ends_ms = testbed.recorder.now_ms() + step.lasts_ms
    ordered = {broker: _order(striking, testbed, broker, 0) for broker in brokers}
    while testbed.recorder.now_ms() < ends_ms:
        testbed.sleep(LOOK_MS)
        for broker, (number, hits, _strike) in ordered.items():
            if _hits(testbed, broker) > hits:
                ordered[broker] = _order(striking, testbed, broker, number + 1)
    return partial(_call_off, testbed, {broker: order for broker, (_number, _hits, order) in ordered.items()})


def _order(striking: Striking, testbed: Testbed, broker: int, number: int) -> tuple[int, int, Struck]:
    """Which one it is, how many had hit before, and the order itself."""
    order, before = striking(number), _hits(testbed, broker)
    with testbed.proxies_of((broker,)) as proxies:
        proxies[0].tamper(order)
    return number, before, order


def _call_off(testbed: Testbed, orders: Mapping[int, Struck]) -> None:
    for broker, order in orders.items():
        lift(testbed, (broker,), [order])


def _hits(testbed: Testbed, broker: int) -> int:
    with testbed.proxies_of((broker,)) as proxies:
        counts = proxies[0].counts
    return counts.flipped_bits + counts.false_lengths + counts.unknown_codes
