"""The lanes of the timeline below that of the faults: violations, members, partitions. Called by `timeline`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from kwire.model import TopicPartition
from kwire.testing.faults.report.figures import count, counted, duration, moment, size
from kwire.testing.faults.report.lane import Lane, Placed, concerning, listed, marks, place
from kwire.testing.faults.report.progress import BINS, Level, Track
from kwire.testing.faults.report.spans import MemberSpan, OwnerSpan
from kwire.testing.faults.report.svg import COLOURS, LEFT, PLOT, Scale, element, number, rect, text
from kwire.testing.invariants.ledger import Assigned, Ledger, Lost, Revoked
from kwire.testing.invariants.violation import Violation

ROW = 16.0
BAR = 13.0
BAND = 5.0


def violation_lane(violations: Sequence[Violation], scale: Scale) -> Lane:
    return Lane(
        label="violations",
        height=ROW,
        parts=tuple(marks(violations, scale, 3)),
        note=str(len(violations)),
    )


# --- members ---------------------------------------------------------------------------------------------------


def member_colours(members: Sequence[MemberSpan]) -> dict[str, str]:
    """Those that run at the same time differ, as long as there are enough colours. A member that comes back, such as
    "member2.2" after "member2.1", has its own again if that is free."""
    colours: dict[str, str] = {}
    for position, member in enumerate(members):
        beside = [colours[other.member] for other in members[:position] if other.ended_ms > member.began_ms]
        colours[member.member] = _free_colour(member.member, beside)
    return colours


def _free_colour(name: str, taken: Sequence[str]) -> str:
    """That of the first number in the name, if it is."""
    digits = re.search(r"\d+", name)
    own = COLOURS[int(digits.group()) % len(COLOURS) if digits else 0]
    return min(COLOURS, key=lambda colour: (taken.count(colour), colour != own, COLOURS.index(colour)))


def member_lanes(
    members: Sequence[MemberSpan],
    ledger: Ledger,
    peaks: Mapping[str, int],
    violations: Sequence[Violation],
    scale: Scale,
) -> list[Lane]:
    """Those that start when others have ended go on in their lanes."""
    colours = member_colours(members)
    placed = place([(member.began_ms, member.ended_ms, member.member) for member in members], scale)
    ticks = _ticks(ledger, scale)
    lanes: list[list[MemberSpan]] = [[] for _ in range(1 + max((at.row for at in placed), default=-1))]
    parts: list[list[str]] = [[] for _ in lanes]
    for member, at in zip(members, placed, strict=True):
        lanes[at.row].append(member)
        parts[at.row] += _life(member, at, colours[member.member], scale)
        parts[at.row] += ticks.get(member.member, [])
        parts[at.row] += [text(at.words, "on" if at.is_inside else "", x=at.text_x, y=12, title=_story(member))]
        parts[at.row] += marks(concerning(member.member, violations), scale, 5)
    order = sorted(range(len(lanes)), key=lambda row: _in_order(lanes[row][0].member))
    return [
        Lane(
            label="members" if position == 0 else "",
            height=ROW + 1,
            parts=tuple(parts[row]),
            note=_most(peaks[member.member] for member in lanes[row] if member.member in peaks),
        )
        for position, row in enumerate(order)
    ]


def _in_order(name: str) -> list[tuple[int, str]]:
    """As one counts: member2 before member10."""
    return [(int(part or 0), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _most(peaks: Iterable[int]) -> str:
    most = max(peaks, default=0)
    return size(most) if most else ""


def _story(member: MemberSpan) -> str:
    ending = f"{member.ending} {moment(member.ended_ms)}" if member.ending else "still running at the end"
    return f"{member.member}: started {moment(member.began_ms)}, {ending}"


def _life(member: MemberSpan, at: Placed, colour: str, scale: Scale) -> Iterator[str]:
    title = _story(member)
    yield rect("", x=at.x, y=2, width=at.width, height=BAR, fill=colour, title=title)
    for from_ms, to_ms in member.frozen:
        told = f"{member.member} frozen for {duration(to_ms - from_ms)} from {moment(from_ms)}"
        yield rect("frozen", x=scale.x(from_ms), y=4, width=scale.width(from_ms, to_ms), height=BAR - 4, title=told)
    if member.ending in ("killed", "died"):
        end = number(at.x + at.width)
        yield element("path", "gone", title=title, d=f"M{end} 8.5m-5 -5l10 10m0 -10l-10 10")


def _ticks(ledger: Ledger, scale: Scale) -> dict[str, list[str]]:
    """Callbacks, those of a member within one pixel as one."""
    found: dict[str, dict[int, list[Assigned | Revoked | Lost]]] = {}
    for event in ledger.events:
        if isinstance(event, (Assigned, Revoked, Lost)) and event.partitions:
            pixels = found.setdefault(event.member, {})
            pixels.setdefault(round(scale.x(event.at_ms)), []).append(event)
    return {member: [_tick(x, events) for x, events in pixels.items()] for member, pixels in found.items()}


def _tick(x: int, events: Sequence[Assigned | Revoked | Lost]) -> str:
    """Across the bar for what came, its lower half for what went, in alarm for what was lost."""
    told = [f"{moment(event.at_ms)} {type(event).__name__.lower()} {_names(event.partitions)}" for event in events]
    kind = "gone" if any(isinstance(event, Lost) for event in events) else "tick"
    path = f"M{x} 2v13" if any(isinstance(event, Assigned) for event in events) else f"M{x} 9v6"
    return element("path", kind, title=listed(told), d=path)


def _names(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) if len(partitions) <= 8 else counted(len(partitions), "partition")


# --- partitions ------------------------------------------------------------------------------------------------


def partition_lanes(
    tracks: Mapping[TopicPartition, Track],
    owners: Sequence[OwnerSpan],
    colours: Mapping[str, str],
    violations: Sequence[Violation],
    silence_limit_ms: float,
    scale: Scale,
) -> list[Lane]:
    """With a common scale for the lag, so that one sees which of them lags."""
    height = 42.0 if len(tracks) <= 8 else 34.0 if len(tracks) <= 16 else 28.0
    most_unread = max((level.most_unread for track in tracks.values() for level in track.levels), default=0)
    owned: dict[TopicPartition, list[OwnerSpan]] = {}
    for span in owners:
        owned.setdefault(span.partition, []).append(span)
    lanes = []
    for partition, track in tracks.items():
        parts = [
            *_owners(owned.get(partition, []), colours, height, scale),
            *_silences(partition, track, silence_limit_ms, height, scale),
            *_curves(track.levels, most_unread, height),
            *marks(concerning(str(partition), violations), scale, height - 13),
        ]
        largest = max((level.most_unread for level in track.levels), default=0)
        title = f"{partition}: {count(track.delivered_records)} of {count(track.sent_records)} records delivered"
        lanes.append(Lane(label=str(partition), height=height, parts=tuple(parts), note=count(largest), title=title))
    return lanes


def _owners(spans: Sequence[OwnerSpan], colours: Mapping[str, str], height: float, scale: Scale) -> Iterator[str]:
    """A band in the owner's colour; a second one below it while two believe they are."""
    until_ms = 0.0
    for span in spans:
        x, width, colour = scale.x(span.began_ms), scale.width(span.began_ms, span.ended_ms), colours[span.member]
        title = f"{span.partition}: {span.member}, {moment(span.began_ms)} to {moment(span.ended_ms)} {span.ending}"
        yield rect("own", x=x, y=1, width=width, height=height - 3, fill=colour, title=title.rstrip())
        is_second = span.began_ms < until_ms
        y = 1 + BAND if is_second else 1
        yield rect("", x=x, y=y, width=width, height=BAND - 1, fill=colour, title=title.rstrip())
        until_ms = max(until_ms, span.ended_ms)


def _silences(partition: TopicPartition, track: Track, limit_ms: float, height: float, scale: Scale) -> Iterator[str]:
    for each in track.standstills:
        to_ms = scale.end_ms if each.to_ms is None else each.to_ms
        if to_ms - each.from_ms < limit_ms:
            continue
        unread = counted(each.unread, "unread record")
        told = f"{partition}: silent for {duration(to_ms - each.from_ms)} from {moment(each.from_ms)}, {unread}"
        x, width = scale.x(each.from_ms), scale.width(each.from_ms, to_ms)
        yield rect("silent", x=x, y=1 + BAND, width=width, height=height - 3 - BAND, title=told)
        yield rect("silence", x=x, y=height - 4, width=width, height=2, title=told)


def _curves(levels: Sequence[Level], most_unread: int, height: float) -> Iterator[str]:
    """The lag as an area, from the lane's foot; and how much of what it ever had was delivered, as a line."""
    foot, room = height - 2, height - 4 - BAND
    sent = max((level.sent for level in levels), default=0) or 1
    lag = [foot - room * level.most_unread / (most_unread or 1) for level in levels]
    read = [foot - room * level.delivered / sent for level in levels]
    if any(level.most_unread for level in levels):
        yield element("path", "lag", d=f"{_steps(lag)}V{number(foot)}H{LEFT}z")
    yield element("path", "read", d=_steps(read))


def _steps(heights: Sequence[float]) -> str:
    """A line through the bins, in relative steps, which are short. What is less than half a pixel is no step."""
    rounded = [round(height * 2) / 2 for height in heights]
    parts = [f"M{LEFT} {number(rounded[0])}"]
    since = 0
    for position, (before, now) in enumerate(pairwise(rounded), start=1):
        if now != before:
            parts.append(f"h{number((position - since) * PLOT / BINS)}v{number(now - before)}")
            since = position
    return "".join([*parts, f"H{LEFT + PLOT}"])
