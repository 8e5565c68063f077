"""The picture: what is in it, that nothing lies over other things, and that it stays small."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from kwire.model import TopicPartition
from kwire.testing.faults.report import MemorySample, timeline
from kwire.testing.faults.report.lane import concerning, place
from kwire.testing.faults.report.lanes import member_colours
from kwire.testing.faults.report.spans import member_spans
from kwire.testing.faults.report.svg import LETTER_WIDTH, Scale, shortened
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
BEGIN = [started(), assigned(10, "a", T0, T1), *sent(100, 0), polled(150, 0)]


def titles(svg: str, kind: str) -> list[str]:
    """Of the elements of a class that have one."""
    found = [each for each in ElementTree.fromstring(svg).iter() if kind in each.get("class", "").split()]
    return [title.text or "" for each in found if (title := each.find("{*}title")) is not None]


def elements(svg: str, tag: str) -> list[ElementTree.Element]:
    """Those of the picture itself, without the legend's."""
    found = ElementTree.fromstring(svg).findall(f".//{{*}}{tag}")
    return [each for each in found if each.get("transform") is None]


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
