"""Assignors are found by the names groups use."""

from __future__ import annotations

import pytest

from kwire.assignors import (
    ASSIGNORS,
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    StickyAssignor,
    rebalance_protocol,
    resolve,
)
from kwire.errors import ConfigError


def test_names_are_resolved_in_order_of_preference() -> None:
    assert [assignor.name for assignor in resolve(["range"])] == ["range"]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no assignor 'rnage'; valid for partition_assignment_strategy: 'range'"):
        resolve(["rnage"])


def test_each_assignor_is_listed_under_its_own_name() -> None:
    assert all(name == assignor.name for name, assignor in ASSIGNORS.items())


def test_assignors_that_can_all_cooperate_do() -> None:
    assert rebalance_protocol([CooperativeStickyAssignor()]) is RebalanceProtocol.COOPERATIVE


def test_one_eager_assignor_makes_the_group_eager() -> None:
    together = [CooperativeStickyAssignor(), RangeAssignor(), StickyAssignor()]
    assert rebalance_protocol(together) is RebalanceProtocol.EAGER


def test_assignors_without_a_common_protocol_are_refused() -> None:
    class OnlyCooperative(CooperativeStickyAssignor):
        name = "mine"
        protocols = (RebalanceProtocol.COOPERATIVE,)

    with pytest.raises(ConfigError, match=r"share no rebalance protocol.*mine \(cooperative\), range \(eager\)"):
        rebalance_protocol([OnlyCooperative(), RangeAssignor()])
