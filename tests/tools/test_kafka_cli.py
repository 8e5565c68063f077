"""`scripts/kafka`: what it prints, how it exits, and one whole life of a cluster left running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import MissingSoftwareError
from kwire.testing.kafka.node import running_processes
from kwire.testing.kafka.probe import known_brokers
from tools import brokers

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where clusters live, instead of the clone's own place."""
    monkeypatch.setattr(brokers, "RUNS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["env", "status"])
def test_without_a_cluster_it_says_how_to_start_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert brokers.main([command, "--name", "other"]) == 1
    problem = "no Kafka is running in this clone; start one: scripts/kafka up --name other"
    assert capsys.readouterr() == ("", f"scripts/kafka: {problem}\n")


def test_down_without_a_cluster_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert brokers.main(["down"]) == 0
    assert capsys.readouterr().out == "no Kafka was running\n"


@pytest.mark.parametrize(("error", "code"), [(MissingSoftwareError("install it"), 2), (ClusterError("no luck"), 1)])
def test_a_failure_is_one_line_and_an_exit_code(
    error: ClusterError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(version: str | None) -> None:
        raise error

    monkeypatch.setattr("kwire.testing.kafka.cluster.ensure_kafka", fail)
    assert brokers.main(["up"]) == code
    assert capsys.readouterr() == ("", f"scripts/kafka: {error}\n")


@pytest.mark.parametrize("words", [[], ["up", "many"], ["up", "--name", "../x"], ["sideways"]])
def test_words_it_does_not_know_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        brokers.main(words)


@pytest.mark.integration
def test_a_cluster_stays_up_until_it_is_taken_down(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    try:
        assert brokers.main(["up"]) == 0
        assert "Kafka is up (1 broker" in capsys.readouterr().out
        assert brokers.main(["env"]) == 0
        exported = capsys.readouterr().out.strip()
        host, _, port = exported.removeprefix("export KWIRE_BOOTSTRAP_SERVERS=").partition(":")
        assert known_brokers(host, int(port)) == {0}

        assert brokers.main(["up"]) == 0
        assert capsys.readouterr().out == f"running already: {host}:{port}\n"
        assert brokers.main(["up", "3"]) == 1
        assert "stop it first: scripts/kafka down" in capsys.readouterr().err
        found = running_processes(runs / "default" / "broker-0")
        assert found is not None
        assert brokers.main(["status"]) == 0
        assert f"broker-0: running, process {found.broker}, log: " in capsys.readouterr().out
    finally:
        assert brokers.main(["down"]) == 0
    assert capsys.readouterr().out == "stopped 1 broker(s)\n"
    assert known_brokers(host, int(port)) == frozenset()
    assert not (runs / "default").exists()
