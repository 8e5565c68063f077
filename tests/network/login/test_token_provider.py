"""Tokens from the user's own code: every shape it may have, every answer it may give, and code that blocks or fails."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

import pytest
import trio

from kwire.config import ConsumerConfig, OAuthToken, TokenAnswer, TokenProvider, login_of
from kwire.errors import AuthenticationError, ConfigError, NoTokenError
from kwire.network.login.token_login import TokenLogin

if TYPE_CHECKING:
    from tests.network.login.conftest import MakeConfig

FirstToken = Callable[[ConsumerConfig], OAuthToken]
END_SECONDS = 4_000_000_000.5  # in 2096


class KafkaPythonProvider:
    """As kafka-python and aiokafka have it."""

    def token(self) -> str:
        return "abc"

    def extensions(self) -> dict[str, str]:
        return {"tenant": "one"}


class AiokafkaProvider:
    async def token(self) -> str:
        await asyncio.sleep(0)
        return "abc"


class CallableObject:
    async def __call__(self) -> str:
        await asyncio.sleep(0)
        return "abc"


async def coroutine_function() -> tuple[str, float]:
    await asyncio.sleep(0)
    return "abc", END_SECONDS


def one_of(value: str) -> str:
    return value


@pytest.mark.parametrize(
    "provider",
    [
        lambda: "abc",
        functools.partial(one_of, "abc"),
        coroutine_function,
        functools.partial(coroutine_function),
        CallableObject(),
        KafkaPythonProvider(),
        AiokafkaProvider(),
        lambda: OAuthToken("abc"),
    ],
)
def test_a_provider_may_be_a_function_a_coroutine_function_or_an_object(
    provider: TokenProvider, make_config: MakeConfig, first_token: FirstToken
) -> None:
    assert first_token(make_config(sasl_oauth_token_provider=provider)).value == "abc"


@pytest.mark.parametrize(
    ("answer", "expires_at_ms"),
    [
        ("abc", None),
        (("abc", END_SECONDS), END_SECONDS * 1000),
        (("abc", int(END_SECONDS * 1000)), END_SECONDS * 1000),  # as the signer for MSK has it
        (OAuthToken("abc", 4e12), 4e12),
    ],
)
def test_the_end_of_a_token_may_be_given_in_seconds_or_milliseconds(
    answer: TokenAnswer, expires_at_ms: float | None, make_config: MakeConfig, first_token: FirstToken
) -> None:
    token = first_token(make_config(sasl_oauth_token_provider=lambda: answer))

    assert (token.value, token.expires_at_ms) == ("abc", expires_at_ms)


def test_extensions_of_a_provider_go_with_its_tokens(make_config: MakeConfig, first_token: FirstToken) -> None:
    token = first_token(make_config(sasl_oauth_token_provider=KafkaPythonProvider()))

    assert token.extensions == {"tenant": "one"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "returned None; it has to return a token"),
        (b"abc", "returned a bytes"),
        (("abc", "tomorrow"), r"returned a tuple \(str, str\)"),
        (("abc", True), r"returned a tuple \(str, bool\)"),
        (("abc", 1.0, "me", {}), r"returned a tuple \(str, float, str, dict\)"),
        (("abc", float("nan")), "no number of seconds or ms"),
        (("abc", 10**400), "no number of seconds or ms"),
        (("abc", -(10**400)), "no number of seconds or ms"),
        (OAuthToken("abc", cast("float", "soon")), "no number of seconds or ms"),
        (OAuthToken(cast("str", b"abc")), "whose value is a bytes"),
        (OAuthToken("abc", extensions=cast("dict[str, str]", [])), "extensions that are no mapping"),
        (OAuthToken("abc", extensions=cast("dict[str, str]", {"a": 1})), "extensions that are not text"),
        (OAuthToken("abc", extensions={"auth": "x"}), "'auth' is no name of a SASL extension"),
        (OAuthToken("abc", extensions={"a": "x\x01"}), "extension a .* characters that are not ASCII"),
        ("", "is empty"),
        ("abc\n", "characters that a token cannot have"),
        ("a\x01auth=Bearer b", "characters that a token cannot have"),
        ("x" * 524_289, "524289 characters; a broker takes 524288 at most"),
        (("abc", 1_600_000_000), "expired before it came, at 2020-09-13"),
    ],
)
def test_what_is_no_token_is_told_of_without_showing_it(
    answer: object, why: str, make_config: MakeConfig, first_token: FirstToken
) -> None:
    provider = cast("TokenProvider", lambda: answer)

    with pytest.raises(NoTokenError, match=why) as caught:
        first_token(make_config(sasl_oauth_token_provider=provider))

    assert "abc" not in str(caught.value)


def fails() -> str:
    raise OSError("no network in here")


def exits() -> str:
    sys.exit("no credentials found")


@pytest.mark.parametrize(
    ("provider", "why"),
    [(fails, "failed: OSError: no network in here"), (exits, "failed: SystemExit: no credentials found")],
)
def test_a_provider_that_keeps_failing_is_told_of_with_its_reason(
    provider: TokenProvider, why: str, make_config: MakeConfig, first_token: FirstToken
) -> None:
    with pytest.raises(NoTokenError, match=why) as caught:
        first_token(
            make_config(
                sasl_oauth_token_provider=provider, sasl_login_retry_backoff_ms=1, sasl_login_retry_backoff_max_ms=5
            )
        )

    assert isinstance(caught.value.__cause__, OSError | SystemExit)


def test_a_provider_may_say_that_the_credentials_are_wrong(make_config: MakeConfig, first_token: FirstToken) -> None:
    asked = []

    def refused() -> str:
        asked.append(1)
        raise AuthenticationError("the vault says no")

    with pytest.raises(AuthenticationError, match="the vault says no") as caught:
        first_token(make_config(sasl_oauth_token_provider=refused))

    assert not isinstance(caught.value, NoTokenError)
    assert len(asked) == 1


def test_a_provider_that_takes_arguments_is_refused_with_the_settings(make_config: MakeConfig) -> None:
    def for_another_client(config: str) -> str:
        return config

    with pytest.raises(ConfigError, match="called without arguments, and cannot be: missing a required argument"):
        make_config(sasl_oauth_token_provider=for_another_client)


def test_a_provider_that_blocks_neither_stops_the_network_nor_the_end(make_config: MakeConfig) -> None:
    """While it blocks, other tasks run; when the client closes, it is not waited for."""
    blocks, released = threading.Event(), threading.Event()

    def provider() -> str:
        blocks.set()
        released.wait()
        return "abc"

    async def test() -> int:
        config = make_config(sasl_oauth_token_provider=provider)
        login = TokenLogin(config, login_of(config))
        turns = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(login.run)
            nursery.start_soon(_quietly, login.token)
            while not blocks.is_set() or turns < 100:
                turns += 1
                await trio.sleep(0)
            nursery.cancel_scope.cancel()
        return turns

    try:
        assert trio.run(test) >= 100
    finally:
        released.set()


async def _quietly(ask: Callable[[], Awaitable[OAuthToken]]) -> None:
    await ask()
