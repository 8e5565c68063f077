"""`scripts/simulate`: seeds in, a summary and a digest out, and a story with a replay command for each failure."""

from __future__ import annotations

import argparse
from collections import Counter

import pytest
import simulate_cli
from simulate_cli import Report


def a_report(seed: int, *violations: str, story: str = "") -> Report:
    return Report(
        seed=seed,
        digest=f"digest{seed}",
        simulated_ms=3_600_000.0,
        faults=Counter({"storm": 2}),
        events=10,
        violations=violations,
        story=story,
    )


@pytest.mark.parametrize(("text", "seeds"), [("7", range(7, 8)), ("3-5", range(3, 6))])
def test_seeds_are_one_or_a_range(text: str, seeds: range) -> None:
    assert simulate_cli.seed_range(text) == seeds


def test_what_is_no_seed_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="neither a seed nor a range"):
        simulate_cli.seed_range("some")


def test_a_good_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(simulate_cli, "reports", lambda _arguments: iter([a_report(1), a_report(2)]))
    assert simulate_cli.main(["--seeds", "1-2", "--hash"]) == 0
    printed = capsys.readouterr().out
    assert "seed 1: digest1\nseed 2: digest2\n" in printed
    assert "4 storm" in printed
    assert "2 worlds, 2.00 simulated hours" in printed
    assert printed.endswith("nothing found\n")


def test_a_failure_comes_with_its_story_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = a_report(7, "lost-write at 1.000 s: t-0", story="it was a dark night")
    monkeypatch.setattr(simulate_cli, "reports", lambda _arguments: iter([failed]))
    assert simulate_cli.main(["--seeds", "7", "--only", "storm,refused"]) == 1
    printed = capsys.readouterr().out
    assert "it was a dark night\n" in printed
    assert "replay: scripts/simulate --seeds 7 --only storm,refused --story" in printed
    assert "1 failed" in printed


def test_a_world_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(_seed: int, _only: object) -> None:
        raise ValueError("as it should")

    monkeypatch.setattr(simulate_cli, "simulate", simulate)
    report = simulate_cli.report(7, None, tell=False)
    assert report.violations == ("the world broke: ValueError('as it should')",)
    assert "Traceback" in report.story


@pytest.mark.slow
def test_one_world_for_real() -> None:
    report = simulate_cli.report(18, (), tell=True)
    assert report.violations == ()
    assert report.simulated_ms > 30_000
    assert report.story.startswith("seed 18: 2 brokers")
    assert report.digest == simulate_cli.report(18, (), tell=False).digest
