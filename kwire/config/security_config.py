# ruff: noqa: RUF009 - setting() answers what dataclasses.field() does, which that rule allows
"""The settings that say how connections are secured: TLS and SASL, under Java's names.

`ConsumerConfig` inherits them. What has to fit together is checked in `security_checks.py`, when a config is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.config.choices import (
    AssertionAlgorithm,
    EndpointIdentification,
    SaslMechanism,
    SecurityProtocol,
    TlsVersion,
)
from kwire.config.credentials_provider import CredentialsProvider, credentials_provider
from kwire.config.parsers import (
    MAX_LONG,
    boolean,
    choice,
    choices,
    integer,
    number,
    optional_integer,
    optional_text,
    path,
)
from kwire.config.secret import Secret, secret
from kwire.config.setting import setting
from kwire.config.tls_values import pem_store_type, pem_text, tls_context
from kwire.config.token_provider import TokenProvider, token_provider

if TYPE_CHECKING:
    import ssl  # costs time to load, which plain text does not need


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """The security settings, with values that are valid each and together."""

    security_protocol: SecurityProtocol = setting(
        SecurityProtocol.PLAINTEXT, "How connections are secured.", choice(SecurityProtocol)
    )

    # --- TLS ----------------------------------------------------------------------------------------------------
    ssl_truststore_location: Path | None = setting(
        None,
        "A PEM file of the authorities that brokers' certificates are checked against; read again when it changes. "
        "Login servers are checked against these and the system's.",
        path(),
        shown_default="the system's authorities",
    )
    ssl_truststore_certificates: str | None = setting(
        None, "The authorities that brokers' certificates are checked against, as PEM text.", pem_text("CERTIFICATE")
    )
    ssl_truststore_type: str | None = setting(None, "What the trust store is: PEM.", pem_store_type())
    ssl_keystore_location: Path | None = setting(
        None,
        "A PEM file with this client's private key and its chain of certificates; read again when it changes.",
        path(),
    )
    ssl_keystore_certificate_chain: str | None = setting(
        None, "This client's chain of certificates, as PEM text.", pem_text("CERTIFICATE")
    )
    ssl_keystore_key: Secret | None = setting(
        None, "This client's private key, as PEM text.", secret("PEM text, or None"), is_secret=True
    )
    ssl_keystore_type: str | None = setting(None, "What the key store is: PEM.", pem_store_type())
    ssl_key_password: Secret | None = setting(None, "What the private key is encrypted with.", secret(), is_secret=True)
    ssl_endpoint_identification_algorithm: EndpointIdentification = setting(
        EndpointIdentification.HTTPS,
        "https: the certificate has to be the broker's by name or address; empty or none: any name will do.",
        choice(EndpointIdentification),
    )
    ssl_enabled_protocols: tuple[TlsVersion, ...] = setting(
        (TlsVersion.TLS_1_2, TlsVersion.TLS_1_3),
        "Which versions of TLS are spoken.",
        choices(TlsVersion),
        shown_default="TLSv1.2,TLSv1.3",
    )
    ssl_context: ssl.SSLContext | None = setting(
        None, "A context of your own, instead of all settings of TLS above; kwire's own.", tls_context()
    )

    # --- SASL ---------------------------------------------------------------------------------------------------
    sasl_mechanism: SaslMechanism = setting(
        SaslMechanism.GSSAPI, "How this client proves who it is.", choice(SaslMechanism), shown_default="GSSAPI"
    )
    sasl_username: str | None = setting(None, "The user's name, for PLAIN and SCRAM; kwire's own.", optional_text())
    sasl_password: Secret | None = setting(
        None, "The user's password, for PLAIN and SCRAM; kwire's own.", secret(), is_secret=True
    )
    sasl_credentials_provider: CredentialsProvider | None = setting(
        None,
        "Gives user name and password for PLAIN and SCRAM, asked for at each login: a function or coroutine function; "
        "kwire's own.",
        credentials_provider(),
    )
    sasl_jaas_config: Secret | None = setting(
        None,
        "The login in Java's form. It replaces the other login settings, such as sasl_username and sasl_password.",
        secret(),
        is_secret=True,
    )
    sasl_kerberos_service_name: str | None = setting(
        None, "The name of the brokers' Kerberos service.", optional_text(), shown_default="kafka"
    )
    sasl_oauth_token_provider: TokenProvider | None = setting(
        None,
        "Gives tokens for OAUTHBEARER: a function or coroutine function, or an object with token(); kwire's own.",
        token_provider(),
    )

    # --- tokens from a login server (OAUTHBEARER) -----------------------------------------------------------------
    sasl_oauthbearer_token_endpoint_url: str | None = setting(
        None,
        "Where tokens are asked for: https, or file with a token in a file. HTTPS_PROXY in the environment counts.",
        optional_text(),
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = setting(
        None, "The client's id, for the grant client_credentials.", optional_text()
    )
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = setting(
        None, "The secret of that client.", secret(), is_secret=True
    )
    sasl_oauthbearer_scope: str | None = setting(None, "The scope that is asked for.", optional_text())
    sasl_oauthbearer_header_urlencode: bool = setting(
        False, "Encode id and secret for the header as RFC 6749 wants it; many servers do not.", boolean()
    )
    sasl_oauthbearer_jwt_retriever_class: str | None = setting(
        None,
        "The name of Java's class that gets tokens; kwire does what this class does.",
        optional_text(),
        shown_default="what the other settings say",
    )
    sasl_oauthbearer_assertion_file: Path | None = setting(
        None, "A signed assertion in a file, instead of a client secret; read again when it changes.", path()
    )
    sasl_oauthbearer_assertion_private_key_file: Path | None = setting(
        None, "A PEM file with the key that assertions are signed with.", path()
    )
    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = setting(
        None, "What that key is encrypted with.", secret(), is_secret=True
    )
    sasl_oauthbearer_assertion_algorithm: AssertionAlgorithm = setting(
        AssertionAlgorithm.RS256, "How assertions are signed.", choice(AssertionAlgorithm)
    )
    sasl_oauthbearer_assertion_template_file: Path | None = setting(
        None, "A JSON file with claims and headers that assertions begin with.", path()
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = setting(None, "The claim aud of assertions.", optional_text())
    sasl_oauthbearer_assertion_claim_iss: str | None = setting(None, "The claim iss of assertions.", optional_text())
    sasl_oauthbearer_assertion_claim_sub: str | None = setting(None, "The claim sub of assertions.", optional_text())
    sasl_oauthbearer_assertion_claim_jti_include: bool = setting(False, "Give assertions a claim jti.", boolean())
    sasl_oauthbearer_assertion_claim_exp_seconds: int = setting(
        300, "How long assertions are valid.", integer(0, 86_400)
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = setting(
        60,
        "How far in the past an assertion's validity begins, counted from when it is made: clocks may differ.",
        integer(0, 3_600),
    )
    sasl_login_connect_timeout_ms: int | None = setting(
        None, "How long connecting to the login server may take.", optional_integer(1), shown_default="10000"
    )
    sasl_login_read_timeout_ms: int | None = setting(
        None, "How long the login server's answer may take.", optional_integer(1), shown_default="10000"
    )
    sasl_login_retry_backoff_ms: int = setting(
        100, "Pause before the login server is first asked again.", integer(0, MAX_LONG)
    )
    sasl_login_retry_backoff_max_ms: int = setting(
        10_000, "The pause between attempts doubles up to this.", integer(0, MAX_LONG)
    )
    sasl_login_refresh_window_factor: float = setting(
        0.8, "A token is renewed after this share of its life.", number(0.5, 1.0)
    )
    sasl_login_refresh_window_jitter: float = setting(
        0.05,
        "A random delay of the renewal: at most this share of the token's life, added to "
        "sasl_login_refresh_window_factor.",
        number(0.0, 0.25),
    )
    sasl_login_refresh_min_period_seconds: int = setting(
        60, "A token is used at least for this long, if its life allows.", integer(0, 900)
    )
    sasl_login_refresh_buffer_seconds: int = setting(
        300, "A token is renewed at least this long before its end, if its life allows.", integer(0, 3_600)
    )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that must not be written anywhere."""
        found = (getattr(self, name) for name in type(self).__dataclass_fields__)
        return tuple(value.reveal() for value in found if isinstance(value, Secret))
