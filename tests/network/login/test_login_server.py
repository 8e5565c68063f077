"""A login server over real TLS, as it should be and as it should not: what comes of it, how often it was asked, and
what the user reads."""

from __future__ import annotations

import base64
import json
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import trustme

from kwire.clock import monotonic_ms, wall_clock_ms
from kwire.config import ConsumerConfig, OAuthToken, login_of
from kwire.errors import AuthenticationError, NoTokenError
from kwire.network.login.failures import TokenRequestError
from kwire.network.login.sources import token_giver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.network.login.conftest import Handler, MakeConfig, Says, ScriptedServer

FirstToken = Callable[[ConsumerConfig], OAuthToken]
ID = "kwire-client"
SECRET = "hush, nobody may read this"
HOUR_MS = 3_600_000


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def jwt(**claims: object) -> str:
    parts = ({"alg": "RS256"}, claims)
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts), "s"]
    )


def test_client_credentials_are_sent_as_the_java_client_sends_them(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    login_server.answers(says(200, {"access_token": "abc.def.ghi", "token_type": "Bearer", "expires_in": 3600}))
    before_ms = wall_clock_ms()

    token = first_token(server_config(sasl_oauthbearer_scope="read write"))

    assert token.value == "abc.def.ghi"
    assert token.expires_at_ms is not None
    assert 0 <= token.expires_at_ms - before_ms - HOUR_MS < 60_000
    [asked] = login_server.asked
    assert asked.form == {"grant_type": "client_credentials", "scope": "read write"}
    assert asked.headers["authorization"] == basic(ID, SECRET)
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"


def test_id_and_secret_are_encoded_for_the_header_if_the_settings_want_it(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    login_server.answers(says(200, {"access_token": "a"}))

    first_token(server_config(sasl_oauthbearer_header_urlencode=True))

    assert login_server.asked[0].headers["authorization"] == basic(ID, "hush%2C+nobody+may+read+this")


def test_credentials_may_stand_in_the_text_for_java(
    login_server: ScriptedServer, make_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    login_server.answers(says(200, {"access_token": "a"}))

    token = first_token(
        make_config(
            sasl_oauthbearer_token_endpoint_url=login_server.url,
            ssl_truststore_certificates=login_server.authority_pem,
            sasl_jaas_config="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="me" clientSecret="mine" scope="s" extension_logicalCluster="lkc-1";',
        )
    )

    assert login_server.asked[0].headers["authorization"] == basic("me", "mine")
    assert login_server.asked[0].form["scope"] == "s"
    assert token.extensions == {"logicalCluster": "lkc-1"}


def test_the_end_of_a_token_is_its_claim_if_the_server_does_not_say(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    end_seconds = wall_clock_ms() // 1000 + 1000
    login_server.answers(says(200, {"access_token": jwt(exp=end_seconds)}))

    assert first_token(server_config()).expires_at_ms == end_seconds * 1000


@pytest.mark.parametrize("status", [400, 401, 403])
def test_wrong_credentials_are_an_error_at_once_and_asked_about_once(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken, status: int
) -> None:
    login_server.answers(says(status, {"error": "invalid_client", "error_description": f"{SECRET}\x07 is wrong"}))

    with pytest.raises(
        AuthenticationError, match=rf"refuses .* HTTP {status}, invalid_client: <secret>  is w"
    ) as caught:
        first_token(server_config())

    assert not isinstance(caught.value, NoTokenError)
    assert caught.value.fatal
    assert len(login_server.asked) == 1


def test_a_server_that_is_overloaded_is_asked_again_until_it_answers(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    login_server.answers(says(503, b"<html>"), says(429, {}), says(200, {"access_token": "a", "expires_in": 60}))

    assert first_token(server_config(sasl_login_retry_backoff_max_ms=10_000)).value == "a"
    assert len(login_server.asked) == 3


def test_a_server_that_stays_broken_is_an_error_once_the_time_for_retries_is_over(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    login_server.answers(says(500, {"error": "server_error"}))

    with pytest.raises(NoTokenError, match=r"localhost:\d+/oauth2/token answered HTTP 500, server_error") as caught:
        first_token(server_config(sasl_login_retry_backoff_ms=10, sasl_login_retry_backoff_max_ms=40))

    assert caught.value.retriable
    assert not caught.value.fatal
    # Pauses of 10, 20, 40 ms, 20 % less or more: the fourth answer comes when 40 ms are over, or the third.
    assert 2 <= len(login_server.asked) <= 5


@pytest.mark.parametrize(
    ("retry_after", "pause_ms"), [("7", 7_000), ("99999", 3_600_000), ("-1", 0), ("soon", 0), ("9" * 5_000, 0)]
)
def test_a_server_may_say_how_long_it_wants_to_be_left_alone(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, retry_after: str, pause_ms: float
) -> None:
    login_server.answers(says(429, {}, Retry_After=retry_after))
    config = server_config()

    with pytest.raises(TokenRequestError, match="HTTP 429") as caught:
        token_giver(config, login_of(config))()

    assert caught.value.pause_ms == pause_ms
    assert not caught.value.is_certain


def test_an_answer_that_ends_in_the_middle_is_asked_for_again(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    def half(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b'{"access')

    login_server.answers(half, says(200, {"access_token": "a"}))

    assert first_token(server_config(sasl_login_retry_backoff_max_ms=10_000)).value == "a"
    assert len(login_server.asked) == 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>please log in</html>", "is no JSON object"),
        (b"[" * 100_000, "is no JSON object"),
        (b'["token"]', "is no JSON object"),
        (b"\xff\xfe", "is no JSON object"),
        ({"token": "a"}, "without an access_token that is text"),
        ({"access_token": 17}, "without an access_token that is text"),
        ({"access_token": "a\x01b"}, "characters that a token cannot have"),
        ({"access_token": "two words"}, "characters that a token cannot have"),
        ({"access_token": "a", "expires_in": "soon"}, "expires_in that is no number"),
        ({"access_token": "a", "expires_in": True}, "expires_in that is no number"),
        ({"access_token": "a", "expires_in": 10**400}, "expires_in that is no number"),
        ({"access_token": "a", "expires_in": float("inf")}, "expires_in that is no number"),
        ({"access_token": "a", "expires_in": -5}, "has expired before it came"),
        ({"access_token": jwt(exp=1_600_000_000)}, "expired before it came, at 2020-09-13 .* clocks wrong"),
        (b"x" * (1024 * 1024 + 1), "more than 1048576 bytes"),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error_at_once(
    login_server: ScriptedServer,
    server_config: MakeConfig,
    says: Says,
    first_token: FirstToken,
    body: object,
    why: str,
) -> None:
    login_server.answers(says(200, body))

    with pytest.raises(NoTokenError, match=why):
        first_token(server_config())

    assert len(login_server.asked) == 1


def test_a_wrong_clock_of_this_machine_does_no_harm_if_the_server_says_how_long_a_token_lives(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    """This machine is two hours ahead: by the claim alone, the token would have expired an hour ago."""
    login_server.answers(
        says(200, {"access_token": jwt(exp=wall_clock_ms() // 1000 - 3600), "expires_in": "3600"}),
    )

    end_ms = first_token(server_config()).expires_at_ms

    assert end_ms is not None
    assert end_ms > wall_clock_ms()


def test_credentials_are_not_sent_where_a_redirect_points_to(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        target = f"https://localhost:{elsewhere.getsockname()[1]}/take?code=1"
        login_server.answers(says(307, b"", Location=target))

        with pytest.raises(NoTokenError, match=r"redirects to https://localhost/take \(HTTP 307\)"):
            first_token(server_config())

        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    assert len(login_server.asked) == 1


def test_a_server_that_does_not_answer_is_given_up_when_the_time_is_over(
    login_server: ScriptedServer, server_config: MakeConfig, first_token: FirstToken
) -> None:
    login_server.answers(lambda handler: handler.server.released.wait())
    began_ms = monotonic_ms()

    with pytest.raises(NoTokenError, match="has not answered within 30 ms"):
        first_token(server_config(sasl_login_read_timeout_ms=30, sasl_login_retry_backoff_max_ms=1))

    assert monotonic_ms() - began_ms < 4_000
    assert len(login_server.asked) <= 2


def test_a_server_that_sends_a_byte_now_and_then_is_given_up_as_well(
    login_server: ScriptedServer, server_config: MakeConfig, first_token: FirstToken
) -> None:
    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not handler.server.released.wait(0.005):
            handler.wfile.write(b" ")

    login_server.answers(drip)

    with pytest.raises(NoTokenError, match="has not answered within 60 ms"):
        first_token(server_config(sasl_login_read_timeout_ms=60, sasl_login_retry_backoff_max_ms=1))


def test_a_server_that_stalls_in_the_handshake_of_tls_is_given_up(
    server_config: MakeConfig, first_token: FirstToken
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stalls:
        url = f"https://localhost:{stalls.getsockname()[1]}/t"
        with pytest.raises(NoTokenError, match="could not be connected to within 30 ms"):
            first_token(
                server_config(
                    sasl_oauthbearer_token_endpoint_url=url,
                    sasl_login_connect_timeout_ms=30,
                    sasl_login_retry_backoff_max_ms=1,
                )
            )


def test_a_server_that_is_down_is_named(server_config: MakeConfig, first_token: FirstToken) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"https://localhost:{free.getsockname()[1]}/t"

    with pytest.raises(NoTokenError, match=r"https://localhost:\d+/t cannot be reached: Connection refused"):
        first_token(server_config(sasl_oauthbearer_token_endpoint_url=url, sasl_login_retry_backoff_max_ms=1))


def test_a_server_whose_certificate_nobody_vouches_for_gets_no_credentials(
    login_server: ScriptedServer, server_config: MakeConfig, first_token: FirstToken
) -> None:
    stranger = trustme.CA().cert_pem.bytes().decode()

    with pytest.raises(NoTokenError, match=r"is not trusted: .* give ssl_truststore_location"):
        first_token(server_config(ssl_truststore_certificates=stranger))

    assert login_server.asked == []


def test_authorities_may_have_names_of_any_alphabet_beside_them(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    login_server.answers(says(200, {"access_token": "a"}))
    authorities = f"# Müller GmbH\n{login_server.authority_pem}"

    assert first_token(server_config(ssl_truststore_certificates=authorities)).value == "a"


def test_authorities_may_stand_in_one_line_as_for_brokers(
    login_server: ScriptedServer,
    server_config: MakeConfig,
    says: Says,
    first_token: FirstToken,
    tmp_path: Path,
) -> None:
    login_server.answers(*(says(200, {"access_token": "a"}) for _ in range(2)))
    one_line = login_server.authority_pem.replace("\n", " ")
    (file := tmp_path / "authority.pem").write_text(one_line)

    assert first_token(server_config(ssl_truststore_certificates=one_line)).value == "a"
    in_a_file = server_config(ssl_truststore_certificates=None, ssl_truststore_location=str(file))
    assert first_token(in_a_file).value == "a"


def test_a_server_is_checked_by_its_name_even_if_brokers_are_not(
    login_server: ScriptedServer, server_config: MakeConfig, first_token: FirstToken
) -> None:
    url = login_server.url.replace("localhost", "127.0.0.1")

    with pytest.raises(NoTokenError, match="IP address mismatch"):
        first_token(
            server_config(
                sasl_oauthbearer_token_endpoint_url=url,
                security_protocol="SASL_SSL",
                ssl_endpoint_identification_algorithm="",
            )
        )

    assert login_server.asked == []


def test_the_authorities_of_a_users_own_context_are_trusted(
    login_server: ScriptedServer, server_config: MakeConfig, says: Says, first_token: FirstToken
) -> None:
    login_server.answers(says(200, {"access_token": "a"}))
    context = ssl.create_default_context(cadata=login_server.authority_pem)

    assert first_token(server_config(ssl_truststore_certificates=None, ssl_context=context)).value == "a"


def test_a_name_that_is_no_name_is_told_of(server_config: MakeConfig, first_token: FirstToken) -> None:
    with pytest.raises(NoTokenError, match=r"https://a\.\.b/ has no valid address"):
        first_token(server_config(sasl_oauthbearer_token_endpoint_url="https://a..b/"))
