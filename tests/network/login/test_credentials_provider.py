"""User name and password from the user's own code: each answer that it may give, and code that fails."""

from __future__ import annotations

import asyncio
import functools
from typing import cast

import pytest

from kwire.config import CredentialsAnswer, CredentialsProvider, Secret
from kwire.errors import SaslAuthenticationError
from kwire.network.login.credentials import ask_for_credentials

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
