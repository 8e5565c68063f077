"""No secret is written anywhere: not by logs at DEBUG, not by errors, not by tools that collect the local variables of
an error's traceback, not by `repr`, not by pickles."""

from __future__ import annotations

import base64
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

import pytest
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kwire.config import login_of
from kwire.errors import AuthenticationError
from kwire.network.login.token_login import TokenLogin

if TYPE_CHECKING:
    from kwire.config import ConsumerConfig
    from tests.network.login.conftest import Handler, MakeConfig, ScriptedServer

CLIENT_SECRET = "hush, nobody may read this"
HEADER = base64.b64encode(f"kwire-client:{CLIENT_SECRET}".encode()).decode()
TOKEN = "t0ken-t0ken-t0ken"
PASSPHRASE = "open, sesame"
ASSERTION = "assert10n.assert10n.assert10n"
SECRETS = (CLIENT_SECRET, quote_plus(CLIENT_SECRET), HEADER, TOKEN, ASSERTION)


def hang_up(handler: Handler) -> None:
    handler.connection.close()


def half_an_answer(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(f'{{"access_token": "{TOKEN}", '.encode())


def half_a_chunk(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(f'{len(TOKEN) + 40:x}\r\n{{"access_token": "{TOKEN}", '.encode())


def echo(handler: Handler) -> None:
    """Servers exist that quote what they were sent."""
    sent = handler.server.asked[-1]
    said = " ".join([sent.headers.get("authorization", ""), CLIENT_SECRET, *sent.form.values()])
    handler.reply(401, b'{"error": "invalid_client", "error_description": "%s"}' % said.encode())


def everything_about(config: ConsumerConfig, caplog: pytest.LogCaptureFixture) -> str:
    """What a user could come to see of a login: logs, `repr`, and the error as the most curious tools show it."""
    shown: list[str] = []

    async def test() -> None:
        login = TokenLogin(config, login_of(config))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(login.run)
            try:
                with trio.fail_after(30):
                    shown.append(repr(await login.token()))
            except AuthenticationError as error:
                shown.extend(traceback.TracebackException.from_exception(error, capture_locals=True).format())
                shown.append(pickle.dumps(error).decode("latin-1"))
            shown.append(repr(login))
            nursery.cancel_scope.cancel()

    with caplog.at_level(logging.DEBUG):
        trio.run(test)
    return "\n".join([*shown, *(record.getMessage() for record in caplog.records), caplog.text])


@pytest.mark.parametrize(
    "respond",
    [
        hang_up,
        half_an_answer,
        half_a_chunk,
        echo,
        lambda handler: handler.reply(200, b'{"access_token": "%s", "expires_in": 3600}' % TOKEN.encode()),
        lambda handler: handler.reply(200, b'{"access_token": "%s\x7f"}' % TOKEN.encode()),
        lambda handler: handler.reply(200, b'{"access_token": "%s", "expires_in": []}' % TOKEN.encode()),
        lambda handler: handler.reply(200, b'{"access_token": "%s", "expires_in": -1}' % TOKEN.encode()),
        lambda handler: handler.reply(200, b'{"access_token": "%s"' % TOKEN.encode()),
        lambda handler: handler.reply(302, b"", Location=f"https://x/?token={TOKEN}"),
        lambda handler: handler.server.released.wait(),
    ],
)
@pytest.mark.parametrize("uses_assertion", [False, True])
def test_whatever_a_login_server_does_no_secret_is_shown(
    respond: Callable[[Handler], object],
    uses_assertion: bool,
    tmp_path_factory: pytest.TempPathFactory,
    login_server: ScriptedServer,
    server_config: MakeConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    login_server.answers(respond)
    settings: dict[str, object] = {"sasl_login_retry_backoff_max_ms": 1, "sasl_login_read_timeout_ms": 30}
    if uses_assertion:
        path = tmp_path_factory.mktemp("login") / "assertion"
        path.write_text(ASSERTION)
        settings["sasl_oauthbearer_assertion_file"] = path

    shown = everything_about(server_config(**settings), caplog)

    assert login_server.asked  # something was sent that could be shown
    assert "TokenLogin" in shown
    assert [secret for secret in SECRETS if secret in shown] == []


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("passphrase", [PASSPHRASE, "another"])
def test_a_key_that_cannot_be_used_is_not_shown(
    algorithm: str, passphrase: str, tmp_path: Path, server_config: MakeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """The key is one for ES384."""
    key = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSPHRASE.encode()),
    )
    path = tmp_path / "key.pem"
    path.write_bytes(key)
    config = server_config(
        sasl_oauthbearer_assertion_private_key_file=path,
        sasl_oauthbearer_assertion_private_key_passphrase=passphrase,
        sasl_oauthbearer_assertion_algorithm=algorithm,
        sasl_oauthbearer_assertion_claim_iss="me",
        sasl_login_retry_backoff_max_ms=1,
    )

    shown = everything_about(config, caplog)

    assert "no assertion can be signed with" in shown
    assert [line for line in (*key.decode().splitlines()[1:-1], PASSPHRASE) if line in shown] == []


@pytest.mark.parametrize("answer", [TOKEN, f"{TOKEN}\n", (TOKEN, None), (TOKEN, 1.0), {"token": TOKEN}])
def test_whatever_a_provider_returns_it_is_not_shown(
    answer: object, make_config: MakeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"sasl_oauth_token_provider": lambda: answer, "sasl_login_retry_backoff_max_ms": 1}

    shown = everything_about(make_config(**settings), caplog)

    assert "TokenLogin" in shown
    assert TOKEN not in shown
