"""The judge of mixed groups: it accepts what Kafka's system tests accept, and says what was broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from proofs.mixed_groups.changes import Action, changes
from proofs.mixed_groups.lines import BadLineError, Line, LineName, Span, read_line
from proofs.mixed_groups.member_rules import MemberRules, Rebalancing
from proofs.mixed_groups.members import Kind
from proofs.mixed_groups.rules import Cause, Produced, Verdict, judge

TOPIC = "numbers"
LIMIT_MS = 2_000


class Told:
    """A member whose lines a test writes, each 10 ms after the one before unless it says when."""

    def __init__(self, name: str, rebalancing: Rebalancing = Rebalancing.EAGER, *, start_ms: int = 0) -> None:
        self.rules = MemberRules(name, name.split("-", maxsplit=1)[0], rebalancing)
        self._now_ms = start_ms

    def at(self, now_ms: int) -> Told:
        self._now_ms = now_ms - 10
        return self

    def assigned(self, *partitions: int) -> Told:
        return self._feed(LineName.PARTITIONS_ASSIGNED, partitions=partitions)

    def revoked(self, *partitions: int) -> Told:
        return self._feed(LineName.PARTITIONS_REVOKED, partitions=partitions)

    def consumed(self, first: int, last: int, *, partition: int = 0, count: int | None = None) -> Told:
        count = last - first + 1 if count is None else count
        span = Span(partition=partition, first=first, last=last, count=count)
        return self._feed(LineName.RECORDS_CONSUMED, spans=(span,))

    def committed(self, offset: int, *, partition: int = 0, error: str = "") -> Told:
        return self._feed(LineName.OFFSETS_COMMITTED, offsets=((partition, offset),), success=not error, error=error)

    def read(self, first: int, last: int, *, partition: int = 0) -> Told:
        """Consumed, and committed."""
        return self.consumed(first, last, partition=partition).committed(last + 1, partition=partition)

    def closed(self) -> Told:
        return self._feed(LineName.SHUTDOWN_COMPLETE)

    def killed(self) -> Told:
        self._now_ms += 10
        self.rules.killed(self._now_ms)
        return self

    def _feed(
        self,
        name: LineName,
        *,
        partitions: tuple[int, ...] = (),
        spans: tuple[Span, ...] = (),
        offsets: tuple[tuple[int, int], ...] = (),
        success: bool = True,
        error: str = "",
    ) -> Told:
        self._now_ms += 10
        line = Line(
            name=name,
            at_ms=self._now_ms,
            partitions=partitions,
            spans=spans,
            offsets=offsets,
            success=success,
            error=error,
        )
        self.rules.feed(line)
        return self


def judged(
    *members: Told, produced: Sequence[int] = (10,), written_ms: int = 0, excused_ms: Sequence[tuple[int, int]] = ()
) -> Verdict:
    """`produced` counts the records of each partition, all of them written at once."""
    times = {partition: [written_ms] * count for partition, count in enumerate(produced)}
    rules = [member.rules for member in members]
    return judge(rules, Produced(times_ms=times), excused_ms=excused_ms, silence_limit_ms=LIMIT_MS)


# --- lines -----------------------------------------------------------------------------------------------------


def test_lines_of_javas_verifiable_consumer_are_understood() -> None:
    place = {"topic": TOPIC, "partition": 3}
    consumed = {"timestamp": 7, "name": "records_consumed", "count": 2}
    text = json.dumps({**consumed, "partitions": [{**place, "count": 2, "minOffset": 4, "maxOffset": 5}]})
    span = Span(partition=3, first=4, last=5, count=2)
    assert read_line(text, TOPIC) == Line(name=LineName.RECORDS_CONSUMED, at_ms=7, spans=(span,))
    assigned = json.dumps({"timestamp": 8, "name": "partitions_assigned", "partitions": [place]})
    assert read_line(assigned, TOPIC) == Line(name=LineName.PARTITIONS_ASSIGNED, at_ms=8, partitions=(3,))
    refused = {"timestamp": 9, "name": "offsets_committed", "error": "no", "success": False}
    assert read_line(json.dumps({**refused, "offsets": [{**place, "offset": 6}]}), TOPIC) == Line(
        name=LineName.OFFSETS_COMMITTED, at_ms=9, offsets=((3, 6),), success=False, error="no"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Exception in thread main",
        "[]",
        '{"timestamp":1,"name":"hello"}',
        '{"timestamp":"1","name":"startup_complete"}',
        '{"timestamp":true,"name":"startup_complete"}',
        '{"timestamp":1,"name":"partitions_assigned"}',
        '{"timestamp":1,"name":"partitions_assigned","partitions":[3]}',
        '{"timestamp":1,"name":"partitions_assigned","partitions":[{"topic":"other","partition":0}]}',
    ],
)
def test_what_is_no_event_of_the_group_is_refused(text: str) -> None:
    with pytest.raises(BadLineError):
        read_line(text, TOPIC)


# --- a group that keeps the rules ------------------------------------------------------------------------------


def test_a_partition_that_moves_in_order_breaks_nothing() -> None:
    first = Told("java-1").assigned(0).read(0, 3).revoked(0).assigned().closed()
    second = Told("kwire-2").at(first.rules.ownerships()[0].end_ms).assigned(0).read(4, 9).revoked(0).closed()
    verdict = judged(first, second)
    assert verdict.violations == []
    assert (verdict.produced, verdict.consumed, verdict.lost, sum(verdict.duplicates.values())) == (10, 10, 0, 0)
    assert first.rules.assigned_count == 2
    assert not first.rules.alive


@pytest.mark.parametrize("rebalancing", [Rebalancing.COOPERATIVE, Rebalancing.CONSUMER])
def test_what_stays_is_consumed_on_while_the_rest_moves(rebalancing: Rebalancing) -> None:
    """KIP-429 and KIP-848: giving one partition back does not interrupt the other, and its position goes on."""
    member = Told("kwire-1", rebalancing).assigned(0, 1).read(0, 4).revoked(1).read(5, 9).assigned().closed()
    assert judged(member, produced=(10, 0)).violations == []


# --- rules of one member ---------------------------------------------------------------------------------------


Story = Callable[[Told], Told]


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (lambda m: m.assigned(0).revoked(0).read(0, 9), "consumed while it was not joined"),
        (lambda m: m.assigned(1).read(0, 9), "consumed from partition 0, which it did not have"),
        (lambda m: m.assigned(0).consumed(0, 9, count=9), "returned 9 records from offsets 0 to 9"),
        (lambda m: m.assigned(0).read(0, 4).read(6, 9), "consumed offsets 6 to 9 of partition 0 at position 5"),
        (lambda m: m.assigned(0).read(0, 4).read(4, 9), "consumed offsets 4 to 9 of partition 0 at position 5"),
        (lambda m: m.assigned(0).consumed(0, 9).committed(11), "committed 11 of partition 0, ahead of its position 10"),
        (lambda m: m.assigned(0).committed(5), "committed 5 of partition 0, of which it has consumed nothing"),
        (
            lambda m: m.assigned(0).consumed(0, 9).revoked(0).committed(10),
            "committed 10 of partition 0, which it did not have",
        ),
        (lambda m: m.assigned(0, 1).revoked(0), "kept partitions [1] in an eager rebalance"),
        (lambda m: m.assigned(0).revoked(0, 2), "had partitions [2] revoked, which it did not have"),
    ],
)
def test_each_broken_rule_is_told(story: Story, broken: str) -> None:
    told = "\n".join(judged(story(Told("kwire-1"))).violations)
    assert "kwire-1" in told
    assert broken in told


def test_only_the_consumer_protocol_may_revoke_what_is_gone_already() -> None:
    """As in Kafka's own rules: a member that closes while it gives a partition back names it twice."""
    assert Told("kwire-1", Rebalancing.CONSUMER).assigned(0).revoked(0).revoked(0).rules.violations == []
    assert Told("kwire-1", Rebalancing.COOPERATIVE).assigned(0).revoked(0).revoked(0).rules.violations != []


def test_a_member_that_is_given_what_it_has_is_told() -> None:
    member = Told("kwire-1", Rebalancing.COOPERATIVE).assigned(0).assigned(0)
    assert "was assigned partition 0, which it had" in member.rules.violations[0]


def test_a_member_that_goes_without_a_word_is_told() -> None:
    member = Told("kwire-1").assigned(0).read(0, 9)
    member.rules.gone()
    assert judged(member).violations == ["kwire-1 (line 3) ended without shutdown_complete"]


# --- rules of the group ----------------------------------------------------------------------------------------


def test_two_owners_at_a_time_are_found() -> None:
    first = Told("java-1").at(100).assigned(0).read(0, 9).at(200).revoked(0)
    second = Told("kwire-2").at(150).assigned(0).at(300).revoked(0)
    assert judged(first, second).violations == [
        "partition 0 had two owners: kwire-2 from 150 on, while java-1 had it for another 50 ms"
    ]


def test_a_short_second_owner_does_not_hide_the_first_one() -> None:
    first = Told("java-1").at(100).assigned(0).read(0, 9).at(500).revoked(0)
    second = Told("kwire-2").at(150).assigned(0).at(200).revoked(0)
    third = Told("kwire-3").at(300).assigned(0).at(600).revoked(0)
    told = judged(first, second, third).violations
    assert len(told) == 2
    assert "kwire-3 from 300 on, while java-1 had it" in told[1]


def test_a_killed_member_owns_nothing_from_then_on() -> None:
    first = Told("java-1").at(100).assigned(0).read(0, 9).killed()
    second = Told("kwire-2").at(130).assigned(0)
    assert judged(first, second).violations == []


def test_a_position_behind_a_commit_is_found() -> None:
    first = Told("java-1").assigned(0).read(0, 9).revoked(0).closed()
    second = Told("kwire-2").at(100).assigned(0).consumed(5, 9)
    told = judged(first, second).violations
    assert "kwire-2 consumed offsets 5 to 9 of partition 0, behind the commit 10" in told
    again = "offset 5 of partition 0 came to java-1 (line 2), and again to kwire-2 (line 2): unknown cause"
    assert again in told


def test_lost_records_are_counted() -> None:
    verdict = judged(Told("kwire-1").assigned(0).read(0, 3).revoked(0).assigned(0).read(6, 8))
    assert verdict.lost == 3
    assert verdict.violations == ["3 records of partition 0 lost, from 4 on"]


def test_duplicates_are_put_down_to_what_happened_to_the_one_before() -> None:
    killed = Told("java-1").at(0).assigned(0).read(0, 3).consumed(4, 5).killed()
    refused = Told("kwire-2", Rebalancing.CONSUMER).at(100).assigned(0).consumed(4, 6)
    refused.committed(7, error="stale").revoked(0).closed()
    last = Told("confluent-3").at(200).assigned(0).read(4, 9).revoked(0).closed()
    verdict = judged(killed, refused, last)
    assert verdict.violations == []
    assert verdict.duplicates == {(Cause.KILLED, "java"): 2, (Cause.REFUSED, "kwire"): 3}
    assert verdict.refused_commits == {("kwire", "stale"): 1}
    assert verdict.duplicates_by(Cause.KILLED) == 2


def test_a_kill_does_not_excuse_what_was_committed() -> None:
    killed = Told("java-1").assigned(0).read(0, 9).killed()
    again = Told("kwire-2").at(100).assigned(0).consumed(0, 9)
    assert judged(killed, again).duplicates == {(Cause.UNKNOWN, "java"): 10}


def test_what_a_member_commits_later_does_not_stand_for_what_it_was_refused_earlier() -> None:
    """It had the partition twice: the second time it committed far beyond the records it was refused the first time."""
    first = (
        Told("kwire-1", Rebalancing.COOPERATIVE)
        .at(10)
        .assigned(0)
        .consumed(0, 4)
        .committed(5, error="rebalancing")
        .revoked(0)
    )
    second = Told("java-2").at(100).assigned(0).read(0, 6).revoked(0)
    first.at(200).assigned(0).read(7, 9).revoked(0)
    verdict = judged(first, second)
    assert verdict.duplicates == {(Cause.REFUSED, "kwire"): 5}
    assert verdict.violations == []


def test_an_eager_rebalance_is_no_reason_to_return_a_record_twice() -> None:
    """Everything is given back before the member joins anew, so no commit meets a rebalance that is under way."""
    first = Told("kwire-1").at(10).assigned(0).consumed(0, 4).committed(5, error="rebalancing").revoked(0)
    second = Told("java-2").at(100).assigned(0).read(4, 9).revoked(0)
    told = judged(first, second).violations
    assert told == ["offset 4 of partition 0 came to kwire-1 (line 2), and again to java-2 (line 2): commit refused"]


def test_what_was_refused_and_committed_after_all_must_not_come_again() -> None:
    first = Told("kwire-1").consumed(0, 4).committed(5, error="rebalancing").assigned(0).read(5, 6).revoked(0)
    again = Told("java-2").at(100).assigned(0).consumed(4, 9)
    assert judged(first, again).duplicates == {(Cause.UNKNOWN, "kwire"): 3}


# --- progress --------------------------------------------------------------------------------------------------


def test_a_partition_is_silent_from_the_moment_it_has_something_to_say() -> None:
    member = Told("kwire-1").assigned(0).at(9_000).read(0, 9)
    assert judged(member, written_ms=8_000).violations == []
    verdict = judged(member, written_ms=6_000)
    assert verdict.violations == ["partition 0 was silent for 3000 ms (3000 ms of them without excuse) from 6000"]
    assert verdict.largest_silence is not None
    assert verdict.largest_silence.counted_ms == 3_000


def test_a_kill_excuses_silence_for_as_long_as_the_session_lasts() -> None:
    member = Told("kwire-1").assigned(0).at(100).read(0, 4).at(7_900).read(5, 9)
    assert judged(member, excused_ms=[(200, 6_200)]).violations == []
    assert judged(member, excused_ms=[(200, 4_200), (3_000, 6_200)]).violations == []
    assert judged(member, excused_ms=[(200, 5_200)]).violations != []


# --- the changes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_changes_never_leave_the_group_empty_and_every_kind_reigns(seed: int) -> None:
    living: set[str] = set()
    reigned = set()
    found = changes(tuple(Kind), 40, seed)
    for change in found:
        if change.action is Action.JOIN:
            living.add(change.member)
        else:
            living.remove(change.member)
        assert 1 <= len(living) <= 4
        if len(living) == 1:
            reigned.add(next(iter(living)).split("-", maxsplit=1)[0])
    assert reigned == {kind.value for kind in Kind}
    assert not found[-1].hasty
    assert found == changes(tuple(Kind), 40, seed)
