"""Groups that go on whatever happens in them: a short version of `scripts/prove rebalances`.

How long a partition may be silent is judged by the proof, on a machine with nothing else to do. Here it is judged
that nothing gets stuck, nothing is lost, nothing comes twice, and no member is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proofs.group import TIMEOUT_S, Group
from proofs.rebalances import prove_rebalances

if TYPE_CHECKING:
    from tests.integration.kafkas import SharedKafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.only("kafka", reason="the other goes through this in simulated worlds, for hours of their time"),
]

REBALANCES = 5


@pytest.mark.parametrize("group", Group)
def test_rebalances_in_a_row_while_records_flow(kafka: SharedKafka, group: Group) -> None:
    outcome = prove_rebalances(kafka.bootstrap_servers, group, REBALANCES, promised_s=TIMEOUT_S)
    assert outcome.broken == []
    assert len(outcome.silences_s) == REBALANCES
    assert outcome.produced > 0
