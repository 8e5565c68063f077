"""Which way tokens for OAUTHBEARER come, as the settings say together."""

from __future__ import annotations

import re
from enum import Enum
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

from kwire.config.login import Login
from kwire.config.parsers import LOOKS_SECRET, looks_secret
from kwire.config.security_config import SecurityConfig
from kwire.config.unsecured_token import unsecured_claims
from kwire.errors import ConfigError

_PRINTED = re.compile(r"[!-~]+")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_URL = "sasl_oauthbearer_token_endpoint_url"


class TokenOrigin(Enum):
    """Where tokens come from. Where Java has a class for it, its name is the value."""

    PROVIDER = "sasl_oauth_token_provider"
    UNSECURED = "OAuthBearerUnsecuredLoginCallbackHandler"
    FILE = "FileJwtRetriever"
    CLIENT_CREDENTIALS = "ClientCredentialsJwtRetriever"
    JWT_BEARER = "JwtBearerJwtRetriever"


_RETRIEVERS = (TokenOrigin.FILE, TokenOrigin.CLIENT_CREDENTIALS, TokenOrigin.JWT_BEARER)
_DEFAULT_RETRIEVER = "DefaultJwtRetriever"


def token_origin(config: SecurityConfig, login: Login) -> TokenOrigin:
    """The way that the settings say.

    Raises:
        ConfigError: they say none, several, or leave out what that way needs.
    """
    url = config.sasl_oauthbearer_token_endpoint_url
    if config.sasl_oauth_token_provider is not None or url is None:
        return _origin_without_url(config, login)
    if login.unsecured:
        raise ConfigError(f"{_URL} and options unsecuredLogin... in sasl_jaas_config are both given; give one")
    parts = _checked_url(url)
    origin = _chosen_by_class(config) or (
        TokenOrigin.FILE if parts.scheme == "file" else TokenOrigin.CLIENT_CREDENTIALS
    )
    if (origin is TokenOrigin.FILE) != (parts.scheme == "file"):
        raise ConfigError(
            f"sasl_oauthbearer_jwt_retriever_class={origin.value} does not go with {_URL}={parts.scheme}:..."
        )
    if origin is TokenOrigin.CLIENT_CREDENTIALS and not has_assertion(config):
        _check_secret(login)
    elif origin is not TokenOrigin.FILE:
        _check_assertion(config)
    return origin


def has_assertion(config: SecurityConfig) -> bool:
    """Whether this client proves who it is by a signed assertion. If a secret is given as well, it is not used."""
    return (
        config.sasl_oauthbearer_assertion_file is not None
        or config.sasl_oauthbearer_assertion_private_key_file is not None
        or config.sasl_oauthbearer_assertion_claim_iss is not None
    )


def _origin_without_url(config: SecurityConfig, login: Login) -> TokenOrigin:
    if config.sasl_oauthbearer_jwt_retriever_class is not None:
        raise ConfigError(f"sasl_oauthbearer_jwt_retriever_class needs {_URL}, and no sasl_oauth_token_provider")
    if config.sasl_oauth_token_provider is None:
        unsecured_claims(login.unsecured, now_ms=0)
        return TokenOrigin.UNSECURED
    if login.unsecured:
        raise ConfigError(
            "sasl_oauth_token_provider and options unsecuredLogin... in sasl_jaas_config are both given; give one"
        )
    return TokenOrigin.PROVIDER


def _checked_url(url: str) -> SplitResult:
    """A login server is reached by HTTPS: what is sent to it is a secret. On this machine HTTP may do, for tests."""
    if looks_secret(url):
        raise ConfigError(f"{_URL}=<secret>: {LOOKS_SECRET}; valid: https://..., or file://...")
    try:
        if not _PRINTED.fullmatch(url):
            raise ValueError("it has characters that a URL writes as %XX")
        parts = urlsplit(url)
        has_user, host = "@" in parts.netloc, parts.hostname
        _ = parts.port  # is read here, so that a bad one is told of
    except ValueError as error:
        raise ConfigError(f"{_URL} is not a URL: {error}") from None
    shown = f"{_URL}={parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # without a user, or a query
    if parts.scheme == "file":
        if host not in (None, "localhost") or not parts.path:
            raise ConfigError(f"{shown} names no file; write file:///path/of/the/file")
    elif host is None or not (parts.scheme == "https" or (parts.scheme == "http" and host in _LOCAL)):
        raise ConfigError(f"{shown} is neither https:// nor file://")
    if has_user:
        raise ConfigError(
            f"{shown} has a user in it; give sasl_oauthbearer_client_credentials_client_id and ..._client_secret"
        )
    return parts


def _chosen_by_class(config: SecurityConfig) -> TokenOrigin | None:
    java_class = config.sasl_oauthbearer_jwt_retriever_class
    if java_class is None:
        return None
    name = java_class.rpartition(".")[2]
    for origin in _RETRIEVERS:
        if name == origin.value:
            return origin
    if name == _DEFAULT_RETRIEVER:
        return None
    known = ", ".join((_DEFAULT_RETRIEVER, *(origin.value for origin in _RETRIEVERS)))
    raise ConfigError(
        f"sasl_oauthbearer_jwt_retriever_class={java_class!r} is a class of Java's that kwire does not have; it has "
        f"{known}. For a way of your own give sasl_oauth_token_provider"
    )


def _check_secret(login: Login) -> None:
    if not (login.client_id or "").strip() or login.client_secret is None or not login.client_secret.reveal().strip():
        raise ConfigError(
            f"{_URL} needs sasl_oauthbearer_client_credentials_client_id and ..._client_secret, or an assertion: "
            "sasl_oauthbearer_assertion_private_key_file or sasl_oauthbearer_assertion_file"
        )


def _check_assertion(config: SecurityConfig) -> None:
    if config.sasl_oauthbearer_assertion_file is not None:
        return
    if config.sasl_oauthbearer_assertion_private_key_file is None:
        raise ConfigError(
            "an assertion needs sasl_oauthbearer_assertion_private_key_file, or sasl_oauthbearer_assertion_file"
        )
    if config.sasl_oauthbearer_assertion_claim_iss is None and config.sasl_oauthbearer_assertion_template_file is None:
        raise ConfigError(
            "an assertion says who has made it: give sasl_oauthbearer_assertion_claim_iss, or "
            "sasl_oauthbearer_assertion_template_file with the claim iss"
        )
    if find_spec("joserfc") is None:
        raise ConfigError(
            "assertions are signed with the package joserfc, which is not installed: pip install 'kwire[oauth]'. Or "
            "give sasl_oauthbearer_assertion_file"
        )
