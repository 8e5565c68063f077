"""What a client logs in with, from the settings of their own or from `sasl_jaas_config`, which says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kwire.config.choices import SaslMechanism
from kwire.config.credentials_provider import CredentialsProvider
from kwire.config.jaas import JaasEntry, parse_jaas
from kwire.config.secret import Secret
from kwire.config.security_config import SecurityConfig
from kwire.errors import ConfigError

_PASSWORD_MODULES = frozenset({"PlainLoginModule", "ScramLoginModule"})
_MODULES: Mapping[SaslMechanism, frozenset[str]] = {
    SaslMechanism.PLAIN: _PASSWORD_MODULES,
    SaslMechanism.SCRAM_SHA_256: _PASSWORD_MODULES,
    SaslMechanism.SCRAM_SHA_512: _PASSWORD_MODULES,
    SaslMechanism.OAUTHBEARER: frozenset({"OAuthBearerLoginModule"}),
    SaslMechanism.GSSAPI: frozenset({"Krb5LoginModule"}),
}
T = TypeVar("T")

_EXTENSION = "extension_"
_UNSECURED = "unsecuredLogin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The credentials of one client. Only those of its mechanism are there."""

    username: str = ""
    password: Secret | None = None
    provider: CredentialsProvider | None = None
    """Called for user name and password before each login; the two above are empty then."""
    is_delegation_token: bool = False
    """Whether these are a delegation token's id and hmac (KIP-48); for SCRAM alone."""
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    unsecured: Mapping[str, str] = field(default_factory=dict)
    """Options for a token that nobody has signed, as Java's module makes it for tests: `unsecuredLogin...`."""
    service_name: str = "kafka"
    principal: str | None = None
    keytab: str | None = None


def login_of(config: SecurityConfig) -> Login:
    """The credentials that the settings name.

    Raises:
        ConfigError: some are missing, are given twice, or are another mechanism's.
    """
    entry = JaasEntry("", {})
    if config.sasl_jaas_config is not None:
        entry = parse_jaas(config.sasl_jaas_config.reveal())
        if entry.module not in _MODULES[config.sasl_mechanism]:
            raise ConfigError(
                f"sasl_jaas_config is for {entry.module}, but sasl_mechanism is {config.sasl_mechanism.value}, which "
                f"takes {' or '.join(sorted(_MODULES[config.sasl_mechanism]))}"
            )
    if config.sasl_mechanism.takes_password:
        return _password_login(config, entry.options)
    if config.sasl_mechanism is SaslMechanism.OAUTHBEARER:
        return _token_login(config, entry.options)
    return _kerberos_login(config, entry.options)


def _password_login(config: SecurityConfig, options: Mapping[str, str]) -> Login:
    if config.sasl_credentials_provider is not None:
        names = ("sasl_username", "sasl_password", "sasl_jaas_config")
        if given := [name for name in names if getattr(config, name) is not None]:
            raise ConfigError(f"sasl_credentials_provider is given, and {', '.join(given)} as well; give one")
        return Login(provider=config.sasl_credentials_provider)
    username = _one("sasl_username", config.sasl_username, options.get("username"))
    password = _one("sasl_password", config.sasl_password, _secret(options.get("password")))
    if not username or password is None:
        raise ConfigError(
            f"sasl_mechanism={config.sasl_mechanism.value} needs sasl_username and sasl_password, sasl_jaas_config "
            "with both, or sasl_credentials_provider"
        )
    is_token = config.sasl_mechanism.is_scram and options.get("tokenauth", "").lower() == "true"
    return Login(username=username, password=password, is_delegation_token=is_token)


def _token_login(config: SecurityConfig, options: Mapping[str, str]) -> Login:
    client_id = config.sasl_oauthbearer_client_credentials_client_id
    client_secret = config.sasl_oauthbearer_client_credentials_client_secret
    for name in options:
        if name.startswith("ssl."):
            raise ConfigError(
                f"sasl_jaas_config has the option {name}: what the login server's certificate is checked against is "
                f"said by ssl_truststore_location, beside the system's authorities; leave {name} out"
            )
    login = Login(
        client_id=_one("sasl_oauthbearer_client_credentials_client_id", client_id, options.get("clientId")),
        client_secret=_one(
            "sasl_oauthbearer_client_credentials_client_secret", client_secret, _secret(options.get("clientSecret"))
        ),
        scope=_one("sasl_oauthbearer_scope", config.sasl_oauthbearer_scope, options.get("scope")),
        extensions={
            name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
        },
        unsecured={name: value for name, value in options.items() if name.startswith(_UNSECURED)},
    )
    sources = (config.sasl_oauth_token_provider, config.sasl_oauthbearer_token_endpoint_url, login.unsecured)
    if not any(sources):
        raise ConfigError(
            "sasl_mechanism=OAUTHBEARER needs to know where tokens come from: give sasl_oauth_token_provider, or "
            "sasl_oauthbearer_token_endpoint_url"
        )
    if config.sasl_oauth_token_provider is not None and config.sasl_oauthbearer_token_endpoint_url is not None:
        raise ConfigError("sasl_oauth_token_provider and sasl_oauthbearer_token_endpoint_url are both given; give one")
    return login


def _kerberos_login(config: SecurityConfig, options: Mapping[str, str]) -> Login:
    service_name = _one("sasl_kerberos_service_name", config.sasl_kerberos_service_name, options.get("serviceName"))
    keytab = options.get("keyTab") if options.get("useKeyTab", "").lower() == "true" else None
    return Login(service_name=service_name or "kafka", principal=options.get("principal"), keytab=keytab)


def _secret(text: str | None) -> Secret | None:
    return Secret(text) if text else None


def _one(name: str, setting: T | None, from_jaas: T | None) -> T | None:
    """What one of the two says. Both may, if they say the same."""
    if setting is not None and from_jaas is not None and setting != from_jaas:
        raise ConfigError(f"{name} and sasl_jaas_config contradict each other; give one of them")
    return from_jaas if setting is None else setting
