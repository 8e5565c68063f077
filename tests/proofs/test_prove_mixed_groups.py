"""`scripts/prove mixed-groups`: what it tells of the judgement, and how it starts members."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
import typer
from rich.console import Console

from proofs.mixed_groups.member_rules import Rebalancing
from proofs.mixed_groups.members import Group, Kind, member_command
from proofs.mixed_groups.prove import leaders_by_kind, mixed_groups, summary, table
from proofs.mixed_groups.rules import Cause, Silence, Verdict
from proofs.mixed_groups.trial import Result


def group(strategy: str | None) -> Group:
    return Group(
        bootstrap_servers="localhost:1",
        group_id="mixed",
        topic="numbers",
        partitions=6,
        strategy=strategy,
        session_timeout_ms=6_000,
        directory=Path("unused"),
    )


def result() -> Result:
    verdict = Verdict(produced=100, consumed=103)
    verdict.duplicates.update({(Cause.KILLED, "java"): 2, (Cause.REFUSED, "kwire"): 1})
    verdict.refused_commits["kwire", "rebalancing"] = 7
    verdict.largest_silence = Silence(partition=3, start_ms=1_000, end_ms=1_640, counted_ms=640)
    verdict.violations.append("partition 0 had two owners")
    return Result(
        scenario="range", verdict=verdict, changes=["join kwire-0"], leaders={"kwire": 4, "java": 0, "confluent": 2}
    )


def test_leaders_are_counted_by_client_as_the_coordinator_tells() -> None:
    told = "INFO Assignment received from leader {}-12ab for group {} for generation 3. The group has 2 members"
    log = "\n".join(
        [
            told.format("kwire-0", "mixed-range"),
            told.format("confluent-11", "mixed-range"),
            told.format("kwire-3", "mixed-range"),
            told.format("java-1", "mixed-sticky"),
            "INFO Preparing to rebalance group mixed-range",
        ]
    )
    assert leaders_by_kind(log, "mixed-range") == {"kwire": 2, "java": 0, "confluent": 1}


def test_each_client_gets_the_flags_it_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs.mixed_groups.members.verifiable_consumer_command", lambda *flags: ["java", *flags])
    config = Path("member.properties")
    kwire = member_command(Kind.KWIRE, group("range"), config)
    assert kwire[1:3] == ["-m", "kwire.verifiable_consumer"]
    assert kwire[-4:] == ["--assignment-strategy", "range", "--session-timeout", "6000"]
    java = member_command(Kind.JAVA, group("sticky"), config)
    assert java[0] == "java"
    assert "org.apache.kafka.clients.consumer.StickyAssignor" in java
    confluent = member_command(Kind.CONFLUENT, group(None), config)
    assert Path(confluent[1]).name == "confluent_member.py"
    assert confluent[-2:] == ["--group-protocol", "consumer"]
    assert "--session-timeout" not in confluent  # with KIP-848 it is the broker's


@pytest.mark.parametrize(
    ("strategy", "rebalancing"),
    [
        ("range", Rebalancing.EAGER),
        ("roundrobin", Rebalancing.EAGER),
        ("sticky", Rebalancing.EAGER),
        ("cooperative-sticky", Rebalancing.COOPERATIVE),
        (None, Rebalancing.CONSUMER),
    ],
)
def test_each_way_of_assigning_has_its_judge(strategy: str | None, rebalancing: Rebalancing) -> None:
    assert group(strategy).rebalancing is rebalancing


def test_figures_are_told_in_full() -> None:
    console = Console(width=200, file=StringIO())
    with console.capture() as printed:
        console.print(table([result()]))
    row = next(line for line in printed.get().splitlines() if "range" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        *("range", "1", "0", "0", "kwire:4 confluent:2", "100", "0", "2", "1", "0", "1", "0", "640")
    ]
    assert "7 commits of kwire refused: rebalancing" in summary(result())
    told = json.loads(json.dumps(result().to_json()))
    assert told["duplicates"] == {"killed, java": 2, "commit refused, kwire": 1}
    assert told["largest_silence_ms"] == 640
    assert told["violations"] == ["partition 0 had two owners"]


def test_what_cannot_be_done_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="no scenario chaos"):
        mixed_groups(scenario=["range", "chaos"])
    (tmp_path / "old").touch()
    with pytest.raises(typer.BadParameter, match="is not empty"):
        mixed_groups(logs=tmp_path)
