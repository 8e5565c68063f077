"""What a soak judges by: which offsets were read, whether a figure grows, and what a member tells."""

from __future__ import annotations

import json
import random
import ssl
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from proofs.soak.coverage import Coverage, runs_of
from proofs.soak.faults import Faults, Strike, pause_s
from proofs.soak.member import Report
from proofs.soak.picture import draw
from proofs.soak.slopes import FIGURES, HOUR_S, Figure, Point, judge, slope_per_hour, thinned
from proofs.soak.soak import Outcome, Plan, claim, evidence, problems, table
from proofs.soak.writer import sent_at_ns, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MINUTE_S = 60.0
MEMORY = next(figure for figure in FIGURES if figure.name == "memory")
LATENCY = next(figure for figure in FIGURES if figure.name == "latency p50")


def minutes(value_at: Callable[[float], float], count: int = 120) -> list[Point]:
    """A point each minute; `value_at` is given the hour."""
    return [Point(n * MINUTE_S, value_at(n * MINUTE_S / HOUR_S)) for n in range(count)]


# --- coverage ------------------------------------------------------------------------------------------------------


def test_offsets_in_any_order_make_runs_and_what_came_twice_makes_another() -> None:
    assert runs_of([4, 2, 3, 9]) == [(2, 5), (9, 10)]
    assert runs_of([1, 2, 2, 3]) == [(1, 4), (2, 3)]


def test_a_hole_is_missing_until_somebody_reads_it() -> None:
    coverage = Coverage()
    coverage.add(0, 10)
    coverage.add(20, 30)
    assert coverage.missing(35) == [(10, 20), (30, 35)]
    assert coverage.read_up_to == 10
    coverage.add(10, 20)
    assert coverage.missing(30) == []
    assert coverage.read_up_to == 30


def test_what_was_not_read_from_the_beginning_is_missing_there() -> None:
    coverage = Coverage()
    coverage.add(5, 8)
    assert coverage.read_up_to == 0
    assert coverage.missing(8) == [(0, 5)]


def test_nothing_read_is_all_missing() -> None:
    assert Coverage().missing(3) == [(0, 3)]
    assert Coverage().missing(0) == []


@pytest.mark.parametrize("seed", range(20))
def test_coverage_agrees_with_sets(seed: int) -> None:
    chance, coverage = random.Random(seed), Coverage()
    seen: set[int] = set()
    again = 0
    for _ in range(60):
        first = chance.randrange(200)
        end = first + chance.randint(1, 12)
        again += len(seen & set(range(first, end)))
        seen |= set(range(first, end))
        coverage.add(first, end)
    missing = {offset for begin, stop in coverage.missing(250) for offset in range(begin, stop)}
    assert missing == set(range(250)) - seen
    assert coverage.again == again


# --- slopes --------------------------------------------------------------------------------------------------------


def test_a_slope_is_of_an_hour() -> None:
    assert slope_per_hour(minutes(lambda hour: 50 + 3 * hour)) == pytest.approx(3.0)


def test_a_few_wild_points_do_not_move_a_slope() -> None:
    chance = random.Random(1)
    points = [Point(p.at_s, p.value * 9) if chance.random() < 0.1 else p for p in minutes(lambda hour: 50 + hour)]
    assert slope_per_hour(points) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(("grows_by", "is_broken"), [(1.0, False), (5.0, True), (-5.0, False)])
def test_memory_may_grow_by_little(grows_by: float, is_broken: bool) -> None:
    verdict = judge("sync", MEMORY, minutes(lambda hour: 60 + grows_by * hour), (), from_s=0)
    assert verdict is not None
    assert verdict.is_broken is is_broken


def test_what_came_before_it_was_warm_does_not_count() -> None:
    points = minutes(lambda hour: min(60.0, 600 * hour))
    verdict = judge("sync", MEMORY, points, (), from_s=600)
    assert verdict is not None
    assert verdict.per_hour == pytest.approx(0.0)


def test_a_machine_that_becomes_slower_for_all_is_no_slope() -> None:
    slower = minutes(lambda hour: 5 + 5 * hour)
    control = minutes(lambda hour: 2 + 2 * hour)
    verdict = judge("sync", LATENCY, slower, control, from_s=0)
    assert verdict is not None
    assert not verdict.is_broken
    alone = judge("sync", LATENCY, slower, minutes(lambda _: 2.0), from_s=0)
    assert alone is not None
    assert alone.is_broken


def test_too_little_is_not_judged() -> None:
    assert judge("sync", MEMORY, minutes(lambda _: 60.0, count=2), (), from_s=0) is None


def test_neighbours_become_their_middle_where_there_are_many() -> None:
    thin = thinned(minutes(lambda hour: hour, count=4_000))
    assert len(thin) == 400
    assert slope_per_hour(thin) == pytest.approx(1.0)


# --- records -------------------------------------------------------------------------------------------------------


def test_a_value_tells_when_it_was_made_unless_it_was_changed() -> None:
    value = value_of(1_234, 60, random.Random(1))
    assert sent_at_ns(value) == 1_234
    for at in (0, 10, len(value) - 1):
        assert sent_at_ns(value[:at] + b"\x00" + value[at + 1 :]) is None
    assert sent_at_ns(None) is None
    assert sent_at_ns(b"") is None


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members have few objects, so that counting them takes no time."""
    monkeypatch.setattr("proofs.soak.member.living_objects", lambda: Counter(str=1_000, dict=5))


def told(capsys: pytest.CaptureFixture[str]) -> Sequence[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_guest_tells_of_each_poll_before_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(each_poll=True)
    report.polled()
    assert told(capsys) == []
    for offset in (7, 8):
        report.take(3, offset, value_of(1, 50, random.Random(1)))
        report.polled()
    assert [line["runs"] for line in told(capsys)] == [{"3": [[7, 8]]}, {"3": [[8, 9]]}]


def test_what_was_spoilt_is_read_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(each_poll=False)
    report.take(0, 0, b"rubbish")
    report.tell()
    (line,) = told(capsys)
    assert (line["records"], line["spoilt"]) == (1, 1)


def test_a_member_tells_what_lives_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(each_poll=False)
    report.tell()
    kept = [bytes(1_000) for _ in range(10_000)]
    report.tell()
    before, after = told(capsys)
    assert isinstance(before["malloc"], float)
    assert isinstance(after["malloc"], float)
    assert 9 < after["malloc"] - before["malloc"] < 12, len(kept)


# Counting takes half a minute in a process that has run thousands of tests, so these run in one of their own.
COUNTS = """
import gc, json, os, sys, threading
from collections import Counter
from pathlib import Path
from proofs.soak.member import counted_apart, living_objects
from proofs.soak.watch import resident_bytes

def peak_mib():
    # Not that of getrusage, which a process has from the one that started it.
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024

def is_about(count, wanted):
    assert abs(count - wanted) < 300, count

def test_objects_are_counted_wherever_they_are_held_and_though_nobody_reaches_them():
    before = living_objects().total()
    kept = [[f"text {number}" for number in range(3_000)], {number: object() for number in range(10_000, 12_000)}]
    is_about(living_objects().total() - before, 7_000)
    gc.disable()
    before = living_objects().total()
    for _ in range(1_000):
        circle = []
        circle.append((circle,))
    is_about(living_objects().total() - before, 2_000)
    gc.enable()

def test_free_lists_are_not_counted():
    # As many rows as a queue that was long once leaves behind: sys.getallocatedblocks counts them as in use.
    gc.collect()
    before, blocks_before = living_objects().total(), sys.getallocatedblocks()
    rows = [(number, number) for number in range(5_000, 9_000)]
    del rows
    assert sys.getallocatedblocks() - blocks_before > 1_000
    is_about(living_objects().total() - before, 0)

def test_counting_apart_finds_the_same_and_leaves_no_gap_in_the_memory_of_who_counts():
    ballast = [[number] for number in range(300_000)]
    counted_apart(living_objects)
    before_mib, peak_before_mib = resident_bytes(os.getpid()) / 1024 / 1024, peak_mib()
    apart = counted_apart(living_objects).total()
    assert resident_bytes(os.getpid()) / 1024 / 1024 - before_mib < 1
    assert peak_mib() - peak_before_mib < 1
    is_about(apart - living_objects().total(), 0)
    # What it leaves behind depends on what else is in the memory; that it needs some does not.
    assert peak_mib() - peak_before_mib > 3, "nothing to show"

def test_counting_apart_comes_to_its_end_whatever_other_threads_hold():
    # A copy that is made behind the interpreter's back waits forever for a thread that it does not have.
    stop = threading.Event()
    threads = [threading.Thread(target=lambda: [json.dumps([1] * 100) for _ in iter(stop.is_set, True)]) for _ in "123"]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert counted_apart(lambda: Counter(found=sum(range(100_000)))).total() == 4_999_950_000
    finally:
        stop.set()
        for thread in threads:
            thread.join()

test_counting_apart_finds_the_same_and_leaves_no_gap_in_the_memory_of_who_counts()
test_counting_apart_comes_to_its_end_whatever_other_threads_hold()
test_objects_are_counted_wherever_they_are_held_and_though_nobody_reaches_them()
test_free_lists_are_not_counted()
"""


def test_objects_are_counted_wherever_they_are_held_and_free_lists_are_not() -> None:
    top = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", COUNTS], cwd=top, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr


def test_a_step_of_objects_is_told_by_kinds_and_modules(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofs.soak.member.COUNT_EVERY_S", 0.0)
    report = Report(each_poll=False)
    report.tell()
    monkeypatch.setattr("proofs.soak.member.living_objects", lambda: Counter(str=5_000, dict=10))
    monkeypatch.setitem(sys.modules, "late", sys)
    report.tell()
    before, after = told(capsys)
    assert "step" not in before
    assert after["step"] == "4000 str, 5 dict; modules loaded: late"


def test_objects_are_counted_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(each_poll=False)
    report.tell()
    report.tell()
    assert ["objects" in line for line in told(capsys)] == [True, False]


def test_all_kinds_of_faults_strike_while_it_warms_up() -> None:
    """So that what the first of each leaves, a buffer that was full, is not taken for growth."""
    pauses = [pause_s(nth, every_s=150, warm_s=900, kinds=9) for nth in range(12)]
    assert sum(pauses[:9]) == 450
    assert pauses[9:] == [150, 150, 150]
    assert pause_s(0, every_s=8, warm_s=900, kinds=9) == 8
    assert pause_s(0, every_s=150, warm_s=14, kinds=9) == 5


def test_a_broker_that_does_not_listen_yet_is_asked_again_for_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plain port is open, and the one with TLS follows."""
    answers: list[str | OSError] = [ConnectionRefusedError(), ssl.SSLEOFError(), "PEM"]

    def asked(address: tuple[str, int], *, timeout: float) -> str:
        assert (address, timeout) == (("127.0.0.1", 9093), 20.0)
        if isinstance(answer := answers.pop(0), OSError):
            raise answer
        return answer

    monkeypatch.setattr("ssl.get_server_certificate", asked)
    testbed: Any = SimpleNamespace(cluster=SimpleNamespace(client_addresses=[("127.0.0.1", 9093)]))
    group: Any = SimpleNamespace()
    faults = Faults(testbed, group, every_s=1, warm_s=1, seed=1, now_s=time.monotonic)
    assert faults._shown(0) == "PEM"


# --- the picture ---------------------------------------------------------------------------------------------------


def test_the_picture_has_a_panel_for_each_figure_and_a_mark_for_each_fault() -> None:
    points = {figure.name: {"sync": minutes(lambda hour: 1 + hour)} for figure in FIGURES}
    strikes = [Strike("broker killed", 60.0, 80.0)]
    svg = draw("two hours", points, strikes, 7_200)
    ElementTree.fromstring(svg)
    assert svg.count('stroke-width="1.4"') == len(FIGURES)
    assert svg.count('stroke-opacity="0.35"') == len(FIGURES)


def test_limits_say_their_unit() -> None:
    assert [figure.limit for figure in FIGURES] == ["2 MiB", "2 thousand", "0.5 MiB", "0.2", "0.5", "5%", "10%"]
    assert Figure(name="x", unit="", limit_per_hour=0.25, is_share=True).limit == "25%"


# --- what comes of it -------------------------------------------------------------------------------------------------


def outcome(grows_by: float, *, stuck: tuple[str, ...] = ()) -> Outcome:
    verdict = judge("async", MEMORY, minutes(lambda hour: 60 + grows_by * hour), (), from_s=0)
    assert verdict is not None
    faults = Counter({"broker killed": 2, "member frozen": 1})
    return Outcome(
        lost=0, records=1_000, again=7, stuck=stuck, broken=(), verdicts=(verdict,), faults=faults, picture=""
    )  # fmt: skip


PLAN = Plan(hours=2, per_second=100, every_s=60, protocol="consumer", seed=1)


def test_what_grows_or_stands_still_is_a_promise_broken() -> None:
    assert problems(outcome(1.0)) == []
    assert problems(outcome(5.0)) == ["async: memory grows by +5.00 MiB an hour, not 2 MiB at most"]
    assert problems(outcome(1.0, stuck=("partition 3 stood",))) == ["partition 3 stood"]


def test_what_the_control_needs_more_is_told_and_breaks_no_promise() -> None:
    came = outcome(1.0)
    told = replace(came.verdicts[0], member="control", per_hour=9.0, is_promise=False)
    beside = replace(came, verdicts=(*came.verdicts, told))
    assert problems(beside) == []
    assert evidence(PLAN, beside).figures[-1].value == "+1.00 MiB (async; the limit is 2 MiB; the control +9.00 MiB)"


def test_the_page_of_evidence_is_told_all_of_it() -> None:
    result = evidence(PLAN, outcome(5.0))
    assert (result.figures[0].what, result.figures[0].value) == (
        "2 h, 1,000 records, 3 faults",
        "0 lost, 0 stuck, 1 promises broken",
    )
    assert result.figures[-1].value == "+5.00 MiB (async; the limit is 2 MiB)"
    assert [each.what for each in result.not_met] == problems(outcome(5.0))


@pytest.mark.parametrize(
    ("grows_by", "stuck", "said"),
    [
        (1.0, (), "loses nothing, never stands still, and needs no more than at the beginning."),
        (5.0, (), "loses nothing, and never stands still."),
        (5.0, ("partition 3 stood",), "loses nothing."),
    ],
)
def test_what_did_not_hold_is_not_claimed(grows_by: float, stuck: tuple[str, ...], said: str) -> None:
    assert claim(outcome(grows_by, stuck=stuck)).endswith(f"minutes, {said}")


def test_a_run_that_was_too_short_says_so() -> None:
    assert list(table(())) == ["it was too short for slopes, which want 20 minutes after the first fifth"]
