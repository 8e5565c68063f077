"""Runs over TLS and SASL: what each client is told, and what such runs cannot have."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.testing.faults.harness import FaultsError, run
from kwire.testing.faults.order import RunOrder
from kwire.testing.faults.schedule_text import parse, render
from kwire.testing.faults.secured import PASSWORD, SECURITY, USER, member_settings, unreadable, without_unreadable

MIXED = parse("at 5s bit-flip broker 0 payload for 5s\nat 6s broker-kill broker 1 for 5s")


def test_each_client_is_told_in_its_own_names() -> None:
    java, confluent = (member_settings(client, Path("/ca.pem")) for client in ("java", "confluent"))
    assert java["security.protocol"] == confluent["security.protocol"] == "SASL_SSL"
    assert java["ssl.truststore.location"] == confluent["ssl.ca.location"] == "/ca.pem"
    assert f'username="{USER}" password="{PASSWORD}"' in java["sasl.jaas.config"]
    assert (confluent["sasl.username"], confluent["sasl.password"]) == (USER, PASSWORD)
    assert SECURITY.users == {USER: PASSWORD}


def test_answers_that_are_encrypted_cannot_be_tampered_with() -> None:
    assert unreadable(MIXED) == ["bit-flip"]
    assert [step.fault for step in without_unreadable(MIXED).steps] == ["broker-kill"]
    assert render(without_unreadable(without_unreadable(MIXED))) == render(without_unreadable(MIXED))
    with pytest.raises(FaultsError, match="a secured run cannot have bit-flip: proxies cannot read answers"):
        run(RunOrder(schedule=MIXED, name="kwire", secured=True))
