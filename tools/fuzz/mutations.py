"""Ways to damage bytes: what `cli.py` does to good ones. Everything follows from the random generator given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

# What lengths, counts and varints are sensitive to: zero, minus one, the ends of the types, many continuation bits.
NUMBERS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\x00\x00",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff",
    b"\x00\x00\x00\x00",
    b"\x00\x00\x10\x00",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
)
MAX_BITS = 8
MAX_INSERTED_BYTES = 40


def flip_bits(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A few bits anywhere."""
    del other
    found = bytearray(data)
    for _ in range(rng.randint(1, MAX_BITS) if found else 0):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def truncate(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Cut at the end, as an answer that stopped; at times at the front too."""
    del other
    start = rng.randrange(len(data) + 1) if rng.random() < 0.1 else 0
    return data[start : rng.randint(start, len(data))]


def insert(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Random bytes in between, or one byte many times."""
    del other
    at, size = rng.randint(0, len(data)), rng.randint(1, MAX_INSERTED_BYTES)
    added = rng.randbytes(size) if rng.random() < 0.5 else rng.randbytes(1) * size
    return data[:at] + added + data[at:]


def edit_length(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A number that matters, written over whatever stands there: sooner or later that is a length or a count."""
    del other
    at, number = rng.randint(0, len(data)), rng.choice(NUMBERS)
    return data[:at] + number + data[at + len(number) :]


def splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """The front of one, the back of another."""
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


MUTATIONS: Sequence[Callable[[bytes, bytes, random.Random], bytes]] = (
    flip_bits,
    truncate,
    insert,
    edit_length,
    splice,
)


def mutate(data: bytes, other: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Damage `data` in one way, at times in two; answers the bytes and the way's name."""
    mutation = rng.choice(MUTATIONS)
    damaged = mutation(data, other, rng)
    if rng.random() < 0.25:
        damaged = rng.choice(MUTATIONS)(damaged, other, rng)
    return damaged, mutation.__name__
