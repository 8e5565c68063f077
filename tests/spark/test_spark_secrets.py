"""Secrets of the connection: how they travel to executors, and that Spark shows them nowhere."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.config import Secret
from kwire.spark.errors import OptionError
from kwire.spark.kafka_settings import KafkaSettings
from kwire.spark.options import SourceOptions, batch_options

TOP = Path(__file__).parents[2]
PASSWORDS = ("correct-Horse-71", "battery-Staple-72", "no-Such-73")
OPTIONS = {
    "subscribe": "t",
    "kafka.bootstrap.servers": "localhost:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": PASSWORDS[0],
}


def test_secrets_travel_and_are_not_shown() -> None:
    options = batch_options(OPTIONS)
    assert options.kafka["sasl_password"] == Secret(PASSWORDS[0])
    travelled = pickle.loads(pickle.dumps(options))
    assert isinstance(travelled, SourceOptions)
    assert travelled == options
    assert travelled.kafka["sasl_password"] == Secret(PASSWORDS[0])
    assert PASSWORDS[0] not in f"{options} {options!r} {travelled!r}"


def test_what_is_no_secret_is_kept_as_it_was_given() -> None:
    settings = KafkaSettings({"fetch_min_bytes": "7", "sasl_password": "x"})
    assert dict(settings) == {"fetch_min_bytes": "7", "sasl_password": Secret("x")}
    assert len(settings) == 2
    assert repr(settings) == "{'fetch_min_bytes': '7', 'sasl_password': <secret>}"


def test_what_changes_nothing_in_a_java_client_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    options = batch_options({**OPTIONS, "kafka.ssl.protocol": "TLSv1.3"})
    assert "ssl_protocol" not in options.kafka
    assert "option 'kafka.ssl.protocol' is without effect in kwire, and left out" in caplog.text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kafka.sasl_password": "y"}, "sasl_password is given twice"),
        ({"kafka.sasl.jaas.config": "Secret-74"}, "sasl_jaas_config cannot be read: it does not end with a semicolon"),
        ({"kafka.ssl.keystore.type": "JKS"}, "ssl_keystore_type"),
        ({"kafka.ssl.truststore.password": "Secret-74"}, "kwire has no setting"),
    ],
)
def test_a_mistake_is_told_in_the_driver_without_a_secret(changed: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        batch_options(OPTIONS | changed)
    assert said in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("Secret-74", PASSWORDS[0]))


@pytest.mark.slow
def test_records_come_over_sasl_and_tls_and_spark_shows_no_secret(tmp_path: Path) -> None:
    """A batch, a stream and two that are refused, in a session that writes down everything, at DEBUG."""
    job = [sys.executable, "-m", "tests.spark.secured_job", str(tmp_path), *PASSWORDS]
    done = subprocess.run(job, cwd=TOP, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert ((tmp_path / "batch.count").read_text(), (tmp_path / "stream.count").read_text()) == ("10", "10")
    for refused in ("batch.error", "stream.error"):
        assert "SaslAuthenticationError" in (tmp_path / refused).read_text()
    (tmp_path / "log").write_text(done.stdout + done.stderr)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"batch.plans", "progress.json", "page-0.html"} <= {path.name for path in files}
    assert any(path.parent.name.startswith("events") or "eventlog" in str(path) for path in files)
    assert "DEBUG" in (tmp_path / "log").read_text()
    shown = [(path.name, secret) for path in files for secret in PASSWORDS if secret.encode() in path.read_bytes()]
    assert shown == []
