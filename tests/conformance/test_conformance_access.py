"""The suite judges brokers that want TLS and a login, with settings as every command takes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kwire.cli.commands import app
from kwire.testing import Cluster

ONLY = ["--only", "ApiVersions", "--only", "Metadata", "--only", "DescribeCluster"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(security_protocol="SASL_SSL", tls=True, users={"judge": "right-81"}) as cluster:
        yield cluster


def settings_file(cluster: Cluster, folder: Path, **changed: str) -> str:
    path = folder / "client.properties"
    config = {**cluster.client_config(mechanism="SCRAM-SHA-256"), **changed}
    path.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_broker_behind_tls_and_a_login_is_judged(cluster: Cluster, tmp_path: Path, mechanism: str) -> None:
    """Hostile checks as well: their bytes go the same way."""
    file = settings_file(cluster, tmp_path, **{"sasl.mechanism": mechanism})
    done = CliRunner().invoke(app, ["conformance", "-b", cluster.bootstrap_servers, "--config", file, *ONLY, "-v"])
    assert done.exit_code == 0, done.output
    assert "garbage" in done.stdout
    assert "right-81" not in done.output


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"sasl.password": "wrong-82"}, "no Kafka broker to judge at 127.0.0.1:"),
        ({"ssl.truststore.location": "/no/such.pem"}, "ssl_truststore_location='/no/such.pem' cannot be read"),
        ({"sasl.mechanism": "GSSAPI"}, "the judge logs in by PLAIN or SCRAM, not by sasl_mechanism=GSSAPI"),
    ],
)
def test_what_keeps_it_out_is_exit_2_and_one_line(
    cluster: Cluster, tmp_path: Path, changed: dict[str, str], problem: str
) -> None:
    file = settings_file(cluster, tmp_path, **changed)
    done = CliRunner().invoke(app, ["conformance", "-b", cluster.bootstrap_servers, "--config", file])
    assert done.exit_code == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1
    assert "wrong-82" not in done.output


def test_an_unknown_authority_is_told(cluster: Cluster, tmp_path: Path) -> None:
    file = settings_file(cluster, tmp_path)
    text = [line for line in Path(file).read_text().splitlines() if not line.startswith("ssl.truststore.location")]
    Path(file).write_text("\n".join(text))
    done = CliRunner().invoke(app, ["conformance", "-b", cluster.bootstrap_servers, "--config", file])
    assert done.exit_code == 2
    assert "no TLS with 127.0.0.1: self-signed certificate in certificate chain" in done.stderr
