"""The recipe for Amazon MSK, with a stand-in for AWS's signer: the same names, arguments and results, without AWS."""

from __future__ import annotations

import base64
import sys
from types import ModuleType

import msk_iam
import pytest
import trio

from kwire.clock import wall_clock_ms
from kwire.config import ConsumerConfig, OAuthToken, login_of
from kwire.network.login.refresh import RefreshRules
from kwire.network.login.token_login import TokenLogin

LIFE_MS = 900_000
PRESIGNED = (
    "https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Date=20261124T220000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature=0123456789abcdef"
)


@pytest.fixture
def signed_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The regions that the stand-in has signed for."""
    regions: list[str] = []

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            regions.append(region)
            value = base64.urlsafe_b64encode(PRESIGNED.encode()).decode().rstrip("=")
            return value, (wall_clock_ms() // 1000) * 1000 + LIFE_MS  # in ms, as the real one

    stand_in = ModuleType("aws_msk_iam_sasl_signer")
    stand_in.MSKAuthTokenProvider = MSKAuthTokenProvider  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", stand_in)
    return regions


def test_the_signers_token_is_used_and_renewed_after_ten_of_its_fifteen_minutes(signed_for: list[str]) -> None:
    config = ConsumerConfig.of(
        {
            "bootstrap_servers": "b-1.example.kafka.eu-central-1.amazonaws.com:9098",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": msk_iam.signer("eu-central-1"),
        }
    )

    async def first_token() -> OAuthToken:
        login = TokenLogin(config, login_of(config))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(login.run)
            token = await login.token()
            nursery.cancel_scope.cancel()
        return token

    token = trio.run(first_token)

    assert base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode() == PRESIGNED
    assert token.expires_at_ms is not None
    assert 0 <= wall_clock_ms() + LIFE_MS - token.expires_at_ms < 60_000
    assert signed_for == ["eu-central-1"]
    begin_ms = token.expires_at_ms - LIFE_MS
    assert RefreshRules.of(config).renew_at_ms(None, token.expires_at_ms, begin_ms, chance=0.5) == begin_ms + 600_000
