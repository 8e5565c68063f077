"""Schedules are read as they are written, and what is wrong is said with its line, its word and what is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kwire.model import TopicPartition
from kwire.testing.faults.bounds import SETTINGS, RunSettings
from kwire.testing.faults.catalogue import KINDS, strike
from kwire.testing.faults.kind import Amount, Parameter, Value
from kwire.testing.faults.rules import problems
from kwire.testing.faults.schedule import MembersLine, Schedule, ScheduleError, Step, TopicPlan
from kwire.testing.faults.schedule_text import parse, render
from kwire.testing.faults.targets import (
    AllBrokers,
    GroupCoordinator,
    LeaderOf,
    OneBroker,
    OneMember,
    OneTopic,
    PartitionOf,
    Target,
    TargetKind,
    WholeGroup,
)

TEXT = """
members 3 kwire consumer          # how many, which client, which group protocol
topic orders partitions 6
rate 500/s
set session_timeout_ms 12s

at 40s  consumer-freeze member 2 for 25s
at 5s   broker-kill broker 1 for 10s
at 20s  latency all 100ms jitter 20ms for 15s
end 90s
"""


def test_a_schedule_reads_as_one_would_say_it() -> None:
    assert parse(TEXT) == Schedule(
        members=(MembersLine(count=3, client="kwire", protocol="consumer"),),
        topics=(TopicPlan(name="orders", partitions=6),),
        rate_per_second=500,
        settings=RunSettings(session_timeout_ms=12_000),
        steps=(
            strike(5_000, "broker-kill", OneBroker(1), lasts_ms=10_000),
            strike(20_000, "latency", AllBrokers(), lasts_ms=15_000, latency_ms=100, jitter_ms=20),
            strike(40_000, "consumer-freeze", OneMember(2), lasts_ms=25_000),
        ),
        end_ms=90_000,
    )


def test_a_schedule_is_written_as_one_would_write_it() -> None:
    assert render(parse(TEXT)).splitlines() == [
        "brokers 3",
        "members 3 kwire consumer",
        "topic orders partitions 6",
        "rate 500/s",
        "set session_timeout_ms 12s",
        "at 5s   broker-kill broker 1 for 10s",
        "at 20s  latency all 100ms jitter 20ms for 15s",
        "at 40s  consumer-freeze member 2 for 25s",
        "end 90s",
    ]


def test_members_may_be_of_many_kinds() -> None:
    text = """
        members 2 kwire classic static auto-commit assignor cooperative-sticky
        members 1 java
        members 1 "./my consumer --fast" consumer read-committed
    """
    assert parse(text).members == (
        MembersLine(count=2, protocol="classic", static=True, committing="auto", assignor="cooperative-sticky"),
        MembersLine(count=1, client="java"),
        MembersLine(count=1, client="./my consumer --fast", read_committed=True),
    )
    text = "members 2 kwire consumer parallel-rebalance"
    assert parse(text).members == (MembersLine(count=2, catches_up=True),)
    assert text in render(parse(text)).splitlines()


def test_what_is_not_said_is_as_by_default() -> None:
    assert parse("") == Schedule()
    assert parse("at 5s quota all").steps == (
        strike(5_000, "quota", AllBrokers(), lasts_ms=15_000, fetch_rate_bytes_per_second=16_384, request_percent=100),
    )


def test_parameters_come_in_any_order() -> None:
    one, other = (
        parse(f"at 5s slicer all {rest}").steps
        for rest in ("answers for 9s vary 2B pause 1ms 5B", "5B vary 2B pause 1ms answers for 9s")
    )
    assert one == other
    assert (one[0].amount("slice_bytes"), one[0].amount("pause_us"), one[0].choice("direction")) == (
        5,
        1_000,
        "answers",
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topc orders", "line 2, word 1 'topc': allowed is a line: title, brokers, members, topic, rate, set, at, end"),
        ("members 3 kwire consumr", "line 2, word 4 'consumr': allowed is a group protocol: classic, consumer"),
        ("members 0", "line 2, word 2 '0': at least 1 is wanted"),
        ("rate 500", "line 2, word 2 '500': a rate is wanted, as in 500/s"),
        ("rate", "line 2 ends too early: a rate, as in 500/s, is wanted behind 'rate'"),
        ("topic orders 6", "line 2, word 3 '6': allowed is behind a topic's name: partitions"),
        ("topic or/ders partitions 6", "line 2, word 2 'or/ders': a topic's name is wanted"),
        ("set sesion_timeout_ms 5s", "line 2, word 2 'sesion_timeout_ms': allowed is a setting: session_timeout_ms or"),
        ("at 5s broker-kil broker 1", "line 2, word 3 'broker-kil': allowed is a fault: broker-kill or"),
        ("at 5s member-kill member 1", "that is a simulated world's name; here it is consumer-kill"),
        (
            "at 5s broker-kill member 1",
            "word 4 'member': allowed is what broker-kill may strike: broker N, leader TOPIC",
        ),
        ("at 5s broker-kill broker one", "word 5 'one': a number from 0 up is wanted"),
        ("at 5s broker-kill leader orders", "word 5 'orders': a partition is wanted, as in orders-0"),
        ("at 5s broker-kill broker", "line 2 ends too early: broker N, leader TOPIC-N, coordinator is wanted behind"),
        ("at 5s latency all 100m", "word 5 '100m': a duration is wanted, as in 15s; units: ms, s, min"),
        ("at 5s latency all 31s", "word 5 '31s': 1ms to 30s is allowed"),
        ("at 5s latency all jiter 1s", "word 5 'jiter': allowed is, for latency: 15s, jitter 15s, both or requests or"),
        ("at 5s latency all 1s 2s", "word 6 '2s'"),
        ("at 5s latency all 1s answers requests", "direction is given already"),
        ("at 5s latency all for", "line 2 ends too early: a duration, as in 15s, is wanted behind 'for'"),
        ("at 5s latency all for 1ms", "latency lasts for 100 ms to 600000 ms"),
        ("at 5s leader-move topic orders for 5s", "word 6 'for': allowed is, for leader-move: nothing more"),
        ("at 5s chaos-dialer all from 2s", "least_ms has to be below most_ms"),
        ("brokers 3 4", "line 2, word 3 '4': the line should be over by here"),
        ('title "no end', "line 2: a quotation mark has no other"),
        ("end 50s\nend 60s", "line 3, word 1 'end': there is a line 'end' already"),
        (
            "set request_timeout_ms 5s\nset request_timeout_ms 6s",
            "line 3, word 2 'request_timeout_ms': request_timeout_ms is",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_what_is_allowed(line: str, said: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        parse(f"# a comment\n{line}\n")
    assert said in str(raised.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ScheduleError) as raised:
        parse("rate fast\nend soon\nat 5s nothing at all\n")
    assert [problem.split(",")[0] for problem in raised.value.problems] == ["line 1", "line 2", "line 3"]


def test_what_makes_no_sense_is_said_with_the_line_of_its_fault() -> None:
    with pytest.raises(ScheduleError) as raised:
        parse("at 20s broker-stop broker 7\nat 5s broker-stop broker 8 for 5s\n")
    assert raised.value.problems == (
        "line 2: there is no broker 8; allowed: 0 to 2",
        "line 1: there is no broker 7; allowed: 0 to 2",
    )


# --- whatever may be said ------------------------------------------------------------------------------------

NAMES = st.sampled_from(("orders", "a-1", "UPPER.case_9"))
PARTITIONS = st.builds(TopicPartition, NAMES, st.integers(0, 99))
TARGETS: dict[TargetKind, st.SearchStrategy[Target]] = {
    OneBroker: st.builds(OneBroker, st.integers(0, 9)),
    LeaderOf: st.builds(LeaderOf, PARTITIONS),
    GroupCoordinator: st.just(GroupCoordinator()),
    AllBrokers: st.just(AllBrokers()),
    OneMember: st.builds(OneMember, st.integers(0, 9)),
    WholeGroup: st.just(WholeGroup()),
    OneTopic: st.builds(OneTopic, NAMES),
    PartitionOf: st.builds(PartitionOf, PARTITIONS),
}


def values(parameter: Parameter) -> st.SearchStrategy[Value]:
    if isinstance(parameter, Amount):
        return st.integers(parameter.least, parameter.most)
    return st.sampled_from(parameter.words)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    target = draw(TARGETS[draw(st.sampled_from(kind.targets))])
    given_values = {parameter.name: draw(values(parameter)) for parameter in kind.parameters}
    assume(all(int(given_values[less]) < int(given_values[more]) for less, more in kind.increasing))
    lasting = kind.lasting
    lasts_ms = None if lasting is None else draw(st.integers(lasting.least_ms, lasting.most_ms))
    return strike(draw(st.integers(0, 10**6)), kind.name, target, lasts_ms=lasts_ms, **given_values)


ONE_LINE = st.text(st.characters(exclude_characters="\n", codec="utf-8"), min_size=1, max_size=20)
MEMBERS = st.builds(
    MembersLine,
    count=st.integers(1, 9),
    client=st.sampled_from(("kwire", "confluent", "java")) | ONE_LINE,
    protocol=st.sampled_from(("classic", "consumer")),
    static=st.booleans(),
    assignor=st.none() | ONE_LINE,
    committing=st.sampled_from(("sync", "auto")),
    read_committed=st.booleans(),
)
RUN_SETTINGS = st.builds(replace, st.just(RunSettings()), **{name: st.integers(1, 10**6) for name in SETTINGS})


def parts(schedule: Schedule) -> list[Schedule]:
    """One schedule for each step, so that faults that exclude each other are read back as well."""
    return [replace(schedule, steps=(step,)) for step in schedule.steps] or [schedule]


@pytest.mark.slow
@given(st.lists(steps(), max_size=5), st.lists(MEMBERS, min_size=1, max_size=3), ONE_LINE | st.just(""), RUN_SETTINGS)
def test_what_is_written_is_read_back(
    some: list[Step], members: list[MembersLine], title: str, settings: RunSettings
) -> None:
    schedule = Schedule(
        title=title, brokers=9, members=tuple(members), settings=settings, steps=tuple(some), end_ms=10**7
    )
    for part in parts(schedule):
        text = render(part)
        if problems(part):
            with pytest.raises(ScheduleError):
                parse(text)
        else:
            assert parse(text) == part
            assert render(parse(text)) == text


@pytest.mark.slow
@given(steps(), st.permutations(["title x", "brokers 9", "members 9", "rate 1/s", "end 10000s"]))
def test_the_order_of_lines_means_nothing(step: Step, lines: list[str]) -> None:
    schedule = Schedule(
        title="x", brokers=9, members=(MembersLine(count=9),), rate_per_second=1, steps=(step,), end_ms=10**7
    )
    assume(not problems(schedule))
    at = next(line for line in render(schedule).splitlines() if line.startswith("at "))
    assert parse("\n".join([at, *lines])) == schedule


@pytest.mark.slow
@given(st.text(max_size=80) | st.lists(st.sampled_from(TEXT.split()), max_size=12).map(" ".join))
def test_no_text_is_too_strange_to_be_refused(text: str) -> None:
    schedule = parsed(text)
    assert schedule is None or parse(render(schedule)) == schedule


def parsed(text: str) -> Schedule | None:
    """None for what is refused."""
    try:
        return parse(text)
    except ScheduleError:
        return None
