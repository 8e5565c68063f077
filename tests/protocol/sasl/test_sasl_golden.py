"""Talks between Kafka's own SASL clients and servers, replayed: kwire says what Java's client says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kwire.config.choices import SaslMechanism
from kwire.errors import SaslAuthenticationError
from tools.fuzz.sasl import exchange_of
from tools.fuzz.targets import SASL_TALKS

TALKS = [json.loads(line) for line in SASL_TALKS.read_text().splitlines()]


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
