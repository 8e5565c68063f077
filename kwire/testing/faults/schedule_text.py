"""The text form of schedules, with one statement a line.

    members 3 kwire consumer
    topic orders partitions 6
    rate 500/s
    set session_timeout_ms 10s
    at 5s   broker-kill broker 1 for 10s
    at 20s  latency all 100ms jitter 20ms for 15s
    at 40s  consumer-freeze member 2 for 25s
    end 90s

`parse` and `render` are inverse to each other, except for comments (`# ...`), spaces and the order of lines. Called by
the command line, and by reports, which show the text that replays a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kwire.testing.faults.bounds import SETTINGS, RunSettings
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.rules import problems
from kwire.testing.faults.schedule import MembersLine, Schedule, ScheduleError, Step, TopicPlan
from kwire.testing.faults.step_text import read_step, render_step
from kwire.testing.faults.targets import OneTopic, parse_target
from kwire.testing.faults.words import Line, WordError, lines_of, quoted

STARTS = ("title", "brokers", "members", "topic", "rate", "set", "at", "end")
TRAITS = ("static", "read-committed", "auto-commit", "parallel-rebalance", "assignor")
ONCE = frozenset({"title", "brokers", "rate", "end"})
"""The lines that may occur once."""


@dataclass(slots=True)
class _Draft:
    """The parts of the schedule that have been parsed so far."""

    whole: Schedule = field(default_factory=lambda: Schedule(members=(), topics=()))
    settings: dict[str, int] = field(default_factory=dict)
    steps: list[tuple[Step, Line]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


def parse(text: str) -> Schedule:
    """Parse a schedule. Without a `members` or `topic` line it has those of `Schedule()`.

    Raises:
        ScheduleError: for words that are not allowed, each with its line and the words that are; or for the problems of
            the schedule (see `rules.py`).
    """
    draft, wrong = _Draft(), list[str]()
    try:
        lines = list(lines_of(text))
    except WordError as error:
        raise ScheduleError((str(error),)) from error
    for line in lines:
        try:
            _read(line, draft)
        except WordError as error:
            wrong.append(str(error))
    if wrong:
        raise ScheduleError(tuple(wrong))
    return _checked(draft)


def render(schedule: Schedule) -> str:
    """The text of a schedule, without settings and minor parameters that have their default."""
    lines = [
        *([f"title {quoted(schedule.title)}"] if schedule.title else []),
        f"brokers {schedule.brokers}",
        *(_members_line(members) for members in schedule.members),
        *(f"topic {topic.name} partitions {topic.partitions}" for topic in schedule.topics),
        f"rate {Quantity.PER_SECOND.render(schedule.rate_per_second)}",
        *_setting_lines(schedule.settings),
        *_step_lines(schedule.steps),
        f"end {Quantity.DURATION_MS.render(schedule.end_ms)}",
    ]
    return "\n".join(lines) + "\n"


# --- reading -------------------------------------------------------------------------------------------------


def _read(line: Line, draft: _Draft) -> None:
    start = line.one_of(STARTS, "a line")
    if start in ONCE and start in draft.seen:
        raise line.wrong(f"there is a line '{start}' already")
    draft.seen.add(start)
    match start:
        case "members":
            draft.whole = replace(draft.whole, members=(*draft.whole.members, _read_members(line)))
        case "topic":
            draft.whole = replace(draft.whole, topics=(*draft.whole.topics, _read_topic(line)))
        case "set":
            _read_setting(line, draft)
        case "at":
            draft.steps.append((read_step(line), line))
        case _:
            draft.whole = _with_figure(draft.whole, start, line)
    line.ends()


def _with_figure(whole: Schedule, start: str, line: Line) -> Schedule:
    match start:
        case "title":
            return replace(whole, title=line.next("a title, in quotes if it has several words"))
        case "brokers":
            return replace(whole, brokers=line.quantity(Quantity.COUNT, least=1))
        case "rate":
            return replace(whole, rate_per_second=line.quantity(Quantity.PER_SECOND, least=1))
        case _:
            return replace(whole, end_ms=line.quantity(Quantity.DURATION_MS, least=1))


def _read_members(line: Line) -> MembersLine:
    """`members COUNT CLIENT PROTOCOL`, then further properties."""
    members = MembersLine(count=line.quantity(Quantity.COUNT, least=1))
    if not line.is_over:
        members = replace(members, client=line.next("a client: kwire, confluent, java, or a command in quotes"))
    if not line.is_over:
        protocol = line.one_of(("classic", "consumer"), "a group protocol")
        members = replace(members, protocol="classic" if protocol == "classic" else "consumer")
    while not line.is_over:
        members = _with_trait(members, line)
    return members


def _with_trait(members: MembersLine, line: Line) -> MembersLine:
    match line.one_of(TRAITS, "what members may be"):
        case "static":
            return replace(members, static=True)
        case "read-committed":
            return replace(members, read_committed=True)
        case "auto-commit":
            return replace(members, committing="auto")
        case "parallel-rebalance":
            return replace(members, catches_up=True)
        case _:
            return replace(members, assignor=line.next("an assignor's name"))


def _read_topic(line: Line) -> TopicPlan:
    """`topic NAME partitions N`."""
    name = line.next("a topic's name")
    try:
        parse_target(OneTopic, name)
    except ValueError as error:
        raise line.wrong(str(error)) from error
    line.one_of(("partitions",), "behind a topic's name")
    return TopicPlan(name=name, partitions=line.quantity(Quantity.COUNT, least=1))


def _read_setting(line: Line, draft: _Draft) -> None:
    """`set NAME DURATION`."""
    name = line.one_of(SETTINGS, "a setting")
    if name in draft.settings:
        raise line.wrong(f"{name} is set already")
    draft.settings[name] = line.quantity(Quantity.DURATION_MS, least=1)


def _checked(draft: _Draft) -> Schedule:
    """The schedule, after a check of the rules."""
    given, default = draft.whole, Schedule()
    steps = sorted(draft.steps, key=lambda pair: pair[0].at_ms)
    schedule = replace(
        given,
        members=given.members or default.members,
        topics=given.topics or default.topics,
        settings=replace(given.settings, **draft.settings),
        steps=tuple(step for step, _line in steps),
    )
    found = [what if index is None else f"line {steps[index][1].number}: {what}" for index, what in problems(schedule)]
    if found:
        raise ScheduleError(tuple(found))
    return schedule


# --- writing -------------------------------------------------------------------------------------------------


def _members_line(members: MembersLine) -> str:
    words = ["members", str(members.count), quoted(members.client), members.protocol]
    words += ["static"] if members.static else []
    words += ["read-committed"] if members.read_committed else []
    words += ["auto-commit"] if members.committing == "auto" else []
    words += ["parallel-rebalance"] if members.catches_up else []
    words += ["assignor", quoted(members.assignor)] if members.assignor is not None else []
    return " ".join(words)


def _setting_lines(settings: RunSettings) -> Iterator[str]:
    default = RunSettings()
    for name in SETTINGS:
        if settings.named(name) != default.named(name):
            yield f"set {name} {Quantity.DURATION_MS.render(settings.named(name))}"


def _step_lines(steps: tuple[Step, ...]) -> list[str]:
    """One line for each step, with the faults aligned."""
    times = [Quantity.DURATION_MS.render(step.at_ms) for step in steps]
    width = max(map(len, times), default=0)
    return [f"at {at:<{width}}  {render_step(step)}" for at, step in zip(times, steps, strict=True)]
