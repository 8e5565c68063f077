"""The picture: what is in it, that nothing lies over other things, and that it stays small."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.report import ExpectedRecovery, MemorySample, timeline
from kwire.testing.faults.report.lane import concerning, place
from kwire.testing.faults.report.lanes import member_colours
from kwire.testing.faults.report.spans import member_spans
from kwire.testing.faults.report.svg import COLOURS, LETTER_WIDTH, WIDTH, Scale, shortened
from kwire.testing.faults.report.timeline import LEGEND_WORDS
from kwire.testing.invariants import Violation
from kwire.testing.invariants.ledger import Calm, Ended, Frozen, Quiet, Thawed

if TYPE_CHECKING:
    from kwire.testing.invariants.ledger import Event
    from tests.testing.faults.report.report_run import (
        T0,
        T1,
        assigned,
        began,
        healed,
        killed,
        ledger,
        lost,
        polled,
        run,
        sent,
        started,
    )
else:
    from report_run import T0, T1, assigned, began, healed, killed, ledger, lost, polled, run, sent, started

END = Ended(at_ms=100_000)
BOUND = ExpectedRecovery(bound_ms=1_000.0)
BEGIN = [started(), assigned(10, "a", T0, T1), *sent(100, 0), polled(150, 0)]


def titles(svg: str, kind: str) -> list[str]:
    """Of the elements of a class that have one."""
    found = [each for each in ElementTree.fromstring(svg).iter() if kind in each.get("class", "").split()]
    return [title.text or "" for each in found if (title := each.find("{*}title")) is not None]


def elements(svg: str, tag: str) -> list[ElementTree.Element]:
    """Those of the picture itself, without the legend's."""
    found = ElementTree.fromstring(svg).findall(f".//{{*}}{tag}")
    return [each for each in found if each.get("transform") is None]


def written(svg: str) -> list[str]:
    """The words in it, without titles."""
    return ["".join(list(each.itertext())[-1:]) for each in elements(svg, "text")]


def outline(path: str) -> list[tuple[float, float]]:
    """The corners of a path of straight steps."""
    points: list[tuple[float, float]] = []
    x = y = 0.0
    for command, values in re.findall(r"([MhvHV])([-\d. ]+)", path):
        numbers = [float(value) for value in values.split()]
        x = {"M": numbers[0], "H": numbers[0], "h": x + numbers[0]}.get(command, x)
        y = {"M": numbers[-1], "V": numbers[0], "v": y + numbers[0]}.get(command, y)
        points.append((x, y))
    return points


def test_faults_are_bars_and_momentary_ones_diamonds() -> None:
    svg = timeline(
        run(BEGIN, began(1_000, "latency", "all, 100 ms"), healed(9_000, "latency"), began(5_000, "reset"), END)
    )
    assert titles(svg, "fault") == ["latency, 0:01.0 to 0:09.0\nall, 100 ms", "reset, 0:05.0"]
    shades = [each for each in ElementTree.fromstring(svg).iter() if each.get("class") == "shade"]
    assert [(each.get("x"), each.get("width")) for each in shades] == [("142", "80")]


def test_below_each_fault_is_how_long_it_took_on_how_long_it_may_take() -> None:
    slow = [began(10_000, "latency", "all"), *sent(10_500, 1), healed(20_000, "latency"), polled(21_500, 1)]
    quick = [began(40_000, "reset", "all"), *sent(40_100, 2), healed(45_000, "reset"), polled(45_400, 2)]
    svg = timeline(replace(run(BEGIN, slow, quick, END), expected={"latency": BOUND, "reset": BOUND}))
    assert titles(svg, "late") == ["latency: recovered in 1.5 s of 1.0 s since the heal; slowest orders-0"]
    assert titles(svg, "well") == ["reset: recovered in 400 ms of 1.0 s since the heal; slowest orders-0"]
    strips = [(each.get("class"), each.get("x"), each.get("width")) for each in elements(svg, "rect")]
    assert [each for each in strips if each[0] in ("bound", "late", "well")] == [
        ("bound", "332", "10"),
        ("late", "332", "15"),
        ("bound", "582", "10"),
        ("well", "582", "4"),
    ]


def test_what_never_moves_again_is_late_to_the_end() -> None:
    svg = timeline(run(BEGIN, began(50_000, "topic-delete"), sent(50_100, 1), END))
    assert titles(svg, "late") == ["topic-delete: orders-0 never moved again since the strike"]
    (strip,) = [each for each in elements(svg, "rect") if each.get("class") == "late"]
    assert (strip.get("x"), strip.get("width")) == ("632", "500")


def test_a_recovery_that_nobody_bounds_is_not_coloured_as_if_it_were_judged() -> None:
    svg = timeline(run(BEGIN, began(50_000, "reset"), sent(50_100, 1), polled(52_000, 1), END))
    assert titles(svg, "unjudged") == ["reset: recovered in 1.9 s since the strike; slowest orders-0"]
    assert titles(svg, "bound") == []


@pytest.mark.parametrize(
    ("detail", "name"),
    [
        ("leader orders-0 for 9s: broker 1", "broker-kill broker 1"),
        ("all for 9s: broker 0, 1, 2", "broker-kill"),
        ("partition orders-0", "broker-kill"),
    ],
)
def test_faults_are_named_with_whom_they_struck(detail: str, name: str) -> None:
    svg = timeline(run(BEGIN, began(1_000, "broker-kill", detail), END))
    assert name in written(svg)


def test_names_are_short_where_long_ones_would_take_many_rows() -> None:
    crowd = [began(1_000 + each * 100, "leader-move", "partition orders-0: to broker 1") for each in range(5)]
    names = written(timeline(run(BEGIN, crowd, END)))
    assert "leader-move" in names
    assert "leader-move to broker 1" not in names


def test_nothing_is_put_where_the_recovery_of_another_is_shown() -> None:
    spans = [(0.0, 1_000.0, "a"), (50_000.0, 51_000.0, "b"), (90_000.0, 91_000.0, "c")]
    assert [at.row for at in place(spans, Scale(100_000.0))] == [0, 0, 0]
    assert [at.row for at in place(spans, Scale(100_000.0), [60_000.0, 0.0, 0.0])] == [0, 1, 0]


def test_bars_and_their_words_do_not_lie_over_each_other() -> None:
    scale = Scale(600_000.0)
    spans = [(at * 9_000.0, at * 9_000.0 + at % 7 * 4_000.0, "partition-broker") for at in range(64)]
    extents = []
    for (_, _, words), at in zip(spans, place(spans, scale), strict=True):
        text_end = at.text_x + len(words) * LETTER_WIDTH
        extents.append((at.row, min(at.x, at.text_x), max(at.x + at.width, text_end)))
    for (row, begins, ends), (other_row, other_begins, other_ends) in combinations(extents, 2):
        assert row != other_row or ends <= other_begins or other_ends <= begins
    assert max(row for row, _, _ in extents) < 12


def test_members_show_how_they_ended_what_they_were_given_and_when_they_stood_still() -> None:
    frozen: list[Event] = [Frozen(at_ms=20_000, member="a"), Thawed(at_ms=32_000, member="a")]
    svg = timeline(run(BEGIN, frozen, lost(33_000, "a", T0), killed(50_000), END))
    assert titles(svg, "tick") == ["0:00.0 assigned orders-0, orders-1"]
    assert titles(svg, "frozen") == ["a frozen for 12.0 s from 0:20.0"]
    assert titles(svg, "gone") == ["a: started 0:00.0, killed 0:50.0", "0:33.0 lost orders-0"]


def test_members_stand_in_the_order_of_their_numbers() -> None:
    names = ["member10.1", "member0.1", "member2.1"]
    svg = timeline(run([started(each, name) for each, name in enumerate(names)], END))
    lanes = [each for each in written(svg) if each in names]
    assert lanes == ["member0.1", "member2.1", "member10.1"]


def test_callbacks_within_a_pixel_are_one_tick() -> None:
    svg = timeline(run(BEGIN, [assigned(40_000 + each) for each in range(9)], END))
    assert len(titles(svg, "tick")) == 2
    assert titles(svg, "tick")[1].endswith("... and 3 more")


def test_members_that_run_at_the_same_time_have_different_colours() -> None:
    lives: list[Event] = [started(each * 10, f"m{each}") for each in range(8)]
    members = member_spans(ledger(lives, killed(1_000, "m3"), started(2_000, "m8"), END))
    colours = member_colours(members)
    assert len({colours[f"m{each}"] for each in range(8)}) == 8
    assert colours["m8"] == colours["m3"]


def test_a_member_has_the_colour_of_its_number_whoever_started_first() -> None:
    lives: list[Event] = [started(0, "m1.1"), started(1, "m0.1"), started(2, "m2.1")]
    colours = member_colours(member_spans(ledger(lives, killed(1_000, "m2.1"), started(2_000, "m2.2"), END)))
    assert [colours[name] for name in ("m0.1", "m1.1", "m2.1", "m2.2")] == [*COLOURS[:3], COLOURS[2]]


def test_a_partition_with_two_owners_has_two_bands() -> None:
    svg = timeline(run(BEGIN, started(20_000, "b"), assigned(40_000, "b", T0), END))
    bands = [
        (each.get("y"), title.text)
        for each in elements(svg, "rect")
        if each.get("height") == "4" and (title := each.find("{*}title")) is not None
    ]
    assert bands == [("1", "orders-0: a, 0:00.0 to 1:40.0"), ("6", "orders-0: b, 0:40.0 to 1:40.0")]


def test_silence_is_marked_from_its_limit_on() -> None:
    events = [*sent(10_000, 1), polled(14_999, 1), *sent(20_000, 2, 3), polled(25_000, 2, 3)]
    svg = timeline(run(BEGIN, events, END))
    assert titles(svg, "silence") == ["orders-0: silent for 5.0 s from 0:20.0, 2 unread records"]
    assert len(titles(timeline(replace(run(BEGIN, events, END), silence_limit_ms=4_000.0)), "silence")) == 2


def test_violations_are_marked_where_they_belong() -> None:
    other = TopicPartition("orders", 11)
    violation = Violation(rule="one-owner", at_ms=60_000, what="a kept orders-1 for long")
    one = replace(run(BEGIN, sent(200, 0, partition=T1), sent(200, 0, partition=other), END), violations=(violation,))
    assert titles(timeline(one), "bad") == [str(violation)] * 3  # their own lane, the member, the partition
    assert concerning("orders-1", [violation]) == [violation]
    assert concerning("orders-11", [violation]) == concerning("orders-", [violation]) == []


def test_the_phases_of_a_run_and_the_memory_of_members_are_in_it() -> None:
    memory = (MemorySample(at_ms=1, member="a", resident_bytes=3 << 20),)
    svg = timeline(replace(run(BEGIN, Quiet(at_ms=50_000), Calm(at_ms=70_000), END), memory=memory))
    assert titles(svg, "phase") == ["quiet", "calm"]
    assert ">3.0 MiB</text>" in svg


def test_the_lag_is_an_area_and_what_was_read_a_line() -> None:
    lag = [*sent(20_000, 1, 2, 3, 4), polled(60_000, 1, 2, 3, 4)]
    svg = timeline(run(BEGIN, lag, END))
    (area,) = [outline(each.get("d", "")) for each in elements(svg, "path") if each.get("class") == "lag"]
    (read,) = [outline(each.get("d", "")) for each in elements(svg, "path") if each.get("class") == "read"]
    foot, top = max(y for _, y in area), min(y for _, y in area)
    assert (foot, top) == (40, 7)
    assert [x for x, y in area if y == top] == [332, 734]  # 20 s of 100, and 60 s with their bin, of 1,000 from 132
    assert read[:2] == [(132, 33.5), (732, 33.5)]  # one of five
    assert read[-1] == (1132, 7)


def test_names_are_escaped() -> None:
    evil = TopicPartition('<script>&"x"', 0)
    events = [started(0, "<m&>"), assigned(1, "<m&>", evil), *sent(2, 0, partition=evil), began(3, "<f>", "</title>&")]
    violation = Violation(rule="<r>", at_ms=5, what=f"<m&> lost {evil}")
    svg = timeline(replace(run(events, END), violations=(violation,), name="</svg>"))
    ElementTree.fromstring(svg)
    assert "<script" not in svg
    assert titles(svg, "fault") == ["<f>, 0:00.0\n</title>&"]


def test_long_names_keep_their_ends() -> None:
    assert shortened("orders-1", 200) == "orders-1"
    short = shortened("a-very-long-name-of-a-topic-indeed-17", 118)
    assert short.startswith("a-very")
    assert short.endswith("indeed-17"[-6:])
    assert len(short) * LETTER_WIDTH <= 118


def test_the_legend_is_within_the_picture() -> None:
    picture = ElementTree.fromstring(timeline(run(BEGIN, END)))
    words = [each for each in picture.findall(".//{*}text") if each.text in [words for _, _, words in LEGEND_WORDS]]
    assert len(words) == len(LEGEND_WORDS)
    for each in words:
        assert float(each.get("x", "")) + len(each.text or "") * LETTER_WIDTH <= WIDTH
        assert float(each.get("y", "")) < float(picture.get("height", ""))


def test_an_empty_run_is_a_picture_too() -> None:
    ElementTree.fromstring(timeline(run()))


@pytest.mark.slow
def test_it_stays_small_whatever_happens() -> None:
    """Eight members, 24 partitions that lag up and down in each bin, forty faults, ten minutes."""
    partitions = [TopicPartition("orders", number) for number in range(24)]
    events: list[Event] = [started(0, f"member{each}") for each in range(8)]
    events += [assigned(1, f"member{number % 8}", each) for number, each in enumerate(partitions)]
    for position in range(200):
        at = position * 3_000.0
        for each in partitions:
            events += sent(at, 2 * position, 2 * position + 1, partition=each)
            if position % 2:
                offsets = range(2 * position - 2, 2 * position + 2)
                events.append(polled(at + 1, *offsets, member=f"member{each.partition % 8}", partition=each))
        if position % 5 == 0:
            events += [began(at, "broker-freeze", "broker 1"), healed(at + 9_000, "broker-freeze")]
    svg = timeline(run(sorted(events, key=lambda event: event.at_ms), Ended(at_ms=600_000)))
    assert len(svg.encode()) < 300_000
    assert len(titles(svg, "fault")) == 40
