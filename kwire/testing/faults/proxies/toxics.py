"""Toxiproxy's toxics as values, with the units in their names. Sent by `toxiproxy`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from kwire.errors import InvalidArgumentError
from kwire.testing.faults.proxies.stream import Stream

Json: TypeAlias = Mapping[str, "Json"] | list["Json"] | str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """What all have: the way of the bytes it works on, and the share of connections that get it, from 0 to 1."""

    kind: ClassVar[str]
    attributes: ClassVar[tuple[tuple[str, str], ...]]  # toxiproxy's names, and ours
    stream: Stream = Stream.DOWNSTREAM
    toxicity: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.toxicity <= 1:
            raise InvalidArgumentError(f"toxicity is a share from 0 to 1, not {self.toxicity:g}")
        for _, own in self.attributes:
            if getattr(self, own) < 0:
                raise InvalidArgumentError(f"{own} of {self.kind} cannot be negative: {getattr(self, own)}")

    def described(self) -> dict[str, Json]:
        """For toxiproxy."""
        return {
            "type": self.kind,
            "stream": self.stream.value,
            "toxicity": self.toxicity,
            "attributes": {name: getattr(self, own) for name, own in self.attributes},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Toxic):
    """Bytes come later, in order: by `latency_ms`, give or take the jitter."""

    kind = "latency"
    attributes = (
        ("latency", "latency_ms"),
        ("jitter", "jitter_ms"),
    )
    latency_ms: int
    jitter_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth(Toxic):
    """No more than this passes."""

    kind = "bandwidth"
    attributes = (("rate", "rate_kb_per_s"),)
    rate_kb_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowClose(Toxic):
    """The end of a connection comes later."""

    kind = "slow_close"
    attributes = (("delay", "delay_ms"),)
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout(Toxic):
    """Bytes are dropped; the connection ends after a time, with 0 only when the toxic is removed."""

    kind = "timeout"
    attributes = (("timeout", "timeout_ms"),)
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPeer(Toxic):
    """The first bytes that come have the connection reset, after a time."""

    kind = "reset_peer"
    attributes = (("timeout", "timeout_ms"),)
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicer(Toxic):
    """Bytes come in small pieces, with a pause after each. The variation has to be less than the average."""

    kind = "slicer"
    attributes = (
        ("average_size", "average_size_bytes"),
        ("size_variation", "size_variation_bytes"),
        ("delay", "delay_us"),
    )
    average_size_bytes: int
    size_variation_bytes: int = 0
    delay_us: int = 0

    def __post_init__(self) -> None:
        Toxic.__post_init__(self)
        if self.size_variation_bytes >= self.average_size_bytes:
            raise InvalidArgumentError(
                f"slices of {self.average_size_bytes} bytes cannot vary by {self.size_variation_bytes}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitData(Toxic):
    """The connection ends after this many bytes."""

    kind = "limit_data"
    attributes = (("bytes", "limit_bytes"),)
    limit_bytes: int
