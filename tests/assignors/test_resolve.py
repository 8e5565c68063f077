"""Assignors are found by the names groups use."""

from __future__ import annotations

import pytest

from kwire.assignors import ASSIGNORS, resolve
from kwire.errors import ConfigError


def test_names_are_resolved_in_order_of_preference() -> None:
    assert [assignor.name for assignor in resolve(["range"])] == ["range"]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no assignor 'rnage'; valid for partition_assignment_strategy: 'range'"):
        resolve(["rnage"])


def test_each_assignor_is_listed_under_its_own_name() -> None:
    assert all(name == assignor.name for name, assignor in ASSIGNORS.items())
