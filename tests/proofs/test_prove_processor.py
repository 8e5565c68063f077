"""`scripts/prove processor`: what its judge finds, and a short run on a cluster in the process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire.testing import Cluster
from proofs.processor import prove as prove_processor
from proofs.processor.members import Sent, Story, judge


def story(*lines: tuple[int, str, str, str]) -> Story:
    """Of three records of one key; each line has a time, a member, what it did, and a value."""
    made = Story()
    for offset in range(3):
        made.acknowledge(f"value{offset}", Sent(0, offset, "k"))
    for at_ms, member, what, value in lines:
        made.tell(member, json.dumps({"timestamp": at_ms, "name": f"record_{what}", "value": value}))
    return made


def test_all_in_order() -> None:
    told = story(
        *((at, "a", what, f"value{n}") for n in range(3) for at, what in ((2 * n, "begun"), (2 * n + 1, "handled")))
    )
    verdict = judge(told, by_key=True)
    assert (verdict.out_of_order, verdict.overlapping, verdict.unexplained) == ([], [], [])
    assert (verdict.unfinished, verdict.uncommitted) == (0, 0)
    assert not told.missing()


def test_what_overtakes_is_found() -> None:
    verdict = judge(story((0, "a", "begun", "value0"), (1, "a", "begun", "value1")), by_key=True)
    assert verdict.out_of_order == ["a began value1 before value0"]


def test_what_runs_again_has_a_reason_or_none() -> None:
    begun_twice = ((0, "a", "begun", "value0"), (9, "b", "begun", "value0"))
    assert judge(story(*begun_twice), by_key=True).unfinished == 1
    handled = story(begun_twice[0], (1, "a", "handled", "value0"), begun_twice[1])
    assert judge(handled, by_key=True).uncommitted == 1
    handled.closed.add("a")
    assert judge(handled, by_key=True).unexplained == ["b began value0 again, which a had had"]


def test_two_at_once_are_found() -> None:
    told = story((0, "a", "begun", "value0"), (9, "b", "begun", "value0"))
    told.closed.add("a")
    assert judge(told, by_key=False).overlapping == ["b began value0 while a had one of its queue"]


@pytest.mark.slow
def test_a_short_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(prove_processor, "KILLED_RECORDS", 300)
    monkeypatch.setattr(prove_processor, "KILLED_AFTER", 60)
    monkeypatch.setattr(prove_processor, "KILLED_EACH_MS", 10)
    with Cluster(brokers=1) as cluster:
        broken = prove_processor.prove_killed(cluster.bootstrap_servers, tmp_path, in_processes=False, offset_map=True)
    assert broken == []
    assert "lost 0" in capsys.readouterr().out
