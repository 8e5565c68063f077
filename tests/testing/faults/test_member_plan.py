"""What a schedule says of a member becomes a command and a file of settings, in each client's own words."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.config import ConsumerConfig, IsolationLevel
from kwire.testing.faults.bounds import RunSettings
from kwire.testing.faults.catalogue import strike
from kwire.testing.faults.member_plan import JAVA_STRATEGIES, MemberPlan
from kwire.testing.faults.schedule import MembersLine, Schedule, TopicPlan
from kwire.testing.faults.targets import OneMember
from kwire.testing.kafka import ClusterError
from kwire.verifiable_consumer.arguments import parse

CONFIG, ORDERS = Path("member.properties"), Path("orders.json")
PLAN = MemberPlan(number=1, client="kwire", protocol="classic", topics=("orders",), settings=RunSettings())


def command(plan: MemberPlan) -> list[str]:
    return plan.command(bootstrap_servers="a:1,b:2", group_id="g", config=CONFIG, orders=ORDERS)


def flag(plan: MemberPlan, name: str) -> str | None:
    words = command(plan)
    return words[words.index(name) + 1] if name in words else None


def test_members_are_what_their_lines_say() -> None:
    schedule = Schedule(
        members=(
            MembersLine(count=2, protocol="classic", static=True, assignor="sticky"),
            MembersLine(count=1, client="java", committing="auto", read_committed=True),
        ),
        topics=(TopicPlan(name="orders", partitions=1), TopicPlan(name="bills", partitions=1)),
        settings=RunSettings(session_timeout_ms=7_000),
    )
    first, last = MemberPlan.of(1, schedule), MemberPlan.of(2, schedule)
    assert first == MemberPlan(
        number=1,
        client="kwire",
        protocol="classic",
        topics=("orders", "bills"),
        assignor="sticky",
        instance_id="member1",
        settings=RunSettings(session_timeout_ms=7_000),
    )
    assert (last.client, last.instance_id, last.committing, last.read_committed) == ("java", None, "auto", True)
    assert (first.comes_back, last.comes_back) == (False, True)  # Java's program ends by what others go on after


def test_polls_are_small_where_members_may_be_told_to_be_slow() -> None:
    slow = strike(5_000, "slow-consumer", OneMember(0), lasts_ms=1_000)
    found = [MemberPlan.of(0, Schedule(steps=steps)).file_settings("m") for steps in ((), (slow,))]
    assert [settings["max.poll.records"] for settings in found] == ["500", "50"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("session_timeout_ms", [10_000, 20_000])
def test_kwire_takes_what_it_is_given(protocol: str, session_timeout_ms: int, tmp_path: Path) -> None:
    settings = RunSettings(session_timeout_ms=session_timeout_ms, close_timeout_ms=4_000)
    plan = replace(
        PLAN,
        protocol="classic" if protocol == "classic" else "consumer",
        topics=("orders", "bills"),
        instance_id="member1",
        read_committed=True,
        settings=settings,
    )
    config = tmp_path / "member.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in plan.file_settings("member1.2").items()))
    words = plan.command(bootstrap_servers="a:1,b:2", group_id="g", config=config, orders=ORDERS)
    assert words[:3] == [sys.executable, "-m", "kwire.verifiable_consumer"]
    options = parse(words[3:])
    assert (options.topic, options.verbose, options.auto_commit, options.orders) == (
        "orders,bills",
        True,
        False,
        ORDERS,
    )
    found = ConsumerConfig.of(options.settings)
    assert (found.client_id, found.group_instance_id, found.close_timeout_ms) == ("member1.2", "member1", 4_000)
    assert (found.request_timeout_ms, found.metadata_max_age_ms) == (8_000, 5_000)
    assert found.max_poll_interval_ms == max(15_000, session_timeout_ms)
    assert found.isolation_level is IsolationLevel.READ_COMMITTED
    if protocol == "classic":
        assert (found.session_timeout_ms, found.heartbeat_interval_ms) == (session_timeout_ms, 1_000)


@pytest.mark.parametrize("client", ["kwire", "confluent"])
def test_own_runners_take_orders_and_names_of_the_wire(client: str) -> None:
    plan = replace(PLAN, client=client, assignor="cooperative-sticky")
    assert flag(plan, "--orders") == str(ORDERS)
    assert flag(plan, "--assignment-strategy") == "cooperative-sticky"


def test_a_command_is_given_kafkas_flags() -> None:
    plan = replace(PLAN, client="/opt/my consumer --fast", assignor="sticky", committing="auto")
    assert command(replace(plan, client="'/opt/my consumer' --fast"))[:3] == [
        "/opt/my consumer",
        "--fast",
        "--bootstrap-server",
    ]
    assert flag(plan, "--assignment-strategy") == JAVA_STRATEGIES["sticky"]
    assert flag(plan, "--orders") is None
    assert "--enable-autocommit" in command(plan)
    assert "--verbose" in command(plan)


def test_the_consumer_protocol_has_its_own_flags() -> None:
    plan = replace(PLAN, protocol="consumer", assignor="range")
    assert (flag(plan, "--group-protocol"), flag(plan, "--group-remote-assignor")) == ("consumer", "range")
    assert flag(plan, "--session-timeout") is None
    assert "heartbeat.interval.ms" not in plan.file_settings("member1.1")


def test_librdkafka_is_told_in_its_own_names() -> None:
    settings = replace(PLAN, client="confluent").file_settings("member1.1")
    assert settings["socket.timeout.ms"] == "8000"
    assert settings["topic.metadata.refresh.interval.ms"] == "5000"
    assert settings["fetch.wait.max.ms"] == "500"
    assert "request.timeout.ms" not in settings


def test_javas_program_reads_one_topic_alone() -> None:
    with pytest.raises(ClusterError, match="one topic, not orders, bills"):
        command(replace(PLAN, client="java", topics=("orders", "bills")))


def test_how_long_a_close_may_take_is_kwires_setting_and_others_own_affair() -> None:
    assert PLAN.closes_within_ms == 5_000.0
    assert replace(PLAN, client="java").closes_within_ms == 45_000.0


def test_who_catches_up_is_told_so_and_takes_many_polls_for_it() -> None:
    plan = MemberPlan.of(0, Schedule(members=(MembersLine(count=1, catches_up=True),)))
    settings = plan.file_settings("m")
    assert settings["enable.parallel.rebalance"] == "true"
    assert settings["parallel.rebalance.min.lag.records"] == "100"
    assert settings["max.poll.records"] == "50"
    assert not any("parallel" in name for name in PLAN.file_settings("m"))
