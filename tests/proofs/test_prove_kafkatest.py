"""`scripts/prove kafkatest`: which of Kafka's system tests are run, what is changed in them, and what is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from kwire.testing.kafka import ClusterError
from proofs.kafkatest import running
from proofs.kafkatest.cases import Case, not_applicable, parse_collected
from proofs.kafkatest.installation import follow_moves
from proofs.kafkatest.results import BEGIN, END, Results
from proofs.kafkatest.running import Client, Folders, Outcome, globals_for, read_report
from proofs.kafkatest.sources import CHANGES, NoTestsError, apply, copy_tests, find_checkout
from proofs.kafkatest.start_kwire import for_kwire

COLLECTED = """\
Collected 3 tests:
    <module=kafkatest.tests.client.consumer_test, cls=OffsetTest, function=test_bounce, injected_args={'all': True, \
'group_protocol': 'classic', 'metadata_quorum': 'ISOLATED_KRAFT'}, file=/somewhere/consumer_test.py, ignore=False>
    <module=kafkatest.tests.client.consumer_test, cls=OffsetTest, function=test_bounce, injected_args={'all': True, \
'group_protocol': 'classic', 'metadata_quorum': 'ISOLATED_KRAFT'}, file=/somewhere/consumer_test.py, ignore=False>
    <module=kafkatest.tests.client.truncation_test, cls=TruncationTest, function=test_it, injected_args=None, file=/x>
"""
BOUNCE, TRUNCATION = parse_collected(COLLECTED)
TAKEN = {"kafka": "4.4.0", "tests": "abc", "tests_version": "4.0", "ducktape": "0.17.0"}


def case(**arguments: str | bool) -> Case:
    return Case(file="a_test.py", test_class="A", function="test", arguments=arguments)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    (tmp_path / "page.md").write_text(f"before\n{BEGIN}old\n{END}after\n")
    return Results(tmp_path / "known.json", tmp_path / "page.md")


def test_each_test_is_collected_once_and_named_as_ducktape_takes_it() -> None:
    arguments = '{"all":true,"group_protocol":"classic","metadata_quorum":"ISOLATED_KRAFT"}'
    assert BOUNCE.symbol == f"kafkatest/tests/client/consumer_test.py::OffsetTest.test_bounce@{arguments}"
    assert TRUNCATION.symbol == "kafkatest/tests/client/truncation_test.py::TruncationTest.test_it"
    assert str(BOUNCE) == "OffsetTest.test_bounce(all=True, group_protocol=classic)"


@pytest.mark.parametrize(
    ("left_out", "why"),
    [
        (case(metadata_quorum="ZK"), "ZooKeeper"),
        (case(use_new_coordinator=False), "old coordinator"),
        (case(consumer_version="3.8.0"), "older consumers"),
        (case(broker_type="controller"), "controller"),
        (case(security_protocol="SASL_SSL"), "Kerberos"),
        (case(security_protocol="SASL_SSL", client_sasl_mechanism="PLAIN"), "Kerberos"),
        (
            case(
                security_protocol="SASL_SSL", client_sasl_mechanism="PLAIN", interbroker_sasl_mechanism="SCRAM-SHA-512"
            ),
            "SCRAM",
        ),
    ],
)
def test_what_cannot_be_run_here_says_why(left_out: Case, why: str) -> None:
    assert why in str(not_applicable(left_out))


@pytest.mark.parametrize("run", [BOUNCE, TRUNCATION, case(security_protocol="SSL"), case(consumer_version="dev")])
def test_the_others_are_run(run: Case) -> None:
    assert not_applicable(run) is None


def test_without_a_checkout_the_command_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KAFKA_CHECKOUT", raising=False)
    with pytest.raises(NoTestsError, match=r"clone Apache Kafka's public repository .* --checkout PATH"):
        find_checkout(None)
    with pytest.raises(NoTestsError, match="has no tests/kafkatest"):
        find_checkout(tmp_path)


def checkout_with(folder: Path) -> Path:
    """A checkout whose files have just what is to be changed."""
    for change in CHANGES:
        file = folder / "tests/kafkatest" / change.file
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text() if file.exists() else ""
        file.write_text(before + change.old)
    return folder


def test_the_copy_is_changed_and_the_checkout_is_not(tmp_path: Path) -> None:
    copy_tests(checkout_with(tmp_path / "checkout"), tmp_path / "copy")
    for change in CHANGES:
        assert change.old in (tmp_path / "checkout/tests/kafkatest" / change.file).read_text()
        assert change.new in (tmp_path / "copy/kafkatest" / change.file).read_text()


def test_tests_of_another_release_are_refused_where_a_change_finds_no_place(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("other text")
    change = CHANGES[0]
    with pytest.raises(NoTestsError, match=f"{change.file} has no"):
        apply(change, tmp_path)


def test_results_are_added_to_those_that_are_known(results: Results, tmp_path: Path) -> None:
    results.describe(date="2026-01-01", **TAKEN)
    results.expect([BOUNCE, TRUNCATION, case(metadata_quorum="ZK")])
    results.add(BOUNCE, Client.KWIRE, Outcome(passed=True, tries=1, seconds=60.0))
    results.add(BOUNCE, Client.JAVA, Outcome(passed=False, tries=2, seconds=60.0, reason="a | b"))
    results.write()
    again = Results(tmp_path / "known.json", tmp_path / "page.md")
    again.describe(date="2026-01-02", **TAKEN)
    again.add(TRUNCATION, Client.KWIRE, Outcome(passed=True, tries=2, seconds=60.0))
    again.write()
    assert again.has_passed(BOUNCE, Client.KWIRE)
    assert not again.has_passed(BOUNCE, Client.JAVA)
    page = (tmp_path / "page.md").read_text()
    assert "| passed | 2 | 0 | 0 |" in page
    assert "| failed | 0 | 1 | 0 |" in page
    assert "| not run yet | 0 | 1 | 2 |" in page
    assert f"| {BOUNCE} | passed | **failed**: a \\| b |  |" in page
    assert f"| {TRUNCATION} | passed at try 2 |  |  |" in page
    assert "| 1 | of ZooKeeper" in page
    assert page.startswith("before\n")
    assert page.endswith("after\n")


def test_results_of_another_kafka_are_forgotten(results: Results) -> None:
    results.describe(date="2026-01-01", **TAKEN)
    results.expect([BOUNCE])
    results.add(BOUNCE, Client.KWIRE, Outcome(passed=True, tries=1, seconds=60.0))
    results.describe(date="2026-01-02", **{**TAKEN, "kafka": "4.5.0"})
    assert not results.has_passed(BOUNCE, Client.KWIRE)


def folders(folder: Path) -> Folders:
    return Folders(ducktape=folder, tests=folder, installations=folder, commands=folder, runs=folder)


def test_kwire_takes_part_by_kafkas_plug_in_for_other_clients(tmp_path: Path) -> None:
    plugged_in = globals_for(Client.KWIRE, folders(tmp_path))["VerifiableConsumer"]
    assert isinstance(plugged_in, dict)
    assert plugged_in["class"] == "kafkatest.services.verifiable_client.VerifiableClientApp"
    assert Path(str(plugged_in["exec_cmd"]).split()[-1]).exists()
    assert "VerifiableConsumer" not in globals_for(Client.JAVA, folders(tmp_path))


def test_an_outcome_is_read_from_ducktapes_report(tmp_path: Path) -> None:
    report = tmp_path / "results/session/report.json"
    report.parent.mkdir(parents=True)
    failed = {"test_status": "FAIL", "run_time_seconds": 61.23, "summary": "\n  TimeoutError('no')\nTraceback ..."}
    report.write_text(json.dumps({"results": [failed]}))
    expected = Outcome(passed=False, tries=2, seconds=61.2, reason="TimeoutError('no')")
    assert read_report(tmp_path, 2) == expected


def test_a_run_without_a_report_tells_the_last_words(tmp_path: Path) -> None:
    (tmp_path / "ducktape.log").write_text("unshare: not permitted")
    with pytest.raises(ClusterError, match="unshare: not permitted"):
        read_report(tmp_path, 1)


def test_a_clone_below_mnt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: program)
    with pytest.raises(ClusterError, match="move it"):
        running.check_machine(Path("/mnt/clone"))


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "ip" else program)
    with pytest.raises(ClusterError, match=r"ip is needed .* install iproute2"):
        running.check_machine()


def test_a_trust_store_of_java_becomes_pem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def keytool(command: list[str], **_options: object) -> subprocess.CompletedProcess[bytes]:
        assert command == ["keytool", "-list", "-rfc", "-keystore", "trusted.jks", "-storepass", "secret"]
        return subprocess.CompletedProcess(command, 0, stdout=b"certificates")

    monkeypatch.setattr(subprocess, "run", keytool)
    config = tmp_path / "consumer.properties"
    stores = "ssl.truststore.location=trusted.jks\nssl.truststore.password=secret\nssl.keystore.location=own.jks\n"
    config.write_text(f"security.protocol=SSL\n{stores}ssl.key.password=secret\n")
    lines = for_kwire(config, "").read_text().splitlines()
    pem = tmp_path / "consumer.pem"
    assert lines == ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={pem}"]
    assert pem.read_bytes() == b"certificates"


def test_the_login_of_javas_own_file_becomes_a_setting(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        'KafkaClient {\n  PlainLoginModule required\n\tusername="me"\n\tpassword="x";\n};\nKafkaServer { No; };\n'
    )
    config = tmp_path / "consumer.properties"
    config.write_text("sasl.mechanism=PLAIN\n")
    lines = for_kwire(config, f"-Djava.security.auth.login.config={jaas} -Dother=1").read_text().splitlines()
    assert lines == ["sasl.mechanism=PLAIN", 'sasl.jaas.config=PlainLoginModule required username="me" password="x";']


def test_a_config_without_tls_is_taken_as_it_is(tmp_path: Path) -> None:
    config = tmp_path / "consumer.properties"
    config.write_text("security.protocol=PLAINTEXT\nssl.truststore.location=trusted.jks\n")
    assert for_kwire(config, "-Djava.security.krb5.conf=a") == config


def test_scripts_of_an_older_kafka_find_the_classes_that_moved(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "tools.jar", "w") as jar:
        jar.writestr("org/apache/kafka/tools/ConfigCommand.class", b"")
    line = 'exec $(dirname $0)/kafka-run-class.sh kafka.{} "$@"\n'
    (tmp_path / "configs.sh").write_text(line.format("admin.ConfigCommand"))
    (tmp_path / "acls.sh").write_text(line.format("admin.AclCommand"))
    follow_moves(tmp_path, tmp_path / "tools.jar")
    assert " org.apache.kafka.tools.ConfigCommand " in (tmp_path / "configs.sh").read_text()
    assert (tmp_path / "acls.sh").read_text() == line.format("admin.AclCommand")
