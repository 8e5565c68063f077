"""What befalls bytes between a client and a broker, as one value. The network asks for it at every chunk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """The state of a network: slow, sliced, damaged.

    Args:
        extra_latency_ms: chunks take up to this much longer.
        slice_bytes: at most this many bytes arrive at once.
        share_damaged: how many of the chunks have a bit flipped.
        holds: nothing arrives until it clears up, and then everything does: a short partition.
        swallows: nothing arrives, ever, and nobody is told: a half-open connection.
        refuses: new connections are refused.
    """

    extra_latency_ms: float = 0.0
    slice_bytes: int | None = None
    share_damaged: float = 0.0
    holds: bool = False
    swallows: bool = False
    refuses: bool = False

    @property
    def stops_dialling(self) -> bool:
        return self.holds or self.swallows

    def worsened_by(self, other: Weather) -> Weather:
        slices = [size for size in (self.slice_bytes, other.slice_bytes) if size is not None]
        return Weather(
            extra_latency_ms=self.extra_latency_ms + other.extra_latency_ms,
            slice_bytes=min(slices, default=None),
            share_damaged=max(self.share_damaged, other.share_damaged),
            holds=self.holds or other.holds,
            swallows=self.swallows or other.swallows,
            refuses=self.refuses or other.refuses,
        )


CALM = Weather()
