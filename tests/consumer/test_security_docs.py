"""docs/security.md: each recipe is one that kwire takes, each error is one that it raises, each name is a setting's."""

from __future__ import annotations

import os
import re
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from typer.testing import CliRunner

import kwire
from kwire import Consumer
from kwire.cli.commands import app
from kwire.config import SETTINGS, ConsumerConfig, Settings
from kwire.config.properties import parse_properties
from kwire.errors import KafkaError
from kwire.testing import Cluster

DOCS = (Path(__file__).parents[2] / "docs/security.md").read_text()
PATIENCE_POLLS = 20


def blocks(language: str, text: str = DOCS) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the table below a heading."""
    section = DOCS.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith(("| error", "| Java")):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


# --- recipes --------------------------------------------------------------------------------------------------------


class _NamedConsumer:
    """Takes what a consumer takes, and makes its config: there are no brokers by these names."""

    made: ConsumerConfig | None = None

    def __init__(self, topic: str, **settings: object) -> None:
        assert topic == "orders"
        _NamedConsumer.made = ConsumerConfig.of(settings)


class _Environment(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return f"value of {name}"


PRODUCTION = (Path(__file__).parents[2] / "docs/howto/production.md").read_text().split("\n## A properties file", 1)[0]
RECIPES = [block for block in [*blocks("python"), *blocks("python", PRODUCTION)] if "Cluster(" not in block]


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_are_settings_that_go_together(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kwire, "Consumer", _NamedConsumer)
    monkeypatch.setattr("os.environ", _Environment())
    exec(recipe, {"Consumer": _NamedConsumer, "os": sys.modules["os"]})
    assert _NamedConsumer.made is not None
    assert _NamedConsumer.made.security_protocol.is_tls


def test_there_are_recipes_for_all_that_are_promised() -> None:
    assert len(RECIPES) >= 9


def test_the_program_at_the_end_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (block for block in blocks("python") if "Cluster(" in block)
    exec(program, {"Consumer": Consumer})
    assert capsys.readouterr().out == "b'an order'\n"


def test_the_file_is_one() -> None:
    (text,) = blocks("properties")
    settings: Mapping[str, object] = {name: value for _line, name, value in parse_properties(text)}
    assert ConsumerConfig.of({**settings, "sasl.password": "x"}).sasl_username == "billing"


def test_commands_have_the_flags() -> None:
    (text,) = blocks("sh")
    for command, flags in re.findall(r"^kwire (\w+) (.*)$", text, re.MULTILINE):
        shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
        assert all(flag in shown for flag in re.findall(r"--[a-z-]+", flags))


def test_names_of_settings_are_right() -> None:
    named = set(re.findall(r"`((?:ssl|sasl|security)_[a-z_]+)`", DOCS)) - {
        *("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_check_hostname"),  # of kafka-python's
        *("sasl_plain_username", "sasl_plain_password"),
    }
    assert named <= set(SETTINGS)
    for java, *_others, ours in rows("Coming from another client"):
        for name in re.findall(r"`([a-z.]+)`", java):
            assert f"`{name.replace('.', '_')}`" in ours


# --- errors ---------------------------------------------------------------------------------------------------------


class Raised(NamedTuple):
    """What went wrong, as a row of the table has it."""

    error: str
    said: str


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> list[Raised]:
    """What comes of each mistake that the table is about."""
    folder = tmp_path_factory.mktemp("stores")
    (folder / "jks.pem").write_bytes(b"\xfe\xed\xfe\xed and so on")
    (folder / "p12.pem").write_bytes(b"\x30\x82 and so on")
    users = {"alice": "right"}
    with ExitStack() as stack:
        started: Callable[[Cluster], Cluster] = stack.enter_context
        secure = started(Cluster(topics={"t": 1}, security_protocol="SASL_SSL", users=users, tls=True))
        elsewhere = trustme.CA()
        elsewhere.cert_pem.write_to_path(folder / "elsewhere.pem")
        named = started(Cluster(topics={"t": 1}, tls=_context_for("elsewhere.example", elsewhere)))
        plain = started(Cluster(topics={"t": 1}))
        scram = started(Cluster(topics={"t": 1}, users=users, sasl_mechanisms=("SCRAM-SHA-512",)))
        mutual = started(Cluster(topics={"t": 1}, tls=True, tls_client_auth="required"))
        right: dict[str, object] = {**secure.client_config(), "sasl.mechanism": "PLAIN"}
        without_login = {name: value for name, value in right.items() if not name.startswith("sasl")}
        at_plain = {"bootstrap.servers": plain.bootstrap_servers}
        mistakes: list[dict[str, object]] = [
            {**right, "sasl.password": "wrong"},
            {**without_login, "sasl.oauth.token.provider": lambda: "abc"},
            {**right, **scram.client_config(), "sasl.mechanism": "PLAIN"},
            {**right, **at_plain, "security.protocol": "SASL_PLAINTEXT"},
            {name: value for name, value in right.items() if not name.startswith("ssl")},
            {**named.client_config(), "ssl.truststore.location": str(folder / "elsewhere.pem")},
            {**mutual.client_config()},
            {"bootstrap.servers": secure.bootstrap_servers},
            {**right, **at_plain},
            {**without_login, "security.protocol": "SSL"},
            {**right, "ssl.truststore.location": "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----"},
            {**right, "ssl.truststore.location": str(folder / "jks.pem")},
            {**right, "ssl.truststore.location": str(folder / "p12.pem")},
            {**right, "ssl.truststore.location": str(folder / "none.pem")},
            {**right, "ssl.truststore.password": "changeit"},
            {name: value for name, value in right.items() if name != "sasl.mechanism"},
            {**without_login, "sasl.mechanism": "PLAIN", "sasl.credentials.provider": lambda: os.environ["NOT_THERE"]},
            {name: value for name, value in right.items() if name != "sasl.username"},
            {**without_login, "sasl.mechanism": "OAUTHBEARER"},
        ]
        found = [_raised_by(settings) for settings in mistakes]
        secure.deny(topic="t")
        found.append(_raised_by(right))
        secure.allow(topic="t")
        secure.deny(group="g")
        found.append(_raised_by(right))
        return found


def _context_for(name: str, authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def _raised_by(settings: Mapping[str, object]) -> Raised:
    kept: Settings = {"group_id": "g"}
    try:
        consumer: Consumer[bytes, bytes] = Consumer("t", config=settings, **kept)
        with consumer:
            for _poll in range(PATIENCE_POLLS):
                consumer.poll(1.0)
    except KafkaError as error:
        return Raised(type(error).__name__, str(error))
    raise AssertionError(f"nothing was wrong with {sorted(settings)}")


@pytest.mark.slow
def test_each_row_is_raised_by_its_mistake_and_no_mistake_is_missing(raised: list[Raised]) -> None:
    table = [Raised(error.strip("`"), said.strip("`")) for error, said, _advice in rows("When it does not work")]
    wrong = [
        (row, came)
        for row, came in zip(table, raised, strict=True)
        if row.error != came.error or row.said not in came.said
    ]
    assert wrong == []
