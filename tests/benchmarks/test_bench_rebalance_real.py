"""`scripts/bench rebalance` with real processes: it times what a real broker does to a group of kwire's members."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from benchmarks.rebalance import measure as rebalance
from benchmarks.rebalance.flow import Flow
from benchmarks.rebalance.group import PARTITIONS, python_member
from benchmarks.rebalance.measure import SETTINGS, ExclusiveTurn, SettingRun, run_together, tapped_cluster
from benchmarks.rebalance.report import EVENTS, OWN
from benchmarks.rebalance.tap import Tap

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.slow]

HEARTBEAT_MS = 100
SESSION_MS = 3_000


def test_every_event_is_timed_and_the_members_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "SESSION_MS", SESSION_MS)
    monkeypatch.setattr(rebalance, "PARTICIPANTS", (OWN,))
    setting = dataclasses.replace(SETTINGS[-1], heartbeat_ms=HEARTBEAT_MS)
    with (
        Tap() as tap,
        tapped_cluster(tap, tmp_path) as kafka,
        Flow(kafka.bootstrap_servers, PARTITIONS) as flow,
    ):
        exclusive_turn = ExclusiveTurn()
        commands = {OWN: python_member(OWN)}
        run = SettingRun(setting, commands, kafka.bootstrap_servers, flow, tap, exclusive_turn, tmp_path)
        results = run_together([run], exclusive_turn, rounds=1)
    assert [result.event for result in results] == list(EVENTS)
    for result in results:
        assert result.failures == ()
        (took_ms,) = result.timed_ms
        (left_ms,) = result.left_ms
        assert left_ms is not None
        assert left_ms <= HEARTBEAT_MS
        # Nobody can know of a death before the session is over.
        assert took_ms > (SESSION_MS - HEARTBEAT_MS if result.event == "kill" else 0)
    logged = {log.name.rsplit("-", 1)[1] for log in tmp_path.glob("bench-kwire-*.log")}
    assert logged == {"first.log", "second.log", "victim.log", "joiner.log"}
    assert "consumer group JOINING --TARGET_RECEIVED--> RECONCILING" in next(tmp_path.glob("*joiner.log")).read_text()
