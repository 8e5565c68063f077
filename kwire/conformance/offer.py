"""The offer of a cluster, which decides what is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.protocol.registry import BrokerVersions


class Feature(NamedTuple):
    """A feature of the cluster and the level that it has to be finalized at (KIP-584)."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class BrokerOffer:
    """The broker's APIs, and the cluster's finalized features by name."""

    versions: BrokerVersions
    features: Mapping[str, int]

    def lacks(self, feature: Feature | None) -> str:
        """The reason why a check that needs the feature cannot run; empty if it can."""
        if feature is None or self.features.get(feature.name, 0) >= feature.level:
            return ""
        return f"the cluster has switched it off: a check needs {feature.name}={feature.level}"
