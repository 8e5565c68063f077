"""Tokens from a file that something else renews."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from kwire.config import ConsumerConfig, OAuthToken, login_of
from kwire.errors import NoTokenError
from kwire.network.login import token_login
from kwire.network.login.token_login import TokenLogin

if TYPE_CHECKING:
    from tests.network.login.conftest import MakeConfig

FirstToken = Callable[[ConsumerConfig], OAuthToken]


def config_of(path: Path, make_config: MakeConfig) -> ConsumerConfig:
    return make_config(sasl_oauthbearer_token_endpoint_url=path.as_uri(), sasl_login_retry_backoff_max_ms=1)


def test_a_token_is_the_text_of_the_file(tmp_path: Path, make_config: MakeConfig, first_token: FirstToken) -> None:
    path = tmp_path / "a token"
    path.write_text(" abc.def.ghi\n")

    assert first_token(config_of(path, make_config)).value == "abc.def.ghi"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "sasl_oauthbearer_token_endpoint_url: '.*/token' cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"{}", "characters that a token cannot have"),
        (b"\xff\xfe", "characters that a token cannot have"),
        (b"x" * 524_289, "larger than a token can be"),
    ],
)
def test_a_file_without_a_token_is_told_of(
    content: bytes | None, why: str, tmp_path: Path, make_config: MakeConfig, first_token: FirstToken
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(NoTokenError, match=why):
        first_token(config_of(path, make_config))


def test_a_file_that_is_replaced_is_read_again_before_its_token_ends(
    tmp_path: Path, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_login, "_LOOK_AT_FILE_MS", 1.0)
    monkeypatch.setattr(token_login, "MIN_PAUSE_MS", 0.0)
    path, newer = tmp_path / "token", tmp_path / "newer"
    path.write_text("first")
    newer.write_text("second")

    async def test() -> None:
        config = config_of(path, make_config)
        login = TokenLogin(config, login_of(config))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(login.run)
            assert (await login.token()).value == "first"
            os.replace(newer, path)
            with trio.fail_after(10):
                while (await login.token()).value != "second":
                    await trio.sleep(0.001)
            nursery.cancel_scope.cancel()

    trio.run(test)
