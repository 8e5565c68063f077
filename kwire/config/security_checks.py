"""What has to fit together among the security settings. Files are not looked at here: the network side reads them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from kwire.config.choices import SaslMechanism, SecurityProtocol
from kwire.config.login import login_of
from kwire.config.secret import Secret
from kwire.config.security_config import SecurityConfig
from kwire.config.setting import Setting
from kwire.config.token_origin import token_origin
from kwire.errors import ConfigError

log = logging.getLogger("kwire.config")

_TRUST = ("ssl_truststore_location", "ssl_truststore_certificates")
_KEYS = ("ssl_keystore_location", "ssl_keystore_certificate_chain", "ssl_keystore_key", "ssl_key_password")
_PASSWORD = ("sasl_username", "sasl_password", "sasl_credentials_provider")
_TOKENS = ("sasl_oauth_token_provider", "sasl_oauthbearer_token_endpoint_url")


def hide_secrets(settings: Mapping[str, Setting], given: dict[str, object]) -> None:
    """Put a `Secret` in the place of each text that is one, so that no local variable shows it from here on."""
    for name, value in given.items():
        if name in settings and settings[name].is_secret and isinstance(value, str) and value:
            given[name] = Secret(value)


def fill_in_mechanism(values: dict[str, object]) -> None:
    """Set the mechanism, if the other settings leave one only; Java's default, GSSAPI, would be of no use there.

    Raises:
        ConfigError: a password is given, which several mechanisms take.
    """
    protocol = values.get("security_protocol", SecurityProtocol.PLAINTEXT)
    assert isinstance(protocol, SecurityProtocol)
    if not protocol.is_sasl or "sasl_mechanism" in values:
        return
    if _given(values, _PASSWORD):
        raise ConfigError(
            "sasl_mechanism is missing; give the mechanism the brokers use, such as PLAIN, SCRAM-SHA-256 or "
            "SCRAM-SHA-512"
        )
    if _given(values, _TOKENS):
        values["sasl_mechanism"] = SaslMechanism.OAUTHBEARER


def check_listeners(named: Collection[str], protocol: SecurityProtocol) -> None:
    """Raises: ConfigError, if servers are named with another protocol than is spoken; the Java client ignores that."""
    for name in named:
        if name != protocol.value and name in SecurityProtocol.__members__:
            raise ConfigError(
                f"bootstrap_servers begins with {name}://, but security_protocol is {protocol.value}; say which it is "
                "by security_protocol"
            )


def check_security(config: SecurityConfig) -> None:
    """Raises: ConfigError, where settings contradict each other, or something is missing."""
    protocol = config.security_protocol
    if protocol.is_tls:
        _check_tls(config)
    if protocol.is_sasl:
        login = login_of(config)
        if config.sasl_mechanism is SaslMechanism.OAUTHBEARER:
            token_origin(config, login)


def warn_of_unused(values: Mapping[str, object]) -> None:
    """Say what is given and has no effect with this protocol and mechanism; the Java client takes such files in
    silence."""
    protocol = values.get("security_protocol", SecurityProtocol.PLAINTEXT)
    assert isinstance(protocol, SecurityProtocol)
    url = values.get("sasl_oauthbearer_token_endpoint_url")
    # Login servers are checked against the same authorities, whatever brokers speak.
    used = (*_TRUST, "ssl_context") if protocol.is_sasl and isinstance(url, str) and url.startswith("https:") else ()
    unused = [
        name
        for name, value in values.items()
        if value is not None
        and name not in used
        and ((name.startswith("ssl_") and not protocol.is_tls) or (name.startswith("sasl_") and not protocol.is_sasl))
    ]
    if unused:
        log.warning("without effect with security_protocol=%s: %s", protocol.value, ", ".join(sorted(unused)))
    if protocol.is_sasl:
        mechanism = values.get("sasl_mechanism", SaslMechanism.GSSAPI)
        assert isinstance(mechanism, SaslMechanism)
        if unused := [name for name in values if values[name] is not None and _is_of_another(mechanism, name)]:
            log.warning("without effect with sasl_mechanism=%s: %s", mechanism.value, ", ".join(sorted(unused)))
        if protocol is SecurityProtocol.SASL_PLAINTEXT and mechanism is SaslMechanism.PLAIN:
            log.warning("the password is sent in the clear: sasl_mechanism=PLAIN with security_protocol=SASL_PLAINTEXT")


def _is_of_another(mechanism: SaslMechanism, name: str) -> bool:
    """Whether this mechanism has no use for a setting that another one has."""
    if name in _PASSWORD:
        return not mechanism.takes_password
    if name.startswith("sasl_oauth"):
        return mechanism is not SaslMechanism.OAUTHBEARER
    return name.startswith("sasl_kerberos") and mechanism is not SaslMechanism.GSSAPI


def _check_tls(config: SecurityConfig) -> None:
    values = {name: getattr(config, name) for name in (*_TRUST, *_KEYS)}
    if config.ssl_context is not None and (names := _given(values, values)):
        raise ConfigError(f"ssl_context stands for all of TLS; leave out {', '.join(names)}, or ssl_context")
    if len(names := _given(values, _TRUST)) > 1:
        raise ConfigError(f"{' and '.join(names)} are both given; give one")
    inline = _given(values, ("ssl_keystore_certificate_chain", "ssl_keystore_key"))
    if config.ssl_keystore_location is not None and inline:
        raise ConfigError(f"ssl_keystore_location and {' and '.join(inline)} are both given; give one way")
    if len(inline) == 1:
        raise ConfigError("a client's certificate needs ssl_keystore_certificate_chain and ssl_keystore_key, both")
    if config.ssl_key_password is not None and not inline and config.ssl_keystore_location is None:
        raise ConfigError("ssl_key_password is given, but no key: give ssl_keystore_location, or chain and key as text")


def _given(values: Mapping[str, object], names: Collection[str]) -> list[str]:
    return [name for name in names if values.get(name) is not None]
