"""`scripts/simulate`: seeds in, a summary and a digest out, and a story with a replay command for each failure."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tools.simulate import cli as simulate_cli
from tools.simulate.totals import Report, Totals


def a_report(seed: int, *violations: str, story: str = "", digest: str | None = None) -> Report:
    return Report(
        seed=seed,
        digest=digest or f"digest{seed}",
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
    monkeypatch.setattr(simulate_cli, "reports", lambda _arguments: iter([failed]))
    assert simulate_cli.main(["--processor", "--seeds", "7"]) == 1
    assert "replay: scripts/simulate --processor --seeds 7 --story" in capsys.readouterr().out
    monkeypatch.setattr(simulate_cli, "reports", lambda _arguments: iter([failed]))
    assert simulate_cli.main(["--user-faults", "--seeds", "7"]) == 1
    assert "replay: scripts/simulate --user-faults --seeds 7 --story" in capsys.readouterr().out


def test_a_world_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(_seed: int, _only: object, **_kinds: bool) -> None:
        raise ValueError("as it should")

    monkeypatch.setattr(simulate_cli, "simulate", simulate)
    report = simulate_cli.report(7, None, tell=False, digest=False)
    assert report.violations == ("the world broke: ValueError('as it should')",)
    assert "Traceback" in report.story


def test_runs_of_a_seed_that_differ_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [a_report(7, digest=digest) for digest in ("a", "b", "a")]
    monkeypatch.setattr(simulate_cli, "reports", lambda _arguments: iter(runs))
    assert simulate_cli.main(["--seeds", "7", "--repeat", "3"]) == 1
    assert "seed 7: not the same run each time: a (2 times), b (1 times)\n" in capsys.readouterr().out
    monkeypatch.setattr(simulate_cli, "reports", lambda _arguments: iter(runs[:1] * 3))
    assert simulate_cli.main(["--seeds", "7", "--repeat", "3"]) == 0


def test_each_seed_comes_as_often_as_it_is_to_be_repeated() -> None:
    assert list(simulate_cli.wanted(simulate_cli.parse(["--seeds", "7-8", "--repeat", "2"]))) == [7, 7, 8, 8]
    assert list(simulate_cli.wanted(simulate_cli.parse(["--seeds", "7-8", "--seconds", "0"]))) == []
    with pytest.raises(SystemExit):
        simulate_cli.parse(["--repeat", "0"])


def test_an_interrupted_run_tells_what_it_has_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(_arguments: object) -> Iterator[Report]:
        yield a_report(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate_cli, "reports", interrupted)
    assert simulate_cli.main(["--json", str(tmp_path / "totals.json")]) == 130
    assert "1 worlds, 1.00 simulated hours" in capsys.readouterr().out
    told = json.loads((tmp_path / "totals.json").read_text())
    assert (told["worlds"], told["is_interrupted"], told["faults"]) == (1, True, {"storm": 2})


def test_totals_say_how_fast_it_went() -> None:
    now = [100.0]
    totals = Totals(now=lambda: now[0])
    for seed in (1, 2, 3):
        totals.add(a_report(seed))
    now[0] += 6.0
    assert totals.progress() == "3 worlds, 3.0 hours, 0.50 worlds/s, 0 failed"
    assert "30 events, 6 faults, 6.0 s, 0.50 worlds a second" in list(totals.lines())
    totals.add(a_report(4, "lost"))
    assert totals.as_json()["failed_seeds"] == [4]


@pytest.mark.slow
def test_one_world_for_real() -> None:
    report = simulate_cli.report(18, (), tell=True, digest=True)
    assert report.violations == ()
    assert report.simulated_ms > 30_000
    assert report.story.startswith("seed 18: ")
    assert report.digest == simulate_cli.report(18, (), tell=False, digest=True).digest


@pytest.mark.slow
def test_one_world_with_processors_for_real() -> None:
    report = simulate_cli.report(10, (), processing=True, tell=True, digest=True)
    assert report.violations == ()
    assert "is through with" in report.story


def test_records_are_added_up_where_worlds_count_them() -> None:
    totals = Totals()
    for again in (0, 2):
        totals.add(replace(a_report(1), records=Counter({"written": 5, "again": again, "lost": 0})))
    assert "records: 10 written, 2 again, 0 lost" in totals.lines()
    assert totals.as_json()["records"] == {"written": 10, "again": 2, "lost": 0}
