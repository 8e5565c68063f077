"""`kwire doctor` names the cause of each broken set-up in a sentence, and says what to do."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kwire.cli.doctor.checks import Check
from kwire.cli.doctor.command import shown
from kwire.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.schema import Request
from kwire.testing import Cluster
from kwire.testing.certificates import CertificateAuthority

if TYPE_CHECKING:
    from tests.cli.fake_consumer import Command, Outcome

USERS = {"alice": "alice-secret"}

Doctor = Callable[..., "Outcome"]


@pytest.fixture
def doctor(command: Command, tmp_path: Path) -> Doctor:
    """Runs `kwire doctor` with settings under Kafka's names."""

    def run(settings: dict[str, str], *arguments: str) -> Outcome:
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return command("doctor", "--config", path, "--timeout", "3", *arguments)

    return run


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def plain_cluster(**arguments: object) -> Cluster:
    return Cluster(topics={"orders": 2}, **arguments)  # type: ignore[arg-type]


def tls_cluster(**arguments: object) -> Cluster:
    return plain_cluster(security_protocol="SSL", tls=True, **arguments)


def sasl_cluster(**arguments: object) -> Cluster:
    return plain_cluster(security_protocol="SASL_PLAINTEXT", users=USERS, **arguments)


def years(year: int) -> datetime:
    """When a year begins."""
    return datetime(year, 1, 1, tzinfo=UTC)


def trusting(cluster: Cluster, authority: CertificateAuthority) -> dict[str, str]:
    """What a client sets that trusts this authority."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(authority.path),
        "ssl.truststore.type": "PEM",
    }


@contextmanager
def listener(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Something that listens; each connection is handed to `answer`, on a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                with taken:
                    answer(taken)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def failure(outcome: Outcome) -> tuple[str, str]:
    """What is wrong, and what to do: of the one check that failed."""
    assert outcome.code == 1, outcome
    assert outcome.err == ""
    (at,) = [number for number, line in enumerate(outcome.lines) if line.startswith("  FAILED")]
    return outcome.lines[at].removeprefix("  FAILED").strip(), outcome.lines[at + 1].strip()


# --- all is well -------------------------------------------------------------------------------------------------


def test_where_all_is_well_it_says_so_step_by_step(doctor: Doctor) -> None:
    with plain_cluster(security_protocol="SASL_SSL", tls=True, users=USERS) as cluster:
        outcome = doctor(cluster.client_config(), "--topic", "orders", "--group", "billing")
    assert (outcome.code, outcome.err) == (0, "")
    assert [line.split()[:2] for line in outcome.lines if line.startswith(" ")] == [
        ["ok", name] for name in ("DNS", "TCP", "TLS", "versions", "login", "broker", "topic", "group")
    ]
    assert "logged in by PLAIN as alice" in outcome.out
    assert "TLSv1.3, certificate: O=kwire" in outcome.out
    assert "alice-secret" not in outcome.out


def test_on_a_terminal_lines_are_broken_between_words_and_marks_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cli.terminal.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    check = Check(
        "topic", "orders", False, "there is no topic orders in this cluster", "create it, or correct its name"
    )
    assert list(shown(check, "orders")) == [
        "orders",
        "  \x1b[31mFAILED \x1b[0m topic     there is no topic",
        "                    orders in this cluster",
        "                    what to do: create it, or",
        "                    correct its name",
    ]
    monkeypatch.setenv("NO_COLOR", "1")
    assert next(shown(check, "")) == "  FAILED  topic     there is no topic"


def test_for_programs_it_is_json(doctor: Doctor, closed_port: int) -> None:
    outcome = doctor({"bootstrap.servers": f"127.0.0.1:{closed_port}"}, "--json")
    assert outcome.code == 1
    checks = json.loads(outcome.out)
    assert [(check["name"], check["ok"]) for check in checks] == [("DNS", True), ("TCP", False)]
    assert checks[1]["advice"].startswith("start the broker, or correct the port")


def test_nothing_is_changed(doctor: Doctor) -> None:
    with plain_cluster() as cluster:
        doctor(cluster.client_config(), "--topic", "no-such", "--group", "billing")
        assert doctor(cluster.client_config(), "--topic", "no-such").code == 1
        assert cluster.committed("billing") == {}


# --- the way to the broker ---------------------------------------------------------------------------------------


def test_1_a_name_that_nobody_knows(doctor: Doctor) -> None:
    said, advice = failure(doctor({"bootstrap.servers": "no-such-host.invalid:9092"}))
    assert said.startswith("DNS       the name no-such-host.invalid cannot be resolved on this machine: ")
    assert advice.startswith("what to do: correct the name in bootstrap_servers, or have DNS or /etc/hosts know it")


def test_2_a_port_where_nobody_listens(doctor: Doctor, closed_port: int) -> None:
    said, advice = failure(doctor({"bootstrap.servers": f"127.0.0.1:{closed_port}"}))
    assert said.endswith(f"nothing listens at 127.0.0.1:{closed_port}: the connection is refused")
    assert advice.endswith("Kafka's usual port is 9092")


def test_3_plain_text_to_a_port_with_tls(doctor: Doctor) -> None:
    with tls_cluster() as cluster:
        said, advice = failure(doctor({"bootstrap.servers": cluster.bootstrap_servers}))
        assert said.endswith(
            f"{cluster.bootstrap_servers} is a listener with TLS, and security_protocol=PLAINTEXT is without"
        )
    assert advice.startswith("what to do: set security_protocol=SSL (or SASL_SSL, if it wants a login)")


def test_4_tls_to_a_port_without(doctor: Doctor) -> None:
    with plain_cluster() as cluster:
        said, advice = failure(doctor({"bootstrap.servers": cluster.bootstrap_servers, "security.protocol": "SSL"}))
        assert said.endswith("is a listener without TLS, and security_protocol=SSL begins with TLS")
    assert advice.startswith("what to do: set security_protocol=PLAINTEXT")


def test_5_a_certificate_of_another_authority(doctor: Doctor) -> None:
    with tls_cluster() as cluster, CertificateAuthority() as other:
        settings = cluster.client_config() | {"ssl.truststore.location": str(other.path)}
        said, advice = failure(doctor(settings))
    assert "TLS" in said
    assert "not trusted: self-signed certificate in certificate chain; its certificate: O=kwire" in said
    assert advice.startswith("what to do: give the authority that issued it by ssl_truststore_location")


def test_6_a_certificate_for_another_name(doctor: Doctor) -> None:
    with CertificateAuthority() as authority:
        context = authority.server_context("broker.example.net")
        with plain_cluster(tls=context) as cluster:
            said, advice = failure(doctor(trusting(cluster, authority)))
    assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in said
    assert "broker.example.net" in said
    assert advice.startswith("what to do: reach the broker by a name that its certificate has")


def test_7_a_wrong_password(doctor: Doctor) -> None:
    with sasl_cluster() as cluster:
        said, advice = failure(doctor(cluster.client_config() | {"sasl.password": "wrong-one"}))
    assert "refuses the login of alice by PLAIN" in said
    assert "wrong-one" not in said
    assert advice.startswith("what to do: correct user name and password")


def test_8_a_mechanism_that_is_not_offered(doctor: Doctor) -> None:
    with sasl_cluster(sasl_mechanisms=["PLAIN"]) as cluster:
        said, advice = failure(doctor(cluster.client_config() | {"sasl.mechanism": "SCRAM-SHA-256"}))
    assert said.endswith("does not offer sasl_mechanism=SCRAM-SHA-256; it offers PLAIN")
    assert advice.startswith("what to do: set sasl_mechanism to one of these")


def test_9_no_login_where_one_is_wanted(doctor: Doctor) -> None:
    with sasl_cluster() as cluster:
        said, advice = failure(doctor({"bootstrap.servers": cluster.bootstrap_servers}))
    assert said.endswith("wants a login, and security_protocol=PLAINTEXT has none")
    assert "set security_protocol=SASL_PLAINTEXT, sasl_mechanism to one that it offers (PLAIN, SCRAM" in advice


def test_10_a_login_where_none_is_wanted(doctor: Doctor) -> None:
    with plain_cluster() as cluster:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "alice", "sasl.password": "secret"}
        said, advice = failure(
            doctor(settings | {"sasl.mechanism": "PLAIN", "bootstrap.servers": cluster.bootstrap_servers})
        )
    assert said.endswith("is a listener without logins, and security_protocol=SASL_PLAINTEXT begins with one")
    assert advice.startswith("what to do: set security_protocol=PLAINTEXT")


# --- what answers there ------------------------------------------------------------------------------------------


def test_11_something_that_is_no_kafka(doctor: Doctor) -> None:
    def answer(taken: socket.socket) -> None:
        taken.recv(4096)
        taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listener(answer) as port:
        said, advice = failure(doctor({"bootstrap.servers": f"127.0.0.1:{port}"}))
    assert f"what listens at 127.0.0.1:{port} is not Kafka" in said
    assert "it answers 'HTTP'" in said
    assert advice.startswith("what to do: correct host and port in bootstrap_servers")


def test_11_a_web_server_that_waits_for_a_line(doctor: Doctor) -> None:
    """It "takes the connection and says nothing", as a broker that hangs."""

    def answer(taken: socket.socket) -> None:
        while came := taken.recv(4096):
            if came.startswith(b"GET /"):  # no request of Kafka is a line
                taken.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
                return

    with listener(answer) as port:
        said, advice = failure(doctor({"bootstrap.servers": f"127.0.0.1:{port}"}, "--timeout", "0.1"))
    assert said.endswith(f"what listens at 127.0.0.1:{port} is not Kafka: it is a web server")
    assert advice.startswith("what to do: correct host and port in bootstrap_servers")


def test_12_something_that_says_nothing(doctor: Doctor) -> None:
    def wait_for_the_end(taken: socket.socket) -> None:
        while taken.recv(4096):
            pass

    with listener(wait_for_the_end) as port:
        said, _advice = failure(doctor({"bootstrap.servers": f"127.0.0.1:{port}"}, "--timeout", "0.1"))
    assert said.endswith(
        f"127.0.0.1:{port} takes the connection and says nothing: it is no broker, or one that hangs, or a proxy whose "
        "broker is gone"
    )


def test_13_something_that_hangs_up(doctor: Doctor) -> None:
    with listener(lambda taken: None) as port:
        said, advice = failure(doctor({"bootstrap.servers": f"127.0.0.1:{port}"}))
    assert "hangs up when it is asked what it speaks" in said
    assert advice.endswith("kwire reads from Kafka 2.1 and newer")


def test_14_a_broker_that_is_too_old(doctor: Doctor) -> None:
    old = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=key, min_version=0, max_version=3) for key in (0, 1, 2, 3, 18)]
    )
    with plain_cluster() as cluster:
        cluster.control.on(ApiVersionsRequest).answer(old)
        said, _advice = failure(doctor(cluster.client_config()))
    assert "is too old, or no broker for clients: the broker offers Fetch (API key 1) in versions 0 to 3, but" in said


def test_15_a_listener_that_is_advertised_wrong(doctor: Doctor, closed_port: int) -> None:
    with plain_cluster(advertised=[("127.0.0.1", closed_port)]) as cluster:
        (address,) = cluster.client_addresses
        said, advice = failure(doctor({"bootstrap.servers": f"{address[0]}:{address[1]}"}))
    assert said.endswith(
        f"127.0.0.1:{address[1]} answers, but says that broker 0 is found at 127.0.0.1:{closed_port}, where it is not: "
        f"nothing listens at 127.0.0.1:{closed_port}: the connection is refused"
    )
    assert advice.startswith(
        "what to do: set the broker's advertised.listeners to an address that this machine reaches"
    )


def test_16_a_listener_that_is_advertised_under_a_name_of_docker(doctor: Doctor) -> None:
    with plain_cluster(advertised=[("kafka.invalid", 9092)]) as cluster:
        (address,) = cluster.client_addresses
        said, advice = failure(doctor({"bootstrap.servers": f"{address[0]}:{address[1]}"}))
    assert "says that broker 0 is found at kafka.invalid:9092, where it is not: the name kafka.invalid cannot" in said
    assert advice.endswith("or make kafka.invalid lead there")


def test_21_a_listener_that_wants_a_certificate_of_the_client(doctor: Doctor) -> None:
    with plain_cluster(security_protocol="SSL", tls=True, tls_client_auth="required") as cluster:
        settings = cluster.client_config()
        kept = {name: value for name, value in settings.items() if "keystore" not in name}
        said, advice = failure(doctor(kept))
    assert "does not accept this client: the broker wants a certificate of this client: give ssl_keystore" in said
    assert "a listener with ssl.client.auth=required wants ssl_keystore_location" in advice


def test_22_a_certificate_that_has_expired(doctor: Doctor) -> None:
    with CertificateAuthority() as authority:
        issued = authority.issue("127.0.0.1", not_before=years(2020), not_after=years(2021))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.path)
        with plain_cluster(tls=context) as cluster:
            said, advice = failure(doctor(trusting(cluster, authority)))
    assert "is not trusted: certificate has expired; its certificate: O=kwire" in said
    assert "valid from 2020-01-01 to 2021-01-01" in said
    assert advice == "what to do: the broker needs a new one; look at this machine's clock as well"


@pytest.mark.slow
def test_23_a_login_server_that_is_not_there(doctor: Doctor, closed_port: int) -> None:
    with sasl_cluster(sasl_mechanisms=["OAUTHBEARER"]) as cluster:
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{closed_port}/token",
            "sasl.oauthbearer.client.credentials.client.id": "alice",
            "sasl.oauthbearer.client.credentials.client.secret": "alice-secret",
        }
        said, advice = failure(doctor(settings, "--timeout", "1"))
    assert said.startswith("login     there is no token to log in with: the login server http://127.0.0.1:")
    assert said.endswith("cannot be reached: Connection refused")
    assert "alice-secret" not in said
    assert advice.startswith("what to do: look at sasl_oauthbearer_token_endpoint_url")


# --- topics, groups, permissions ---------------------------------------------------------------------------------


def test_17_a_topic_that_there_is_not(doctor: Doctor) -> None:
    with plain_cluster() as cluster:
        said, advice = failure(doctor(cluster.client_config(), "--topic", "order"))
    assert said == "topic     there is no topic order"
    assert advice.startswith("what to do: did you mean orders?")


@pytest.mark.parametrize("operation", ["ALL", "READ"])
def test_18_a_topic_that_may_not_be_read(doctor: Doctor, operation: str) -> None:
    with sasl_cluster() as cluster:
        cluster.deny(topic="orders", operation=operation)
        said, advice = failure(doctor(cluster.client_config(), "--topic", "orders"))
    assert said == "topic     alice is not permitted to read topic orders"
    assert "--allow-principal User:alice --operation Read --topic orders" in advice


@pytest.mark.parametrize("operation", ["ALL", "READ"])
def test_19_a_group_that_one_may_not_be_a_member_of(doctor: Doctor, operation: str) -> None:
    with sasl_cluster() as cluster:
        cluster.deny(group="billing", operation=operation)
        said, advice = failure(doctor(cluster.client_config(), "--group", "billing"))
    assert said == "group     alice is not permitted to read group billing"
    assert "--allow-principal User:alice --operation Read --group billing" in advice


def test_20_one_of_two_servers_that_is_gone(doctor: Doctor, closed_port: int) -> None:
    with plain_cluster() as cluster:
        settings = {"bootstrap.servers": f"127.0.0.1:{closed_port},{cluster.bootstrap_servers}"}
        said, _advice = failure(outcome := doctor(settings, "--topic", "orders"))
    assert "the connection is refused" in said
    assert outcome.lines[-2:] == [
        "orders",
        "  ok      topic     exists with 2 partitions, all led, and this client may read them",
    ]


def test_a_topic_without_partitions_is_told_of(doctor: Doctor) -> None:
    """It was an IndexError."""

    def empty(answer: Any) -> None:  # noqa: ANN401  of the metadata
        for topic in answer.topics:
            topic.partitions = []

    with plain_cluster() as cluster:
        cluster.control.on(MetadataRequest).edit(empty)
        outcome = doctor(cluster.client_config(), "--topic", "orders")
    assert outcome.code == 1
    assert "topic orders has no partitions yet" in outcome.out


@pytest.mark.parametrize(
    ("request_kind", "arguments", "name"),
    [
        (ListOffsetsRequest, ["--topic", "orders"], "topic"),
        (FindCoordinatorRequest, ["--group", "billing"], "group"),
    ],
)
def test_a_broker_that_does_not_answer_about_a_topic_or_a_group(
    doctor: Doctor, request_kind: type[Request[Any]], arguments: list[str], name: str
) -> None:
    """The command ended with the error, and with --json all that it had found until then was lost."""
    with plain_cluster() as cluster:
        cluster.control.on(request_kind).cut()
        outcome = doctor(cluster.client_config(), *arguments, "--json")
    checks = [Check(**each) for each in json.loads(outcome.out)]
    (bad,) = [check for check in checks if not check.ok]
    assert bad.name == name
    assert "cannot be examined" in bad.said
    assert len(checks) > 2
