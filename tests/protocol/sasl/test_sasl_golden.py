"""Talks between Kafka's own SASL clients and servers, replayed: kwire says what Java's client says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kwire.config.choices import SaslMechanism
from kwire.config.secret import Secret
from kwire.errors import SaslAuthenticationError
from kwire.protocol.sasl import OAuthBearerExchange, PlainExchange, SaslExchange, ScramExchange

GOLDEN = Path(__file__).parents[1] / "golden" / "sasl.jsonl"
TALKS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def exchange_of(talk: dict[str, Any]) -> SaslExchange:
    """What Java's client was, with the nonce that it drew."""
    login = talk["login"]
    if talk["mechanism"] == "OAUTHBEARER":
        return OAuthBearerExchange(login["token"], login["extensions"])
    if talk["mechanism"] == "PLAIN":
        return PlainExchange(login["username"], Secret(login["password"]))
    nonce = bytes.fromhex(talk["client"][0]).decode().rpartition(",r=")[2].partition(",")[0]
    return ScramExchange(
        SaslMechanism(talk["mechanism"]),
        login["username"],
        Secret(login["password"]),
        nonce=nonce,
        extensions=login["extensions"],
    )


@pytest.mark.parametrize("talk", TALKS, ids=[talk["case"] for talk in TALKS])
def test_kwire_says_what_javas_client_says(talk: dict[str, Any]) -> None:
    exchange = exchange_of(talk)
    said = [exchange.first()]
    for answer in talk["server"]:
        message = exchange.answer(bytes.fromhex(answer))
        if message is not None:
            said.append(message)
    assert [message.hex() for message in said] == talk["client"]
    assert exchange.is_complete == talk["complete"]


def test_both_sides_were_content_in_some_talks_of_each_mechanism_and_not_in_others() -> None:
    ends = {(talk["mechanism"], talk["complete"]) for talk in TALKS}
    mechanisms = [mechanism.value for mechanism in SaslMechanism if mechanism is not SaslMechanism.GSSAPI]
    assert ends == {(mechanism, complete) for mechanism in mechanisms for complete in (True, False)}


@pytest.mark.parametrize("talk", [talk for talk in TALKS if talk["mechanism"].startswith("SCRAM") and talk["complete"]])
def test_a_signature_of_another_talk_is_not_believed(talk: dict[str, Any]) -> None:
    exchange = exchange_of(talk)
    exchange.first()
    exchange.answer(bytes.fromhex(talk["server"][0]))
    others = [other for other in TALKS if other["mechanism"] == talk["mechanism"] and other["complete"]]
    other = others[others.index(talk) - 1]
    with pytest.raises(SaslAuthenticationError, match="impostor"):
        exchange.answer(bytes.fromhex(other["server"][1]))
    assert not exchange.is_complete
