"""User name and password from the user's own code: each answer that it may give, and code that fails."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, cast

import pytest
import trio
import trio.testing

from kwire.config import CredentialsAnswer, CredentialsProvider, Secret
from kwire.errors import SaslAuthenticationError
from kwire.network.authentication import Authentication
from kwire.network.login.credentials import ask_for_credentials

if TYPE_CHECKING:
    from tests.network.login.conftest import MakeConfig

HUSH = "hunter2"


class CallableObject:
    def __call__(self) -> CredentialsAnswer:
        return "me", Secret(HUSH)


async def coroutine_function() -> tuple[str, str]:
    await asyncio.sleep(0)
    return "me", HUSH


@pytest.mark.parametrize(
    "provider",
    [
        lambda: ("me", HUSH),
        functools.partial(tuple, ["me", HUSH]),
        coroutine_function,
        CallableObject(),
    ],
)
def test_a_provider_may_be_a_function_a_coroutine_function_or_an_object(provider: CredentialsProvider) -> None:
    username, password = ask_for_credentials(provider)
    assert (username, password.reveal()) == ("me", HUSH)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "returned None; it has to return a tuple of user name and password"),
        (HUSH, "returned a str"),
        (("me", HUSH.encode()), r"returned a tuple \(str, bytes\)"),
        (("me", HUSH, 5), r"returned a tuple \(str, str, int\)"),
    ],
)
def test_another_answer_is_refused_without_being_shown(answer: object, why: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=f"sasl_credentials_provider {why}") as caught:
        ask_for_credentials(lambda: cast("CredentialsAnswer", answer))
    assert HUSH not in str(caught.value)


@pytest.mark.parametrize("failure", [LookupError("the vault is sealed"), SystemExit(1)])
def test_a_provider_that_fails_is_told(failure: BaseException) -> None:
    def provider() -> CredentialsAnswer:
        raise failure

    with pytest.raises(SaslAuthenticationError, match=f"failed: {type(failure).__name__}") as caught:
        ask_for_credentials(provider)
    assert caught.value.__cause__ is failure


def test_connections_ask_one_after_the_other(make_config: MakeConfig) -> None:
    asked, goes_on = list[str](), threading.Event()

    def provider() -> CredentialsAnswer:
        asked.append("")
        assert goes_on.wait(10.0)
        return "me", HUSH

    config = make_config(sasl_mechanism="PLAIN", sasl_credentials_provider=provider)

    async def scenario() -> None:
        authentication = Authentication(config)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(authentication.login)
            while not asked:
                await trio.testing.wait_all_tasks_blocked(0.01)
            assert len(asked) == 1
            goes_on.set()

    trio.run(scenario)
    assert len(asked) == 3
