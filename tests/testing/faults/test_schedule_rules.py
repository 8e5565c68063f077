"""A schedule that makes no sense is refused with the reason; what merely looks like it is let through."""

from __future__ import annotations

import pytest

from kwire.testing.faults.bounds import RunSettings
from kwire.testing.faults.catalogue import KINDS, strike
from kwire.testing.faults.kind import FaultClaim, Need
from kwire.testing.faults.rules import check, problems
from kwire.testing.faults.schedule import MembersLine, Schedule, ScheduleError, TopicPlan
from kwire.testing.faults.schedule_text import parse
from kwire.testing.faults.targets import (
    AllBrokers,
    GroupCoordinator,
    LeaderOf,
    OneBroker,
    OneMember,
    OneTopic,
    PartitionOf,
    WholeGroup,
)

DOWN = ("broker-kill", "broker-stop", "broker-freeze")


def said(text: str) -> str:
    """Of a text that is refused."""
    with pytest.raises(ScheduleError) as raised:
        parse(f"{text}\nend 600s")
    return str(raised.value)


def allowed(text: str) -> Schedule:
    return parse(f"{text}\nend 600s")


# --- brokers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", DOWN)
@pytest.mark.parametrize("second", DOWN)
def test_two_of_three_brokers_are_never_down_together(first: str, second: str) -> None:
    text = f"at 10s {first} broker 0 for 10s\nat {{}}s {second} broker 1 for 10s"
    assert "more than 1 of 3 brokers are down, or catching up, at once" in said(text.format(15))
    assert "more than 1 of 3 brokers" in said(text.format(24)), "the first has had no time to catch up"
    allowed(text.format(25))


def test_of_five_brokers_two_may_be_down_and_three_may_not() -> None:
    two = "brokers 5\nat 10s broker-kill broker 0 for 10s\nat 12s broker-stop broker 1 for 10s"
    allowed(two)
    assert "more than 2 of 5 brokers" in said(f"{two}\nat 14s broker-freeze broker 2 for 10s")


def test_two_that_follow_each_other_are_not_counted_together() -> None:
    allowed(
        """
        brokers 5
        at 10s broker-kill broker 0 for 60s
        at 12s broker-stop broker 1 for 5s
        at 30s broker-stop broker 2 for 5s
        """
    )


@pytest.mark.parametrize("other", ["broker 0", "leader orders-0", "coordinator"])
def test_a_broker_is_not_taken_down_twice(other: str) -> None:
    """Who leads then may be the very one."""
    first = "brokers 5\nat 10s broker-kill broker 0 for 10s"
    assert "both claim a broker's process" in said(f"{first}\nat 12s broker-stop {other} for 5s")


def test_a_rolling_restart_is_alone_with_the_brokers() -> None:
    text = "brokers 5\nat 10s rolling-restart all for 30s\nat 20s broker-kill broker 0 for 5s"
    assert "it overlaps rolling-restart all at 10s: both claim a broker's process" in said(text)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if Need.THREE_BROKERS in kind.needs])
def test_with_two_brokers_nobody_takes_over(name: str) -> None:
    target = {"leader-move": "topic orders", "coordinator-move": "group"}
    target |= dict.fromkeys(("rolling-restart", "rolling-downgrade"), "all")
    text = f"at 10s {name} {target.get(name, 'leader orders-0')}".replace("election leader", "election partition")
    assert "it needs three brokers" in said(f"brokers 2\n{text}")
    allowed(text)


def test_a_broker_that_is_not_there_cannot_be_struck() -> None:
    assert "there is no broker 3; allowed: 0 to 2" in said("at 5s latency broker 3")


# --- the network ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("latency all", "latency broker 0"),
        ("latency leader orders-0", "latency broker 0"),
        ("partition-all all", "half-open broker 1"),
        ("chaos-dialer broker 1", "limit-data coordinator"),
        ("bit-flip all", "oversized-frame broker 2"),
        ("quota all", "quota all"),
        ("quota all 8KiB", "quota all 16KiB"),
    ],
)
def test_two_faults_do_not_claim_the_same_of_a_broker(first: str, second: str) -> None:
    assert "both claim" in said(f"at 10s {first} for 10s\nat 12s {second} for 10s")
    allowed(f"at 10s {first} for 10s\nat 30s {second} for 10s")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("latency broker 0", "latency broker 1"),
        ("latency all", "bandwidth all"),
        ("slicer all", "chaos-dialer all"),
        ("broker-kill broker 0", "latency broker 0"),
        ("broker-kill broker 0", "partition-broker broker 1"),
        ("consumer-freeze member 0", "partition-all all"),
    ],
)
def test_what_adds_up_may_stand_together(first: str, second: str) -> None:
    assert len(allowed(f"at 10s {first} for 10s\nat 12s {second} for 10s").steps) == 2


# --- members -------------------------------------------------------------------------------------------------


def test_a_member_suffers_one_thing_at_a_time() -> None:
    text = "at 10s consumer-kill member 0 for 10s\nat 12s consumer-freeze member {} for 10s"
    assert "it overlaps consumer-kill member 0 at 10s: both claim the member" in said(text.format(0))
    allowed(text.format(1))


def test_a_storm_leaves_no_member_in_peace() -> None:
    assert "both claim the member" in said("at 10s storm group for 20s\nat 15s consumer-kill member 1")
    assert "both claim who is in the group" in said("at 10s storm group for 20s\nat 15s consumer-join group")


def test_a_member_is_there_once_it_has_joined() -> None:
    text = "members 2\nat {}s consumer-join group\nat 20s consumer-kill member 2"
    assert "there is no member 2 by then; allowed: 0 to 1" in said(text.format(30))
    allowed(text.format(10))


def test_a_duplicate_needs_an_instance_id() -> None:
    text = "members 2 kwire classic{}\nmembers 2 kwire classic static\nat 10s duplicate-instance member {}"
    assert "it needs members with instance ids" in said(text.format("", 1))
    allowed(text.format("", 2))
    allowed(text.format(" static", 1))


def test_only_own_clients_take_orders() -> None:
    text = "members 1 {}\nmembers 1 confluent\nat 10s slow-consumer member {}"
    assert "it needs a client of the harness's own runner" in said(text.format("java", 0))
    assert "it needs a client of the harness's own runner" in said(text.format("./mine", 0))
    allowed(text.format("java", 1))
    allowed(text.format("kwire", 0))


def test_one_clock_is_set_at_a_time() -> None:
    assert "both claim the clock" in said("at 10s clock-jump group 1h for 9s\nat 12s clock-jump member 0 -1h for 9s")


# --- topics --------------------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_cannot_be_struck() -> None:
    assert "there is no topic invoices; allowed: orders" in said("at 10s partition-growth topic invoices")
    assert "orders has 6 partitions by then; allowed: 0 to 5" in said("at 10s broker-kill leader orders-6")


def test_a_partition_is_there_once_the_topic_has_grown() -> None:
    growth = "at 10s partition-growth topic orders 2"
    allowed(f"{growth}\nat 20s leader-move partition orders-7")
    assert "orders has 8 partitions by then" in said(f"{growth}\nat 20s leader-move partition orders-8")
    assert "orders has 6 partitions by then" in said(f"{growth}\nat 5s leader-move partition orders-7")


def test_what_is_deleted_is_not_struck_any_more() -> None:
    gone = "topic orders partitions 6\ntopic invoices partitions 1\nat 10s topic-delete topic orders"
    assert "there is no topic orders by then: it was deleted" in said(f"{gone}\nat 60s leader-move topic orders")
    allowed(f"{gone}\nat 60s leader-move topic invoices")
    assert "a second topic" in said(f"{gone}\nat 60s topic-delete topic invoices")


def test_a_topic_that_is_recreated_is_there_when_it_is_made() -> None:
    again = "at 10s topic-recreate topic orders partitions 2 for 5s"
    assert "it was deleted" in said(f"{again}\nat 14s broker-kill leader orders-0")
    assert "orders has 2 partitions by then" in said(f"{again}\nat 30s broker-kill leader orders-2")
    allowed(f"{again}\nat 30s broker-kill leader orders-1")


def test_partitions_of_a_topic_are_apart_and_the_topic_is_all_of_them() -> None:
    text = "at 10s leader-move {}\nat 11s leader-move {}"
    allowed(text.format("partition orders-0", "partition orders-1"))
    assert "both claim who leads" in said(text.format("partition orders-0", "topic orders"))
    assert "both claim who leads" in said(text.format("topic orders", "partition orders-1"))


def test_aborted_records_are_the_same_to_all_members_or_nobody_could_judge() -> None:
    text = "members 1{}\nmembers 2 kwire consumer{}\nat 10s open-transaction partition orders-0 {}"
    careful = " kwire consumer read-committed"
    refused = said(text.format(careful, "", "aborted"))
    assert "line 3: nobody can judge its aborted records" in refused
    assert "write 'read-committed' in every line of members, or in none" in refused
    allowed(text.format(careful, " read-committed", "aborted"))
    allowed(text.format("", "", "aborted"))
    allowed(text.format(careful, "", "committed"))


# --- the whole -----------------------------------------------------------------------------------------------


def test_faults_are_healed_by_the_end() -> None:
    with pytest.raises(ScheduleError, match="it is not over by the end, 20s"):
        parse("at 15s latency all for 6s\nend 20s")
    parse("at 14s latency all for 6s\nend 20s")


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (Schedule(brokers=0), "1 to 9 brokers are allowed"),
        (Schedule(brokers=10), "1 to 9 brokers are allowed"),
        (Schedule(topics=()), "there is no topic"),
        (Schedule(members=()), "there are 0 members; 1 to 100 are allowed"),
        (Schedule(members=(MembersLine(count=101),)), "there are 101 members; 1 to 100 are allowed"),
        (Schedule(members=(MembersLine(count=1, client=""),)), "a client's command is empty"),
        (Schedule(rate_per_second=0), "nothing is sent"),
        (Schedule(title="two\nlines"), "has to stand in one line"),
        (Schedule(topics=(TopicPlan(name="a", partitions=1),) * 2), "topic a is there twice"),
        (Schedule(topics=(TopicPlan(name="a", partitions=0),)), "topic a has 0 partitions; 1 to 1000 are"),
        (Schedule(topics=(TopicPlan(name="a b", partitions=1),)), "'a b' is no name of a topic"),
        (Schedule(settings=RunSettings(heartbeat_interval_ms=10_000)), "heartbeat_interval_ms has to be below"),
    ],
)
def test_a_world_that_cannot_be_is_refused(broken: Schedule, what: str) -> None:
    with pytest.raises(ScheduleError, match=what):
        check(broken)


def test_all_that_is_wrong_is_found_and_told_with_its_step() -> None:
    steps = (strike(5_000, "latency", OneBroker(7)), strike(50_000, "consumer-kill", OneMember(9), lasts_ms=20_000))
    schedule = Schedule(steps=steps)
    assert [problem.step for problem in problems(schedule)] == [0, 1, 1]
    with pytest.raises(ScheduleError, match="latency broker 7 at 5s: there is no broker 7") as raised:
        check(schedule)
    assert len(raised.value.problems) == 3


def test_every_claim_is_somebodys() -> None:
    """One that nobody makes would be a rule that cannot fire."""
    assert {claim for kind in KINDS.values() for claim in kind.claims} == set(FaultClaim)
    assert {need for kind in KINDS.values() for need in kind.needs} == set(Need)


TARGETS = {
    AllBrokers: "all",
    OneBroker: "broker 0",
    GroupCoordinator: "coordinator",
    WholeGroup: "group",
    LeaderOf: "leader a-0",
    OneMember: "member 0",
    PartitionOf: "partition a-0",
    OneTopic: "topic a",
}
TAKES_A_WHILE = [name for name, kind in KINDS.items() if kind.lasting is not None or kind.settles_ms]


@pytest.mark.parametrize("name", TAKES_A_WHILE)
def test_what_takes_a_while_does_not_strike_the_same_target_twice(name: str) -> None:
    world = "members 1 kwire classic static parallel-rebalance\ntopic a partitions 1\ntopic b partitions 1"
    for target in KINDS[name].targets:
        once = f"{world}\nat 10s {name} {TARGETS[target]}"
        allowed(once)
        again = said(f"{once}\nat 10.05s {name} {TARGETS[target]}")
        assert f"it overlaps {name}" in again or "it was deleted" in again


# --- two cursors ---------------------------------------------------------------------------------------------


def test_who_is_to_end_while_it_catches_up_has_to_do_so() -> None:
    allowed("members 2 kwire consumer parallel-rebalance\nat 10s catch-up-end member 1 handed-over closed for 5s")
    assert "write 'parallel-rebalance' in their line" in said("members 2\nat 10s catch-up-end member 1")


@pytest.mark.parametrize(
    ("members", "refused"),
    [
        ("members 1 kwire consumer parallel-rebalance\nmembers 1 kwire", "in every line of members, or in none"),
        ("members 1 java consumer parallel-rebalance", "not java"),
        ("members 1 kwire consumer parallel-rebalance auto-commit", "commit after each poll"),
    ],
)
def test_members_with_two_cursors_are_judged_where_all_are(members: str, refused: str) -> None:
    assert refused in said(members)
