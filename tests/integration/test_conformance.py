"""The conformance suite against a real Kafka, which has to pass it, and the ways to call the suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.conformance.report import CaseStatus
from kwire.conformance.runner import run
from kwire.protocol.registry import request_classes

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from kwire.conformance.report import Report
    from tests.integration.kafkas import SharedKafka

pytestmark = pytest.mark.only("kafka", reason="tests/testing/cluster/test_cluster_conformance.py judges the other")

TIMEOUT_S = 60.0
TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def report(kafka: SharedKafka) -> Report:
    return run(kafka.bootstrap_servers)


def test_real_kafka_conforms(report: Report) -> None:
    assert [f"{result}: {result.reason}" for result in report.of(CaseStatus.FAILED)] == []


def test_every_version_that_both_have_was_spoken(report: Report) -> None:
    not_offered = {(result.api, result.version) for result in report.of(CaseStatus.NOT_OFFERED)}
    declared = {
        (request.__name__.removesuffix("Request"), version)
        for request in request_classes().values()
        for version in request.versions
    }
    spoken = {(api, version) for api, versions in report.api_versions().items() for version in versions}
    assert declared - not_offered <= spoken


def test_nothing_is_left_behind(report: Report, admin: AdminClient) -> None:
    assert report.leftovers == ()
    groups = [group.group_id for group in admin.list_consumer_groups().result(TIMEOUT_S).valid]
    names = [*admin.list_topics(timeout=TIMEOUT_S).topics, *groups]
    assert [name for name in names if name.startswith(report.prefix)] == []


def test_the_command_reports_and_exits_with_0(kafka: SharedKafka, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    options = ["--bootstrap", kafka.bootstrap_servers, "--only", "Heartbeat", "--json", str(file)]
    done = call("-m", "kwire", "conformance", *options)
    assert done.returncode == 0, done.stderr
    assert " 12  Heartbeat                   0-4" in done.stdout
    found = json.loads(file.read_text())
    assert (found["failed"], found["api_versions"]) == (0, {"Heartbeat": [0, 1, 2, 3, 4]})


def test_a_pattern_that_matches_nothing_is_a_mistake(kafka: SharedKafka) -> None:
    done = call("-m", "kwire", "conformance", "--bootstrap", kafka.bootstrap_servers, "--only", "Heartbit")
    assert (done.returncode, done.stderr) == (2, "kwire: no check is called 'Heartbit'; --verbose shows them all\n")


def test_the_plugin_makes_a_test_of_each_case(kafka: SharedKafka, tmp_path: Path) -> None:
    own = tmp_path / "test_own.py"
    own.write_text("def test_own() -> None: pass\n")
    alone = plugin(kafka, tmp_path, "-k", "Heartbeat and takes")
    assert "5 passed" in alone, alone
    beside = plugin(kafka, tmp_path, str(own), "-k", "test_own or (Heartbeat and takes)")
    assert "6 passed" in beside, beside


def plugin(kafka: SharedKafka, directory: Path, *options: str) -> str:
    own = ["-p", "kwire.conformance.plugin", "-p", "no:cacheprovider", "--kafka-bootstrap", kafka.bootstrap_servers]
    return call("-m", "pytest", *own, *options, directory=directory).stdout


def call(*words: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(TOP)},
    )
