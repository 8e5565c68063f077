"""Rules of schedules: everything they name exists, and no two faults interfere with each other.

    problems(schedule)
    [Problem(step=1, what="it overlaps broker-kill broker 0 at 5s: both claim a broker's process")]

Pure. Called when a schedule is read or drawn, and before it is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from kwire.testing.faults.kind import FaultClaim, Need
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import MAX_BROKERS, Schedule, ScheduleError, Step
from kwire.testing.faults.targets import (
    TOPIC_NAME,
    OneBroker,
    OneMember,
    OneTopic,
    Target,
    WholeGroup,
    may_be_same_broker,
    partition_of,
    topic_of,
)

BROKER_CLAIMS = frozenset(
    {
        FaultClaim.BROKER_DOWN,
        FaultClaim.REACH,
        FaultClaim.BROKER_LATENCY,
        FaultClaim.BROKER_BANDWIDTH,
        FaultClaim.BROKER_CHUNKS,
        FaultClaim.BROKER_CLOSING,
        FaultClaim.ANSWERS,
    }
)
TOPIC_CLAIMS = frozenset({FaultClaim.TOPIC, FaultClaim.LEADERSHIP, FaultClaim.TRAFFIC})
MIN_BROKERS_TO_LOSE_ONE = 3
# More would be too many for one machine, and are probably a typing error.
MAX_PARTITIONS = 1_000
MAX_MEMBERS = 100


class Problem(NamedTuple):
    """A problem of a schedule, with the index of the step; None for the schedule as a whole."""

    step: int | None
    what: str


def check(schedule: Schedule) -> None:
    """Raises: ScheduleError, with all problems."""
    found = problems(schedule)
    if found:
        raise ScheduleError(tuple(_told(schedule, problem) for problem in found))


def problems(schedule: Schedule) -> list[Problem]:
    """The problems of a schedule, in the order of its steps."""
    found = [Problem(None, what) for what in _of_all(schedule)]
    for index, step in enumerate(schedule.steps):
        found += [Problem(index, what) for rule in _RULES for what in rule(schedule, step)]
        found += [Problem(index, what) for what in _spoils(schedule, index)]
    return found


# --- the schedule as a whole ---------------------------------------------------------------------------------


def _of_all(schedule: Schedule) -> Iterator[str]:
    yield from _of_the_whole(schedule)
    yield from _of_two_cursors(schedule)
    yield from _of_words(schedule)


def _of_the_whole(schedule: Schedule) -> Iterator[str]:
    if not 1 <= schedule.brokers <= MAX_BROKERS:
        yield f"1 to {MAX_BROKERS} brokers are allowed"
    if not schedule.topics:
        yield "there is no topic: say 'topic NAME partitions N'"
    if not 1 <= schedule.member_count <= MAX_MEMBERS:
        yield f"there are {schedule.member_count} members; 1 to {MAX_MEMBERS} are allowed"
    if schedule.rate_per_second < 1:
        yield "nothing is sent: say 'rate N/s'"
    if schedule.settings.heartbeat_interval_ms >= schedule.settings.session_timeout_ms:
        yield "heartbeat_interval_ms has to be below session_timeout_ms"


def _of_two_cursors(schedule: Schedule) -> Iterator[str]:
    """Commits of members with one cursor say nothing of ranges: what they make come again is nobody's mistake."""
    catching_up = [members for members in schedule.members if members.catches_up]
    if catching_up and len(catching_up) < len(schedule.members):
        yield "write 'parallel-rebalance' in every line of members, or in none: others read a lag again"
    for members in catching_up:
        if members.client != "kwire" or members.committing == "auto":
            yield f"members with 'parallel-rebalance' are kwire's, and commit after each poll: not {members.client}"


def _of_words(schedule: Schedule) -> Iterator[str]:
    for text in (schedule.title, *(members.client for members in schedule.members)):
        if "\n" in text:
            yield f"{text!r} has to stand in one line"
    if not all(members.client for members in schedule.members):
        yield "a client's command is empty"
    names = [topic.name for topic in schedule.topics]
    yield from (f"topic {name} is there twice" for name in sorted({name for name in names if names.count(name) > 1}))
    yield from (f"{name!r} is no name of a topic" for name in names if not TOPIC_NAME.fullmatch(name))
    for topic in schedule.topics:
        if not 1 <= topic.partitions <= MAX_PARTITIONS:
            yield f"topic {topic.name} has {topic.partitions} partitions; 1 to {MAX_PARTITIONS} are allowed"


# --- a step by itself ----------------------------------------------------------------------------------------


def _is_in_time(schedule: Schedule, step: Step) -> Iterator[str]:
    if step.ends_ms > schedule.end_ms:
        yield f"it is not over by the end, {_time(schedule.end_ms)}; let it begin earlier, or last less"


def _broker_is_there(schedule: Schedule, step: Step) -> Iterator[str]:
    if isinstance(step.target, OneBroker) and step.target.number >= schedule.brokers:
        yield f"there is no {step.target}; allowed: 0 to {schedule.brokers - 1}"


def _member_is_there(schedule: Schedule, step: Step) -> Iterator[str]:
    joined = sum(1 for each in schedule.steps if each.fault == "consumer-join" and each.at_ms < step.at_ms)
    count = schedule.member_count + joined
    if isinstance(step.target, OneMember) and step.target.number >= count:
        yield f"there is no {step.target} by then; allowed: 0 to {count - 1}"


def _topic_is_there(schedule: Schedule, step: Step) -> Iterator[str]:
    topic, partition = topic_of(step.target), partition_of(step.target)
    if topic is None:
        return
    count = _partitions_at(schedule, topic, step)
    if count is None:
        yield f"there is no topic {topic}; allowed: {', '.join(each.name for each in schedule.topics)}"
    elif count == 0:
        yield f"there is no topic {topic} by then: it was deleted"
    elif partition is not None and partition.partition >= count:
        yield f"{topic} has {count} partitions by then; allowed: 0 to {count - 1}"


def _partitions_at(schedule: Schedule, topic: str, step: Step) -> int | None:
    """The number of partitions that a topic has when a step strikes; 0 while it is deleted, None if it never exists."""
    count = next((each.partitions for each in schedule.topics if each.name == topic), None)
    for each in schedule.steps:
        if each is step or each.at_ms > step.at_ms:
            break
        if count is None or each.target != OneTopic(topic):
            continue
        if each.fault == "partition-growth":
            count += each.amount("more")
        elif each.fault == "topic-delete":
            return 0
        elif each.fault == "topic-recreate":
            if step.at_ms < each.settled_ms:
                return 0
            count = each.amount("partitions") or count
    return count


def _has_what_it_needs(schedule: Schedule, step: Step) -> Iterator[str]:
    for need in step.kind.needs:
        if not _is_met(schedule, step, need):
            yield f"it needs {need.value}"


def _is_met(schedule: Schedule, step: Step, need: Need) -> bool:
    lines = (
        (schedule.members_of(step.target.number),)
        if isinstance(step.target, OneMember) and schedule.members
        else schedule.members
    )
    match need:
        case Need.THREE_BROKERS:
            return schedule.brokers >= MIN_BROKERS_TO_LOSE_ONE
        case Need.STATIC_MEMBERS:
            return all(members.static for members in lines)
        case Need.OWN_RUNNER:
            return all(members.takes_orders for members in lines)
        case Need.TWO_CURSORS:
            return all(members.catches_up for members in lines)
        case Need.ONE_TOPIC_LEFT:
            gone = {topic_of(each.target) for each in schedule.steps if each.fault == "topic-delete"}
            return any(topic.name not in gone for topic in schedule.topics)
        case Need.OLDER_STORAGE | Need.PERMISSIONS:
            return True  # the harness sees to it
        case Need.LIBFAKETIME:
            return True  # known where the members start


def _is_the_same_to_all(schedule: Schedule, step: Step) -> Iterator[str]:
    """Aborted records are there for some members and not for others: read or passed over, neither would be wrong."""
    is_aborted = ("ending", "aborted") in step.values
    if is_aborted and len({members.read_committed for members in schedule.members}) > 1:
        yield (
            "nobody can judge its aborted records, which are there for some members and not for others; "
            "write 'read-committed' in every line of members, or in none"
        )


Rule: TypeAlias = Callable[[Schedule, Step], Iterator[str]]
_RULES: tuple[Rule, ...] = (
    _is_in_time,
    _broker_is_there,
    _member_is_there,
    _topic_is_there,
    _has_what_it_needs,
    _is_the_same_to_all,
)


# --- steps beside each other ---------------------------------------------------------------------------------


def _spoils(schedule: Schedule, index: int) -> Iterator[str]:
    """What an earlier step and this one do to each other."""
    step = schedule.steps[index]
    beside = [each for each in schedule.steps[:index] if _overlap(each, step)]
    for each in beside:
        claim = next(_contested(each, step), None)
        if claim is not None:
            yield f"it overlaps {_named(each)}: both claim {claim.value}"
    yield from _takes_too_many_brokers(schedule, step, beside)


def _overlap(one: Step, other: Step) -> bool:
    return one.at_ms < other.settled_ms and other.at_ms < one.settled_ms


def _contested(one: Step, other: Step) -> Iterator[FaultClaim]:
    shared = set(one.kind.claims) & set(other.kind.claims)
    return (claim for claim in FaultClaim if claim in shared and _same(claim, one.target, other.target))


def _same(claim: FaultClaim, one: Target, other: Target) -> bool:
    """Whether two claims may be on the same target."""
    if claim in BROKER_CLAIMS:
        return may_be_same_broker(one, other)
    if claim in TOPIC_CLAIMS:
        return topic_of(one) == topic_of(other) and (
            partition_of(one) is None or partition_of(other) is None or partition_of(one) == partition_of(other)
        )
    if claim in (FaultClaim.MEMBER, FaultClaim.CLOCK):
        return one == other or isinstance(one, WholeGroup) or isinstance(other, WholeGroup)
    return True


def _takes_too_many_brokers(schedule: Schedule, step: Step, beside: list[Step]) -> Iterator[str]:
    """Controllers need a majority, and partitions `min.insync.replicas`, two of three."""
    if FaultClaim.BROKER_DOWN not in step.kind.claims:
        return
    down = [each for each in beside if FaultClaim.BROKER_DOWN in each.kind.claims and not any(_contested(each, step))]
    most = max(1, (schedule.brokers - 1) // 2)
    if _most_at_once(down, step) >= most:
        names = " and ".join(_named(each) for each in down)
        yield f"with {names} more than {most} of {schedule.brokers} brokers are down, or catching up, at once"


def _most_at_once(down: list[Step], step: Step) -> int:
    """The largest number of brokers that are down at one moment of the step."""
    moments = [max(each.at_ms, step.at_ms) for each in down]
    return max((sum(each.at_ms <= at < each.settled_ms for each in down) for at in moments), default=0)


def _told(schedule: Schedule, problem: Problem) -> str:
    return problem.what if problem.step is None else f"{_named(schedule.steps[problem.step])}: {problem.what}"


def _named(step: Step) -> str:
    return f"{step.fault} {step.target} at {_time(step.at_ms)}"


def _time(at_ms: int) -> str:
    return Quantity.DURATION_MS.render(at_ms)
