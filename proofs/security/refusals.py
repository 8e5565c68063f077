"""Refusals of logins and certificates: which error is raised, and how soon."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import uuid4

from kwire import Consumer
from kwire.errors import KafkaError
from kwire.testing.certificates import CertificateAuthority
from kwire.testing.kafka import KafkaCluster
from proofs.security.clients import USERS, Way, java_settings

POLL_S = 6.0
MAX_S = 30.0


class Refusal(NamedTuple):
    """What is wrong, at which listener, with which settings, and the class of the error that has to come."""

    wrong: str
    listener: str
    settings: Mapping[str, object]
    expected: str


def cases(kafka: KafkaCluster, folder: Path, others: CertificateAuthority) -> list[Refusal]:
    good = java_settings(Way("SASL_SSL"), kafka.certificates.path)
    plain = java_settings(Way("SASL_PLAINTEXT"), kafka.certificates.path)
    tls = java_settings(Way("SSL"), kafka.certificates.path)
    login = {"sasl.username": "alice", "sasl.password": USERS["alice"]}
    expired = kafka.certificates.issue(common_name="late", not_after=datetime.now(UTC) - timedelta(days=1))
    stranger = others.issue(common_name="stranger")
    jks, p12 = folder / "store.jks", folder / "store.p12"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    p12.write_bytes(b"\x30\x82\x01\x02")
    wrong = {**login, "sasl.password": "wrong"}
    return [
        Refusal("wrong password, PLAIN", "SASL_SSL", {**good, **wrong, "sasl.mechanism": "PLAIN"}, "SaslAuth"),
        Refusal("wrong password, SCRAM", "SASL_SSL", {**good, **wrong, "sasl.mechanism": "SCRAM-SHA-256"}, "SaslAuth"),
        Refusal("Kerberos without its package", "SASL_SSL", {**good, "sasl.mechanism": "GSSAPI"}, "Config"),
        Refusal("no mechanism said", "SASL_SSL", {**good, **login}, "Config"),
        Refusal("expired token", "SASL_SSL", {**good, "sasl.oauth.token.provider": _expired}, "NoToken"),
        Refusal("provider fails", "SASL_SSL", {**good, "sasl.oauth.token.provider": _fails}, "NoToken"),
        Refusal("token endpoint down", "SASL_SSL", {**good, **_endpoint("http://127.0.0.1:1/token")}, "NoToken"),
        Refusal("token endpoint by http", "SASL_SSL", {**good, **_endpoint("http://login.example/t")}, "Config"),
        Refusal("authority not known", "SSL", {**tls, "ssl.truststore.location": str(others.path)}, "SslAuth"),
        Refusal("the system's authorities", "SSL", {"security.protocol": "SSL"}, "SslAuth"),
        Refusal("client's certificate expired", "SSL", {**tls, "ssl.keystore.location": str(expired.path)}, "SslAuth"),
        Refusal("client's is a stranger's", "SSL", {**tls, "ssl.keystore.location": str(stranger.path)}, "SslAuth"),
        Refusal("JKS store", "SSL", {**tls, "ssl.truststore.location": str(jks)}, "Config"),
        Refusal("PKCS12 store", "SSL", {**tls, "ssl.keystore.location": str(p12)}, "Config"),
        Refusal("no such file", "SSL", {**tls, "ssl.keystore.location": str(folder / "no.pem")}, "Config"),
        Refusal("context and files", "SSL", {**tls, "ssl.context": ssl.create_default_context()}, "Config"),
        Refusal("plain text at TLS", "SSL", {}, "Bootstrap"),
        Refusal("TLS at plain text", "PLAINTEXT", tls, "Auth|Bootstrap"),
        Refusal("no login where one is wanted", "SASL_PLAINTEXT", {}, "Bootstrap"),
        Refusal("login where none is", "PLAINTEXT", {**plain, **login, "sasl.mechanism": "PLAIN"}, "IllegalSaslState"),
    ]


def refusals(kafka: KafkaCluster, _duration_s: float) -> Sequence[str]:
    broken = []
    print("| what is wrong | error | after | what it says |\n|---|---|---:|---|")
    with TemporaryDirectory() as folder, CertificateAuthority() as others:
        for case in cases(kafka, Path(folder), others):
            began = time.monotonic()
            error = _error_of(kafka, case)
            took_s = time.monotonic() - began
            name, said = type(error).__name__, str(error).replace(folder, "").replace("|", "/")
            print(f"| {case.wrong} | {name} | {took_s:.1f} s | {said} |", flush=True)
            if not any(name.startswith(each) for each in case.expected.split("|")) or took_s > MAX_S:
                broken.append(f"{case.wrong}: {name} after {took_s:.1f} s, not {case.expected}")
            if USERS["alice"] in repr(error):
                broken.append(f"{case.wrong}: the error shows the password")
    return broken


def _error_of(kafka: KafkaCluster, case: Refusal) -> KafkaError | None:
    """What polls raise, as a program that polls for seconds sees it; None if they raise nothing."""
    config = {"bootstrap.servers": kafka.bootstrap(case.listener), "group.id": f"refused-{uuid4().hex[:6]}"}
    try:
        consumer: Consumer[bytes, bytes]
        with Consumer("orders", config={**config, **case.settings}) as consumer:
            for _ in range(int(MAX_S / POLL_S)):
                consumer.poll(POLL_S)
    except KafkaError as error:
        return error
    return None


def _endpoint(url: str) -> dict[str, object]:
    client = "sasl.oauthbearer.client.credentials.client"
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        f"{client}.id": "billing",
        f"{client}.secret": "s3cret",
    }


def _expired() -> tuple[str, float]:
    return "aaa.bbb.ccc", time.time() - 60


def _fails() -> str:
    raise RuntimeError("the vault is sealed")
