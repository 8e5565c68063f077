"""From the settings to what gives tokens. Each way is a function without arguments that may block: it runs in a worker
thread."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

from kwire.clock import wall_clock_ms
from kwire.config import (
    ConsumerConfig,
    Login,
    OAuthToken,
    Secret,
    TokenOrigin,
    has_assertion,
    token_origin,
    unsecured_claims,
    unsecured_extensions,
)
from kwire.logs import part_logger
from kwire.network.login.grants import client_assertion_request, client_secret_request, jwt_bearer_request
from kwire.network.login.login_server import LoginServer
from kwire.network.login.provider import ProviderTokens
from kwire.network.login.token_file import FileTokens, TokenFile

log = part_logger("login")

GiveToken: TypeAlias = Callable[[], OAuthToken]


def token_giver(config: ConsumerConfig, login: Login) -> GiveToken:
    """What gives the tokens that the settings want.

    Raises:
        ConfigError: the settings contradict each other, or need a package that is not installed.
    """
    origin = token_origin(config, login)
    match origin:
        case TokenOrigin.PROVIDER:
            assert config.sasl_oauth_token_provider is not None
            return ProviderTokens(config.sasl_oauth_token_provider)
        case TokenOrigin.UNSECURED:
            return lambda: _unsecured_token(login.unsecured)
        case TokenOrigin.FILE:
            assert config.sasl_oauthbearer_token_endpoint_url is not None
            return FileTokens(config.sasl_oauthbearer_token_endpoint_url)
        case TokenOrigin.CLIENT_CREDENTIALS:
            if not has_assertion(config):
                return LoginServer(config, lambda: client_secret_request(config, login))
            assertion = _assertion_maker(config)
            if login.client_secret is not None:
                log.warning("the client's secret is not used: it proves by an assertion who it is")
            return LoginServer(config, lambda: client_assertion_request(login, assertion()))
        case TokenOrigin.JWT_BEARER:
            assertion = _assertion_maker(config)
            return LoginServer(config, lambda: jwt_bearer_request(login, assertion()))
        case _:
            assert_never(origin)


def name_of_origin(config: ConsumerConfig) -> str:
    """Where tokens come from, in an error."""
    if config.sasl_oauth_token_provider is not None:
        return TokenOrigin.PROVIDER.value
    return config.sasl_oauthbearer_token_endpoint_url or "sasl_jaas_config"


def _assertion_maker(config: ConsumerConfig) -> Callable[[], Secret]:
    if config.sasl_oauthbearer_assertion_file is not None:
        if config.sasl_oauthbearer_assertion_private_key_file is not None:
            log.warning("sasl_oauthbearer_assertion_private_key_file is not used: assertions come from a file")
        file = TokenFile(config.sasl_oauthbearer_assertion_file, "sasl_oauthbearer_assertion_file")
        return lambda: Secret(file.read())
    from kwire.network.login.assertion import AssertionMaker  # loads a library that most do without

    return AssertionMaker(config)


def _unsecured_token(options: Mapping[str, str]) -> OAuthToken:
    now_ms = wall_clock_ms()
    parts = ({"alg": "none"}, unsecured_claims(options, now_ms))
    header, claims = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return OAuthToken(f"{header}.{claims}.", extensions=unsecured_extensions(options))
