"""The violation of an invariant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A breach of an invariant.

    Args:
        rule: which invariant, in a word or two: `lost-write`, `one-owner`.
        at_ms: when it was there to be seen.
    """

    rule: str
    at_ms: float
    what: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.at_ms / 1000:.3f} s: {self.what}"
