"""The settings of a consumer: names, defaults, docs, and what values are valid.

`ConsumerConfig.of` is the one way in; everything above reads the frozen result.
"""

from __future__ import annotations

from kwire.config.choices import (
    AssertionAlgorithm,
    ClientDnsLookup,
    EndpointIdentification,
    GroupProtocol,
    IsolationLevel,
    MetadataRecoveryStrategy,
    SaslMechanism,
    SecurityProtocol,
    TlsVersion,
)
from kwire.config.consumer_config import NO_BROKERS, SETTINGS, ConsumerConfig, parse_setting
from kwire.config.credentials_provider import CredentialsAnswer, CredentialsProvider
from kwire.config.deserializers import AnyDeserializer, Deserialize, Deserializer
from kwire.config.docs import SettingDoc, docs
from kwire.config.endpoints import Endpoint
from kwire.config.login import Login, login_of
from kwire.config.offset_reset import OffsetReset, ResetKind
from kwire.config.secret import Secret
from kwire.config.security_config import SecurityConfig
from kwire.config.settings import AllSettings, Settings
from kwire.config.token_origin import TokenOrigin, has_assertion, token_origin
from kwire.config.token_provider import OAuthToken, TokenAnswer, TokenProvider, TokenSource
from kwire.config.unsecured_token import unsecured_claims, unsecured_extensions

__all__ = [
    "NO_BROKERS",
    "ClientDnsLookup",
    "ConsumerConfig",
    "CredentialsAnswer",
    "CredentialsProvider",
    "Settings",
    "AllSettings",
    "Endpoint",
    "GroupProtocol",
    "IsolationLevel",
    "MetadataRecoveryStrategy",
    "OffsetReset",
    "ResetKind",
    "SecurityConfig",
    "SecurityProtocol",
    "SaslMechanism",
    "TlsVersion",
    "EndpointIdentification",
    "AssertionAlgorithm",
    "Secret",
    "Login",
    "login_of",
    "OAuthToken",
    "TokenAnswer",
    "TokenProvider",
    "TokenSource",
    "TokenOrigin",
    "token_origin",
    "has_assertion",
    "unsecured_claims",
    "unsecured_extensions",
    "AnyDeserializer",
    "Deserialize",
    "Deserializer",
    "SETTINGS",
    "parse_setting",
    "SettingDoc",
    "docs",
]
