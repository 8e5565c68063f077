"""`scripts/prove independent-checker`: what it plants, how it compares two judges, what it says if one is missing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.testing.invariants import Ledger, check
from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import cache_dir
from proofs.independent_checker.changes import CHANGES, Records
from proofs.independent_checker.comparison import BEYOND, Judged, result, table
from proofs.independent_checker.jepsen import CHECKOUTS, Jepsen, Verdict, missing_in
from proofs.independent_checker.planted import changed_histories
from proofs.independent_checker.prove import judge_both
from proofs.independent_checker.worlds import History, shares
from tests.proofs.small_history import ORDERS, polled, sent, small_history, started

SMALL = History("small", tuple(small_history()))


def test_the_small_history_is_good() -> None:
    assert check(Ledger(list(SMALL.events))) == []


@pytest.mark.parametrize("name", CHANGES)
def test_our_judge_sees_each_change(name: str) -> None:
    changed = CHANGES[name](Records(SMALL.events), random.Random(1))
    assert changed is not None
    assert check(Ledger(changed))


@pytest.mark.parametrize("name", sorted(CHANGES.keys() - {"nowhere"}))
def test_a_history_may_have_no_place_for_a_change(name: str) -> None:
    bare = [started(0, "a"), *sent(1, ORDERS, 0, 1)]
    assert CHANGES[name](Records(bare), random.Random(1)) is None


def test_as_many_changes_as_are_wanted_of_each_kind_in_turn() -> None:
    changed = list(changed_histories([SMALL], len(CHANGES) + 1, seed=1))
    assert [each.name.partition(" in ")[0] for each in changed] == [*CHANGES, next(iter(CHANGES))]


def test_two_changes_of_one_kind_have_two_names() -> None:
    changed = list(changed_histories([SMALL], 2 * len(CHANGES), seed=1))
    assert len({each.name for each in changed}) == 2 * len(CHANGES)


def test_the_same_seed_draws_the_same_changes() -> None:
    first, again, other = (list(changed_histories([SMALL], 16, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_changes_that_have_no_place_come_to_an_end() -> None:
    assert list(changed_histories([History("bare", ())], 3, seed=1)) == []


def test_shares_add_up() -> None:
    assert [sum(shares(wanted).values()) for wanted in (0, 1, 7, 200)] == [0, 1, 7, 200]


def judged(planted: str = "", *, ours: tuple[str, ...] = (), theirs: tuple[str, ...] = ()) -> Judged:
    return Judged(name=f"{planted} in world", planted=planted, ours=ours, theirs=theirs)


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (judged(), None),
        (judged("dropped", ours=("lost-write",), theirs=("lost-write=1",)), None),
        (judged("late-commit", ours=("commit-ahead",)), None),
        (judged(ours=("commit-ahead",)), "nothing is wrong with it"),
        (judged("dropped"), "nobody has seen it"),
        (judged("dropped", ours=("lost-write",)), "the judges differ"),
        (judged("dropped", theirs=("lost-write=1",)), "the judges differ"),
    ],
)
def test_judges_may_differ_only_over_what_operations_do_not_tell(one: Judged, problem: str | None) -> None:
    assert (one.problem or "").endswith(problem or "")
    assert (one.problem is None) == (problem is None)


def test_the_table_counts_verdicts_and_what_was_found() -> None:
    lines = table([judged(), judged("dropped", ours=("lost-write",), theirs=("lost-write=2", "unseen=1"))]).splitlines()
    assert "| 1 good | 1 | 0 | 0 | 0 |" in lines
    assert "| 1 planted | 0 | 1 | 0 | 0 |" in lines
    assert "| dropped | 1 | lost-write 1 | lost-write 1, unseen 1 |" in lines


def test_a_line_of_jepsens_checker_is_a_verdict() -> None:
    line = "/tmp/plain-1.edn\tlost-write=1\tint-send-skip=7,lost-write=1\n"
    assert Verdict.of_line(line) == (
        Path("/tmp/plain-1.edn"),
        Verdict(("lost-write=1",), ("int-send-skip=7", "lost-write=1")),
    )
    assert Verdict.of_line("/tmp/plain-1.edn\t\t\n")[1] == Verdict((), ())


def test_a_missing_checkout_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    for repository, places in CHECKOUTS.items():
        for place in places if repository != "jepsen-io/elle" else ():
            (tmp_path / repository.partition("/")[2] / place).mkdir(parents=True)
    assert missing_in(tmp_path) == ["jepsen-io/elle"]
    with pytest.raises(ClusterError, match=r"git clone .*/jepsen-io/elle, or name another"):
        Jepsen.in_checkouts(tmp_path)


class OnlyLosses(Jepsen):
    """A checker that finds each history bad in which a record of a poll is missing."""

    def __init__(self) -> None:
        self.read: list[Path] = []

    def judge(self, histories: object) -> dict[Path, Verdict]:
        assert isinstance(histories, list)
        self.read = histories
        return {
            path: Verdict(() if '[4 "value0-4"]]}' in path.read_text() else ("lost-write=1",), ()) for path in histories
        }


def test_both_judges_get_the_same_histories(tmp_path: Path) -> None:
    events = [event for event in SMALL.events if event != polled(80, "b", ORDERS, 6)]
    checker = OnlyLosses()
    found = judge_both(checker, [SMALL], [History("dropped in small", tuple(events))], tmp_path)
    assert [each.planted for each in found] == ["", "dropped"]
    assert found[0].ours == ()
    assert set(found[1].ours) == {"lost-write", "poll-skip"}
    assert [path.name for path in checker.read] == ["small.edn", "dropped-in-small.edn"]
    assert all(path.with_suffix(".json").exists() for path in checker.read)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_in(cache_dir() / "jepsen")), reason="no clones of Jepsen's sources in the cache")
def test_jepsens_checker_sees_each_change(tmp_path: Path) -> None:
    bad = list(changed_histories([SMALL], len(CHANGES), seed=1))
    found = judge_both(Jepsen.in_checkouts(cache_dir() / "jepsen"), [SMALL], bad, tmp_path)
    assert [each.problem for each in found if each.problem is not None] == []


def test_evidence_counts_where_the_judges_agree_and_says_where_not() -> None:
    both = judged("dropped", ours=("lost-write",), theirs=("lost-write=1",))
    found = result([judged(), both, judged("late", ours=("commit-ahead",))], date="2026-11-26", versions={"kwire": "a"})
    assert [figure.value for figure in found.figures] == ["2 of 3 histories", "1 of 1", "1 of 2", "2 of 2"]
    assert next(each.why for each in found.not_met) == BEYOND


def test_the_checkers_versions_are_those_of_its_sources(tmp_path: Path) -> None:
    for file, version in (("jepsen/jepsen/project.clj", "0.3.14-SNAPSHOT"), ("elle/project.clj", "0.2.8")):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(f'(defproject it/name "{version}"\n  :url "x")')
    assert Jepsen.versions_in(tmp_path) == {"Jepsen": "0.3.14-SNAPSHOT", "Elle": "0.2.8"}
