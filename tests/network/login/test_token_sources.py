"""From the settings to what gives tokens."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.clock import wall_clock_ms
from kwire.config import ConsumerConfig, OAuthToken, login_of
from kwire.network.login.sources import token_giver

if TYPE_CHECKING:
    from tests.network.login.conftest import MakeConfig, ScriptedServer

FirstToken = Callable[[ConsumerConfig], OAuthToken]
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def test_a_token_that_nobody_signs(make_config: MakeConfig, first_token: FirstToken) -> None:
    token = first_token(
        make_config(
            sasl_jaas_config=f'{MODULE} unsecuredLoginStringClaim_sub="me" unsecuredLoginLifetimeSeconds="60" '
            'unsecuredLoginExtension_trace="1";'
        )
    )

    header, claims, signature = token.value.split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"] == "me"
    assert signature == ""
    assert token.extensions == {"trace": "1"}
    assert token.expires_at_ms is not None
    assert 0 < token.expires_at_ms - wall_clock_ms() <= 60_000


def test_what_is_given_and_not_used_is_told_of(
    tmp_path: Path, server_config: MakeConfig, login_server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """As with the Java client, an assertion wins over a secret, and one of a file over one that is signed here."""
    config = server_config(
        sasl_oauthbearer_assertion_file=tmp_path / "assertion",
        sasl_oauthbearer_assertion_private_key_file=tmp_path / "key.pem",
    )

    token_giver(config, login_of(config))

    assert [record.getMessage() for record in caplog.records if record.name == "kwire.login"] == [
        "sasl_oauthbearer_assertion_private_key_file is not used: assertions come from a file",
        "the client's secret is not used: it proves by an assertion who it is",
    ]
