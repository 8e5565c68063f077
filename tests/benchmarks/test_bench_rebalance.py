"""`scripts/bench rebalance`: an event is over when everything flows again, not sooner; no missed target is hidden."""

from __future__ import annotations

import dataclasses
import io
import json
import queue
import time
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import cli as benchmarks_cli
from benchmarks.rebalance import measure as rebalance
from benchmarks.rebalance.group import StuckError
from benchmarks.rebalance.ledger import Ledger, Line
from benchmarks.rebalance.measure import SETTINGS, ExclusiveTurn, offered, run_together, sharing
from benchmarks.rebalance.member import POLL_S, consume, poll_s
from benchmarks.rebalance.report import Result, misses, print_table, ratio
from kwire import ConsumerConfig

SECOND_NS = 1_000_000_000


class Group:
    """Members a and b own two partitions each; what they say from here on is up to the test."""

    def __init__(self) -> None:
        self.ledger = Ledger(4)
        for name, partitions in (("a", (0, 1)), ("b", (2, 3))):
            self.ledger.enter(name)
            self.say(name, "assigned", 10, *partitions)

    def say(self, member: str, kind: str, at_ns: int, *partitions: int) -> None:
        self.ledger.hear(member, Line(kind, at_ns, partitions))


def result(participant: str, *rounds_ms: float | None, event: str = "join", failures: tuple[str, ...] = ()) -> Result:
    return Result(setting="s", event=event, participant=participant, rounds_ms=rounds_ms, failures=failures)


# --- when an event is over -------------------------------------------------------------------------------------------


def test_a_line_is_a_kind_a_time_and_partitions() -> None:
    assert Line.parse("assigned 17 3,11\n") == Line("assigned", 17, (3, 11))
    assert Line.parse("closing 18 \n") == Line("closing", 18, ())


def test_a_join_is_over_with_the_first_record_of_the_last_partition_at_its_new_owner() -> None:
    group = Group()
    for name in ("c", "d"):
        group.ledger.enter(name)
    group.ledger.begin_with("d", "subscribing")
    group.say("c", "assigned", 50, 3)
    group.say("d", "subscribing", 100)
    group.say("a", "progress", 110, 0)
    group.say("a", "revoked", 120, 1)
    group.say("b", "progress", 125, 2, 3)
    group.say("b", "revoked", 130, 3)
    group.say("d", "assigned", 140, 1)
    assert group.ledger.took_ns() is None
    group.say("c", "progress", 150, 3)
    assert group.ledger.took_ns() is None
    group.say("d", "progress", 190, 1)
    group.say("d", "progress", 240, 1)
    assert group.ledger.took_ns() == 90
    assert group.ledger.last_assigned_ns() == 140


def test_what_everybody_gave_back_has_to_flow_again_even_at_its_old_owner() -> None:
    group = Group()
    group.ledger.enter("c")
    group.ledger.enter("d")
    group.ledger.begin_at(100)
    for name, partitions in (("a", (0, 1)), ("b", (2, 3))):
        group.say(name, "progress", 105, *partitions)
        group.say(name, "revoked", 110, *partitions)
    for number, name in enumerate("abcd"):
        group.say(name, "assigned", 120, number)
        assert group.ledger.took_ns() is None
    for number, name in enumerate("abcd"):
        assert group.ledger.took_ns() is None
        group.say(name, "progress", 130 + number, number)
    assert group.ledger.took_ns() == 33


def test_a_leave_begins_when_the_member_says_so_and_its_last_words_do_not_count() -> None:
    group = Group()
    group.ledger.leave("b")
    group.ledger.begin_with("b", "closing")
    group.say("a", "progress", 90, 0, 1)
    group.say("b", "progress", 95, 2, 3)
    assert group.ledger.describe() == "it has not begun"
    group.say("b", "closing", 100)
    group.say("b", "revoked", 101, 2, 3)
    group.say("a", "assigned", 120, 2, 3)
    assert group.ledger.describe() == "a owns [0, 1, 2, 3]; no progress of [0, 1, 2, 3]"
    group.say("a", "progress", 130, 0, 1, 2, 3)
    assert group.ledger.took_ns() == 30


def test_a_group_with_two_owners_of_a_partition_is_not_done() -> None:
    group = Group()
    group.ledger.begin_at(100)
    group.say("a", "assigned", 110, 2)
    group.say("b", "revoked", 111, 3)
    group.say("b", "assigned", 112, 0)
    for name in "ab":
        group.say(name, "progress", 120, 0, 1, 2, 3)
    assert group.ledger.took_ns() is None


# --- who may run when ------------------------------------------------------------------------------------------------


def test_settings_of_seconds_share_their_time_and_a_quick_one_is_alone() -> None:
    together = sharing(SETTINGS)
    assert [[setting.heartbeat_ms for setting in each] for each in together] == [[3_000, 3_000, 5_000], [100]]
    assert sharing(SETTINGS[-1:]) == [[SETTINGS[-1]]]


class Waiting:
    """A run that goes on until everything is over, or fails at once."""

    def __init__(self, exclusive_turn: ExclusiveTurn, error: Exception | None = None) -> None:
        self._exclusive_turn = exclusive_turn
        self._error = error

    def run(self, rounds: int) -> list[Result]:
        if self._error is not None:
            raise self._error
        while not self._exclusive_turn.is_over:
            time.sleep(0.001)
        return []


def test_when_one_setting_fails_the_others_do_not_go_on() -> None:
    exclusive_turn = ExclusiveTurn()
    runs = [Waiting(exclusive_turn), Waiting(exclusive_turn, StuckError("why"))]
    with pytest.raises(StuckError, match="why"):
        run_together(runs, exclusive_turn, rounds=9)


# --- the members -----------------------------------------------------------------------------------------------------


class TwoPolls:
    """A client that is told to close while it polls for the second time."""

    def __init__(self, commands: queue.SimpleQueue[str]) -> None:
        self.calls: list[str] = []
        self._commands = commands

    def subscribe(self) -> None:
        self.calls.append("subscribe")

    def poll(self, timeout_s: float) -> set[int]:
        assert timeout_s == POLL_S
        if self.calls[-1] == "poll":
            self._commands.put("close 0\n")
            return set()
        self.calls.append("poll")
        return {7, 3}

    def close(self) -> None:
        self.calls.append("close")


def test_a_member_tells_its_life(capsys: pytest.CaptureFixture[str]) -> None:
    commands: queue.SimpleQueue[str] = queue.SimpleQueue()
    client = TwoPolls(commands)
    consume(client, commands)
    lines = [Line.parse(text) for text in capsys.readouterr().out.splitlines()]
    assert [line.kind for line in lines] == ["subscribing", "progress", "closing", "closed"]
    assert lines[1].partitions == (3, 7)
    assert sorted(line.at_ns for line in lines) == [line.at_ns for line in lines]
    assert client.calls == ["subscribe", "poll", "close"]
    assert commands.empty()


def test_a_member_polls_no_longer_than_until_it_is_to_close() -> None:
    assert poll_s(None) == POLL_S
    assert poll_s(time.monotonic_ns() + 3600 * SECOND_NS) == POLL_S
    assert 0 < poll_s(time.monotonic_ns() + int(POLL_S / 2 * 1e9)) <= POLL_S / 2
    assert poll_s(time.monotonic_ns() - 1) == 0


def test_kwire_takes_every_setting_that_is_measured() -> None:
    assert {setting.protocol for setting in offered()} == {"classic", "consumer"}
    for setting in offered():
        config = ConsumerConfig.of({**setting.of_members("localhost:1"), "group.id": "g"})
        assert config.group_protocol.value == setting.protocol


def test_the_broker_is_told_of_sessions_in_one_protocol_and_members_in_the_other() -> None:
    for setting in SETTINGS:
        told = setting.of_members("localhost:1") if setting.protocol == "classic" else setting.of_group()
        assert [value for name, value in told.items() if name.endswith("session.timeout.ms")] == ["6000"]
        assert [value for name, value in told.items() if name.endswith("heartbeat.interval.ms")] == [
            str(setting.heartbeat_ms)
        ]


# --- what comes of it ------------------------------------------------------------------------------------------------


def test_libraries_are_compared_round_by_round_because_rounds_differ_more_than_they_do() -> None:
    own = result("kwire", 110.0, 2200.0, 500.0, None)
    results = [
        own,
        result("Java", 100.0, 2000.0, 1000.0, 10.0),
        result("librdkafka", 200.0, None, 1000.0, 10.0),
        result("Java", 1.0, event="leave"),
    ]
    assert ratio(results, own) == pytest.approx(1.1)
    assert misses(results) == []


def test_missed_targets_are_named() -> None:
    slow = [result("kwire", 111.0), result("Java", 100.0), result("librdkafka", 300.0)]
    assert misses(slow) == ["s, join: 1.11 times another"]
    stuck = [result("kwire", 1.0, None, failures=("why",)), result("Java", 100.0, 100.0)]
    assert misses(stuck) == ["s, join: stuck: why"]
    assert misses([result("kwire", None), result("Java", 100.0)]) == ["s, join: inf times another"]
    assert misses([result("kwire", 100.0), result("Java", None)]) == []


def test_the_table_has_medians_ends_and_ratios() -> None:
    printed = io.StringIO()
    found = [result("kwire", 90.0, 300.0, 1100.0), result("Java", 200.0, 200.0, 1.0)]
    print_table([*found, result("librdkafka", None, None, None)], Console(width=120, file=printed))
    rows = [line.replace("│", " ").split() for line in printed.getvalue().splitlines() if "│" in line]
    assert rows == [
        ["s", "join", "kwire", "300", "90", "1,100", "3", "1.50"],
        ["Java", "200", "1", "200", "3"],
        ["librdkafka", "inf", "inf", "inf", "0"],
    ]


def test_the_command_writes_json_and_fails_when_a_target_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    found = [
        dataclasses.replace(result("kwire", 120.04), left_ms=(2500.09,)),
        dataclasses.replace(result("Java", 100.0), left_ms=(None,)),
    ]

    def run(**options: object) -> list[Result]:
        asked.append(options["chosen"])
        return found

    monkeypatch.setattr(rebalance, "run", run)
    assert benchmarks_cli.main(["rebalance", "--only", "0.1", "--json", str(tmp_path / "out.json")]) == 1
    assert asked == [[SETTINGS[-1]]]
    assert "MISSED s, join: 1.20 times another" in capsys.readouterr().out
    rows = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [row["rounds_ms"] for row in rows] == [[120.0], [100.0]]
    assert [row["left_ms"] for row in rows] == [[2500.1], [None]]
    found.pop(0)
    assert benchmarks_cli.main(["rebalance"]) == 0


def test_a_group_that_cannot_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(**options: object) -> list[Result]:
        raise StuckError("no progress")

    monkeypatch.setattr(rebalance, "run", run)
    assert benchmarks_cli.main(["rebalance"]) == 1
    assert capsys.readouterr().err == "scripts/bench: no progress\n"
