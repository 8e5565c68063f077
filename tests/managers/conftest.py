"""Makes scenarios. Test folders are no packages: at run time pytest finds `scenario.py` beside this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.managers.scenario import Scenario, all_at_rest
else:
    from scenario import Scenario, all_at_rest


@pytest.fixture
def make_scenario() -> Iterator[Callable[..., Scenario]]:
    """Makes scenarios with the settings it is given; at the end of the test none of them may spin."""
    with all_at_rest(Scenario) as make:
        yield make


@pytest.fixture
def scenario(make_scenario: Callable[..., Scenario]) -> Scenario:
    """A consumer of group "billing" without auto-commit, on a cluster with `orders-0` and `orders-1`."""
    return make_scenario()
