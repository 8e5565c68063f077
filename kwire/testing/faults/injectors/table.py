"""Every fault of the catalogue by its name, as it is carried out."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.testing.faults.injectors import brokers, members, network, permissions, topics
from kwire.testing.faults.injectors.injector import Injector

INJECTORS: Mapping[str, Injector] = {
    **brokers.INJECTORS,
    **network.INJECTORS,
    **members.INJECTORS,
    **topics.INJECTORS,
    **permissions.INJECTORS,
}
