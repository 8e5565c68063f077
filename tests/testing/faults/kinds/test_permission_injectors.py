"""Strikes on permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.testing.faults.catalogue import faults_in
from kwire.testing.faults.kinds import permissions
from kwire.testing.faults.targets import OneTopic, Target, WholeGroup

if TYPE_CHECKING:
    from tests.testing.faults.kinds.recording_testbed import Struck
else:
    from recording_testbed import Struck

STRUCK = {"topic-forbidden": (OneTopic("orders"), "topic orders"), "group-forbidden": (WholeGroup(), "group faults")}


@pytest.mark.parametrize(("fault", "target", "forbidden"), [(fault, *what) for fault, what in STRUCK.items()])
def test_what_is_forbidden_is_allowed_again(fault: str, target: Target, forbidden: str) -> None:
    struck = Struck()
    heal = struck.strike(fault, target)
    assert struck.admin.permissions.forbidden == {forbidden}
    heal()
    assert not struck.admin.permissions.forbidden


def test_this_file_has_every_fault_of_permissions() -> None:
    assert STRUCK.keys() == {each.kind.name for each in faults_in(permissions)}
