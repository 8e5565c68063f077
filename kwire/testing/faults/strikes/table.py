"""Every fault of the catalogue by its name, as it is carried out."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.testing.faults.strikes import brokers, members, network, permissions, topics
from kwire.testing.faults.strikes.strike import Strike

STRIKES: Mapping[str, Strike] = {
    **brokers.STRIKES,
    **network.STRIKES,
    **members.STRIKES,
    **topics.STRIKES,
    **permissions.STRIKES,
}
