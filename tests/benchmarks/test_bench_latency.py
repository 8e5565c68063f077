"""`scripts/bench latency`: what its worker takes for an answer, how its figures are paired, and a run against Kafka."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import cli as benchmarks_cli
from benchmarks import latency
from benchmarks.consumer_worker import Reader, Watched, partitions_of, percentile
from benchmarks.feed import values
from benchmarks.throughput.turn import WrongAnswerError
from benchmarks.turns import Figures, Target, print_table, ratio, run_worker, take_turns

Row = tuple[str, int, int, bytes]


class Given(Reader):
    """A consumer that hands out what it was given."""

    def __init__(self, *polls: Sequence[Row]) -> None:
        self._polls = list(polls)

    def read(self) -> Sequence[Row]:
        return self._polls.pop(0)

    def read_values(self) -> int:
        return len(self.read())

    def close(self) -> None:
        pass


def figures(participant: str, *rounds: float) -> Figures:
    return Figures(case="case", name="p50_ms", participant=participant, rounds=rounds)


def test_a_record_that_is_missing_or_comes_twice_ends_the_turn() -> None:
    rows = [("t", 0, 5, b""), ("t", 1, 9, b""), ("t", 0, 6, b"")]
    reader = Watched(Given(rows, [("t", 0, 8, b"")]))
    assert reader.read() == rows
    assert reader.count == 3
    with pytest.raises(SystemExit, match="t-0: offset 8 instead of 7"):
        reader.read()
    again = Watched(Given(rows, [("t", 1, 9, b"")]))
    again.read()
    with pytest.raises(SystemExit, match="t-1: offset 9 instead of 10"):
        again.read()


def test_empty_polls_are_waited_out() -> None:
    polls: list[list[Row]] = [[], [], [("t", 0, 0, b"")]]
    assert Watched(Given(*polls)).read_some() == polls[-1]
    reader = Watched(Given(*polls))
    assert reader.read_some_values() == reader.count == 1


def test_percentiles_are_of_what_there_is() -> None:
    ordered = list(range(1, 201))
    assert (percentile(ordered, 0.5), percentile(ordered, 0.99), percentile([7], 0.99)) == (101, 199, 7)


def test_each_record_says_when_it_was_made() -> None:
    made = values(100)
    first, second = next(made), next(made)
    assert len(first) == len(second) == 100
    assert int.from_bytes(first[:8], "big") <= int.from_bytes(second[:8], "big")
    assert partitions_of("a,b", 2) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_ratios_are_taken_round_by_round() -> None:
    # The machine was slow in the second round, for both: the ratio of the medians would say 1.5.
    assert ratio(figures("kwire", 2.0, 30.0, 3.0), figures("other", 1.0, 20.0, 2.0)) == 1.5
    assert ratio(figures("kwire", 1.0), figures("other", 0.0)) == float("inf")


def test_participants_take_turns() -> None:
    order: list[str] = []

    def turn(name: str) -> dict[str, float]:
        order.append(name)
        return {"p50_ms": len(order), "records": 1}

    results = take_turns("case", 2, {"A": lambda: turn("A"), "B": lambda: turn("B")})
    assert order == ["A", "B", "A", "B"]
    assert [(each.name, each.participant, each.rounds) for each in results] == [
        ("p50_ms", "A", (1, 3)),
        ("p50_ms", "B", (2, 4)),
        ("records", "A", (1, 1)),
        ("records", "B", (1, 1)),
    ]


def test_a_target_is_told_met_or_missed() -> None:
    results = [figures("kwire", 2.0, 2.2), figures("other", 2.0, 2.0)]
    at_most = Target(case="case", figure="p50_ms", limit=1.1, to="other")
    at_least = Target(case="case", figure="p50_ms", limit=3.0, at_least=True)
    assert at_most.verdict(results) == "met    case: p50_ms of kwire is 1.05, wanted at most 1.1 times other"
    assert at_least.verdict(results) == "MISSED case: p50_ms of kwire is 2.1, wanted at least 3"
    text = io.StringIO()
    print_table(results, [at_most], Console(file=text, width=120))
    assert "0.95" in text.getvalue()  # the other's, times the first one's
    assert "met    case" in text.getvalue()


EACH = ("kwire", latency.PEER, latency.ASYNC, latency.ASYNC_PEER)


def test_a_worker_that_fails_says_why() -> None:
    with pytest.raises(WrongAnswerError, match="nobody is called 'nobody'"):
        run_worker("latency", "nobody", servers="", topics="t", partitions=1)


def test_a_missed_target_is_no_failure_and_a_wrong_answer_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [
        Figures(case=latency.CASE, name=name, participant=participant, rounds=(took_ms,))
        for name in ("p50_ms", "p99_ms")
        for participant, took_ms in zip(EACH, (9.0, 1.0, 1.0, 1.0), strict=True)
    ]
    monkeypatch.setattr(latency, "run", lambda **options: results)
    out = tmp_path / "out.json"
    assert benchmarks_cli.main(["latency", "--json", str(out)]) == 0
    assert "MISSED 1,000 records/s: p99_ms of kwire is 9" in capsys.readouterr().out
    assert [row["median"] for row in json.loads(out.read_text())["results"]] == 2 * [9.0, 1.0, 1.0, 1.0]

    def run(**options: object) -> list[Figures]:
        raise WrongAnswerError("kwire missed a record")

    monkeypatch.setattr(latency, "run", run)
    assert benchmarks_cli.main(["latency"]) == 1
    assert "kwire missed a record" in capsys.readouterr().err


@pytest.mark.integration
@pytest.mark.slow
def test_records_of_a_real_broker_are_timed() -> None:
    results = latency.run(rounds=1, seconds=2, participants=EACH)
    found = {(each.name, each.participant): each.median for each in results}
    for participant in EACH:
        assert 0 < found["p50_ms", participant] <= found["p99_ms", participant]
        assert found["records", participant] > 40, "of 2,000, on a machine that has time"
