"""`kwire faults`: what it is asked to run, its exit codes, and what it prints and writes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kwire.cli.commands import app
from kwire.cli.faults_output import ProgressLine
from kwire.model import TopicPartition
from kwire.testing.faults import harness
from kwire.testing.faults.order import Progress, RunOrder, RunOutcome, expected
from kwire.testing.faults.report.run import FaultRun
from kwire.testing.faults.schedule import Schedule
from kwire.testing.faults.schedule_text import render
from kwire.testing.faults.secured import unreadable
from kwire.testing.invariants import Ledger, Violation
from kwire.testing.invariants.ledger import Event, FaultBegan, FaultEnded, Polled, Sent
from kwire.testing.kafka import ClusterError

WRONG = Violation(rule="lost-write", at_ms=4_200.0, what="orders-0: nobody polled 7")
PARTITION = TopicPartition("orders", 0)
LEDGER = Ledger(
    [
        FaultBegan(at_ms=2_000, fault="broker-kill", detail="broker 1"),
        FaultEnded(at_ms=4_000, fault="broker-kill"),
        Sent(at_ms=4_100, partition=PARTITION, offset=0, value="0"),
        Polled(at_ms=4_200, member="member0.1", partition=PARTITION, offsets=(0,), values=("0",)),
    ]
)


class FakeHarness:
    """Runs nothing; answers with the violations that are given for a client."""

    def __init__(self, logs: Path) -> None:
        self.orders: list[RunOrder] = []
        self.violations: dict[str, tuple[Violation, ...]] = {}
        self.events: list[Event] = LEDGER.events
        self._logs = logs

    def run(self, order: RunOrder, watch: harness.Watch) -> RunOutcome:
        self.orders.append(order)
        watch(Progress(phase="running", at_ms=1_000, sent=5, faults=("broker-kill",)))
        run = FaultRun(
            name=order.name,
            ledger=Ledger(self.events),
            violations=self.violations.get(order.name, ()),
            expected=expected(order),
            replay=order.replay,
        )
        return RunOutcome(run=run, notes=("2 records were never acknowledged",), logs=self._logs)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHarness:
    logs = tmp_path / "logs"
    logs.mkdir()
    made = FakeHarness(logs)
    monkeypatch.setattr(harness, "run", made.run)
    return made


def test_a_scenario_is_run_and_passes(fake: FakeHarness, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["faults", "run", "--scenario", "row-01"])
    assert done.exit_code == 0
    assert "kwire passed" in done.stdout
    assert "note: 2 records were never acknowledged" in done.stdout
    assert "again: kwire faults run --scenario row-01" in done.stdout
    assert fake.orders[0].bounds
    assert not (tmp_path / "logs").exists()  # nobody needs what the members printed


def test_a_violation_is_exit_1_and_told_and_the_logs_stay(fake: FakeHarness, tmp_path: Path) -> None:
    fake.violations["kwire"] = (WRONG,) * 12
    done = CliRunner().invoke(app, ["faults", "run", "--scenario", "row-01", "--client", "kwire"])
    assert done.exit_code == 1
    assert done.stdout.count("VIOLATION lost-write at 4.200 s: orders-0: nobody polled 7") == 10
    assert "and 2 more" in done.stdout
    assert str(tmp_path / "logs") in done.stdout
    assert (tmp_path / "logs").exists()


def test_clients_are_compared_on_the_same_schedule(fake: FakeHarness) -> None:
    fake.violations["java"] = (WRONG,)
    done = CliRunner().invoke(app, ["faults", "run", "--seed", "7", "--seconds", "60", "-c", "kwire", "-c", "java"])
    assert done.exit_code == 1
    assert [order.name for order in fake.orders] == ["kwire", "java"]
    first, second = (order.schedule for order in fake.orders)
    assert first.steps == second.steps
    assert "0:02.0  broker-kill broker 1" in done.stdout  # how long each took over it, once for all
    assert {members.client for members in second.members} == {"java"}
    assert fake.orders[1].replay == "kwire faults run --seed 7 --seconds 60 --client java"


def test_a_late_recovery_tells_whether_the_brokers_were(fake: FakeHarness) -> None:
    fake.events = [
        FaultBegan(at_ms=1_000, fault="leader-move", detail="topic orders: to broker 1"),
        Sent(at_ms=1_100, partition=PARTITION, offset=0, value="0"),
        Sent(at_ms=2_500, partition=PARTITION, offset=1, value="1"),
        Polled(at_ms=2_600, member="member0.1", partition=PARTITION, offsets=(0, 1), values=("0", "1")),
    ]
    for clients in (["-c", "kwire"], ["-c", "kwire", "-c", "java"]):
        done = CliRunner().invoke(app, ["faults", "run", "--scenario", "row-03", *clients])
        assert done.exit_code == 1
        assert "late: for 1.40 s of it nothing could be written to orders-0 either" in done.stdout


def test_a_file_names_its_own_clients(fake: FakeHarness, tmp_path: Path) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text("members 1 kwire\nmembers 2 java\nend 10s\n")
    assert CliRunner().invoke(app, ["faults", "run", str(file)]).exit_code == 0
    assert fake.orders[0].name == "kwire and java"
    assert [members.count for members in fake.orders[0].schedule.members] == [1, 2]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("./mine --fast", "there is no program './mine' that can be run"),
        ("./mine 'fast", "No closing quotation"),
        ("", "there is no program '' that can be run"),
    ],
)
def test_a_command_that_is_none_is_said_before_kafka_is_started(fake: FakeHarness, command: str, problem: str) -> None:
    done = CliRunner().invoke(app, ["faults", "run", "--scenario", "row-01", "--command", command])
    assert (done.exit_code, done.stderr) == (2, f"kwire: {command} is no command: {problem}\n")
    assert not fake.orders


def test_any_command_is_a_client(fake: FakeHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(app, ["faults", "run", "--scenario", "row-01", "--command", "./mine --fast"])
    assert fake.orders[0].schedule.members[0].client == "./mine --fast"
    assert fake.orders[0].replay.endswith("--command './mine --fast'")


def test_the_group_protocol_is_that_of_all_members(fake: FakeHarness) -> None:
    CliRunner().invoke(app, ["faults", "run", "--scenario", "row-38", "--group-protocol", "consumer"])
    (members,) = fake.orders[0].schedule.members
    assert (members.protocol, members.assignor) == ("consumer", None)  # its assignor was one of the other protocol


def test_members_of_a_secured_run_log_in_and_what_was_drawn_does_without_tampered_answers(fake: FakeHarness) -> None:
    CliRunner().invoke(app, ["faults", "run", "--scenario", "row-01", "--secured"])
    assert fake.orders[0].secured
    assert fake.orders[0].replay == "kwire faults run --scenario row-01 --secured"
    for seed in range(5):
        CliRunner().invoke(app, ["faults", "run", "--seed", str(seed), "--secured"])
        CliRunner().invoke(app, ["faults", "run", "--seed", str(seed)])
    secured, plain = fake.orders[1::2], fake.orders[2::2]
    assert all(unreadable(order.schedule) == [] and order.schedule.steps for order in secured)
    assert any(unreadable(order.schedule) for order in plain)


def test_page_and_figures_are_written(fake: FakeHarness, tmp_path: Path) -> None:
    page, figures = tmp_path / "faults.html", tmp_path / "faults.json"
    fake.violations["confluent"] = (WRONG,)
    arguments = [
        "--scenario",
        "row-01",
        "-c",
        "kwire",
        "-c",
        "confluent",
        "--report",
        str(page),
        "--json",
        str(figures),
    ]
    assert CliRunner().invoke(app, ["faults", "run", *arguments]).exit_code == 1
    assert page.read_text().startswith("<!")
    runs = json.loads(figures.read_text())["runs"]
    assert [(run["name"], run["passed"]) for run in runs] == [("kwire", True), ("confluent", False)]
    assert runs[1]["replay"] == "kwire faults run --scenario row-01 --client confluent"
    assert runs[1]["notes"] == ["2 records were never acknowledged"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to run"),
        (["--seed", "1", "--scenario", "row-01"], "say what to run"),
        (["--scenario", "row-99"], "'row-99' is no scenario"),
        (["--scenario", "row-01", "--client", "sarama"], "sarama is no client"),
        (["--scenario", "row-01", "--group-protocol", "eager"], "eager is no group protocol"),
        (["nowhere.txt"], "nowhere.txt"),
    ],
)
def test_what_cannot_be_meant_is_exit_2(fake: FakeHarness, arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["faults", "run", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr
    assert fake.orders == []


def test_a_schedule_that_makes_no_sense_is_exit_2_with_a_line_for_each_problem(
    fake: FakeHarness, tmp_path: Path
) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text("at 5s broker-kill broker 9 for 10s\nat 5s consumer-kill member 9\nend 20s\n")
    done = CliRunner().invoke(app, ["faults", "run", str(file)])
    assert done.exit_code == 2
    assert "there is no broker 9" in done.stderr
    assert "there is no member 9" in done.stderr
    assert fake.orders == []


def test_what_cannot_be_run_here_is_exit_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_order: RunOrder, _watch: harness.Watch) -> RunOutcome:
        raise ClusterError("no Java here")

    monkeypatch.setattr(harness, "run", run)
    done = CliRunner().invoke(app, ["faults", "run", "--scenario", "row-01"])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "kwire: no Java here")


def test_a_client_that_cannot_be_run_does_not_take_the_others_figures_with_it(
    fake: FakeHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(order: RunOrder, watch: harness.Watch) -> RunOutcome:
        if order.name == "java":
            raise ClusterError("no Java here")
        return fake.run(order, watch)

    monkeypatch.setattr(harness, "run", run)
    figures = tmp_path / "faults.json"
    clients = ["-c", "kwire", "-c", "java", "-c", "confluent"]
    done = CliRunner().invoke(app, ["faults", "run", "--scenario", "row-01", *clients, "--json", str(figures)])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "kwire: no Java here")
    assert [run["name"] for run in json.loads(figures.read_text())["runs"]] == ["kwire", "confluent"]
    assert "confluent passed" in done.stdout


def test_figures_of_a_client_are_written_before_the_next_one_runs(
    fake: FakeHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(order: RunOrder, watch: harness.Watch) -> RunOutcome:
        if order.name == "java":
            raise KeyboardInterrupt
        return fake.run(order, watch)

    monkeypatch.setattr(harness, "run", run)
    figures = tmp_path / "faults.json"
    arguments = ["--scenario", "row-01", "-c", "kwire", "-c", "java", "--json", str(figures)]
    assert CliRunner().invoke(app, ["faults", "run", *arguments]).exit_code == 130
    assert [run["name"] for run in json.loads(figures.read_text())["runs"]] == ["kwire"]


def test_ctrl_c_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_order: RunOrder, _watch: harness.Watch) -> RunOutcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(harness, "run", run)
    assert CliRunner().invoke(app, ["faults", "run", "--scenario", "row-01"]).exit_code == 130


def test_faults_and_scenarios_are_listed() -> None:
    faults = CliRunner().invoke(app, ["faults", "list"]).stdout
    assert "broker-kill: A broker's process is killed" in faults
    rows = CliRunner().invoke(app, ["faults", "scenarios"]).stdout.splitlines()
    assert "row-01    45 s  the process of a leader is killed" in rows
    assert len(rows) > 30


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, *steps: Progress) -> str:
    with ProgressLine("kwire", end_ms=45_000, stream=stream) as line:
        for step in steps:
            line(step)
    return stream.getvalue()


def test_progress_is_a_line_for_each_change_where_nobody_watches() -> None:
    running = Progress(phase="running", at_ms=12_000, sent=500, unread=3, members=3)
    later = Progress(phase="running", at_ms=12_500, sent=700, unread=3, members=3)
    struck = Progress(phase="running", at_ms=13_000, sent=900, unread=9, members=3, faults=("broker-kill",))
    assert told(io.StringIO(), running, later, struck).splitlines() == [
        "kwire  12 of 45 s  running  500 sent, 3 unread, 3 members",
        "kwire  13 of 45 s  running  900 sent, 9 unread, 3 members  broker-kill",
    ]


def test_progress_is_one_line_on_a_terminal_and_gone_in_the_end() -> None:
    text = told(Terminal(), Progress(phase="running"), Progress(phase="draining"))
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")
    assert text.count("\r\x1b[K") == 3


def test_the_schedules_of_orders_can_be_written_and_read_again(fake: FakeHarness) -> None:
    CliRunner().invoke(app, ["faults", "run", "--seed", "3", "--seconds", "60", "-c", "confluent"])
    assert isinstance(fake.orders[0].schedule, Schedule)
    assert "confluent" in render(fake.orders[0].schedule)
