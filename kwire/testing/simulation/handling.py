"""How members with a `Processor` handle records: drawn from the seed, separately from the scenario.

What a record is like is told by its value, so that it is the same for each member: its key, and whether it can be
handled at all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, TypeAlias

Order: TypeAlias = Literal["partition", "key", "none"]

VALUE = "value"
# Not a multiple of how many keys there are.
_KEYLESS_EACH = 11
_POISONED_EACH = 41
# How long one record takes in calm; the others must not wait for it.
SLOW_MS = 6_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """What members with a `Processor` do with records.

    Args:
        on_tasks: whether an executor calls the handler, and not the processor's own threads.
        in_background: whether the processor runs in a thread of its own, as in a `with` block.
        handling_ms: what a record takes, at most; a share of `slow` takes seconds.
        failing: the share of attempts that fail, for no reason.
        has_poison: whether some records cannot be handled at all.
        buries: whether these go to a dead letter; else they are skipped.
        restarts_ms: how long a processor runs before the member stops it and makes another one, at most; 0 for ever.
        async_revocation: whether what is revoked may be held back while the rest goes on (KIP-983).
    """

    order: Order
    workers: int
    on_tasks: bool
    in_background: bool
    commit_interval: float
    offset_map: bool
    most_records: int
    keys: int
    handling_ms: float
    slow: float
    failing: float
    has_poison: bool
    buries: bool
    restarts_ms: float
    async_revocation: bool

    def key_of(self, value: str) -> bytes | None:
        number = number_of(value)
        return None if number % _KEYLESS_EACH == 0 else b"key%d" % (number % self.keys)

    def is_poisoned(self, value: str) -> bool:
        return self.has_poison and number_of(value) % _POISONED_EACH == 0

    def lane_of(self, partition: int, key: bytes | None) -> str | None:
        """What keeps its order, of records with this key: the name of a lane, within its topic."""
        if self.order == "partition":
            return f"{partition}"
        return None if key is None or self.order == "none" else f"{partition}/{key.decode()}"


def draw_handling(seed: int) -> Handling:
    """The handling for a seed."""
    rng = random.Random(f"handling {seed}")
    return Handling(
        order=rng.choice(("partition", "key", "key", "none")),
        workers=rng.choice((1, 2, 4, 16)),
        on_tasks=rng.random() < 0.4,
        in_background=rng.random() < 0.4,
        commit_interval=rng.choice((0.2, 1.0, 5.0)),
        offset_map=rng.random() < 0.7,
        most_records=rng.choice((10, 60, 10_000)),
        keys=rng.choice((2, 7, 50)),
        handling_ms=rng.choice((0.0, 2.0, 20.0, 100.0)),
        slow=rng.choice((0.0, 0.01, 0.03)),
        failing=rng.choice((0.0, 0.02, 0.2)),
        has_poison=rng.random() < 0.3,
        buries=rng.random() < 0.5,
        restarts_ms=rng.choice((0.0, 0.0, 10_000.0)),
        async_revocation=rng.random() < 0.4,
    )


def number_of(value: str) -> int:
    return int(value.removeprefix(VALUE))
