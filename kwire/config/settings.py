"""The settings as keyword arguments, for `def f(**settings: Unpack[Settings])`.

The types are what a user of the keywords writes; mappings may also hold the spellings of a properties file. A test
keeps the names equal to those of `ConsumerConfig`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypedDict

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
from kwire.config.credentials_provider import CredentialsProvider
from kwire.config.deserializers import AnyDeserializer
from kwire.config.endpoints import Endpoint
from kwire.config.offset_reset import OffsetReset
from kwire.config.secret import Secret
from kwire.config.strategy import Strategy
from kwire.config.token_provider import TokenProvider

if TYPE_CHECKING:
    import ssl

    from kwire.consumer_events import OnEvent


class SecuritySettings(TypedDict, total=False):
    """The settings of `SecurityConfig`."""

    security_protocol: str | SecurityProtocol

    ssl_truststore_location: str | PathLike[str] | None
    ssl_truststore_certificates: str | None
    ssl_truststore_type: str | None
    ssl_keystore_location: str | PathLike[str] | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | Secret | None
    ssl_keystore_type: str | None
    ssl_key_password: str | Secret | None
    ssl_endpoint_identification_algorithm: str | EndpointIdentification
    ssl_enabled_protocols: str | Sequence[str | TlsVersion]
    ssl_context: ssl.SSLContext | None

    sasl_mechanism: str | SaslMechanism
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_jaas_config: str | Secret | None
    sasl_kerberos_service_name: str | None
    sasl_credentials_provider: CredentialsProvider | None
    sasl_oauth_token_provider: TokenProvider | None

    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_jwt_retriever_class: str | None
    sasl_oauthbearer_assertion_file: str | PathLike[str] | None
    sasl_oauthbearer_assertion_private_key_file: str | PathLike[str] | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    sasl_oauthbearer_assertion_algorithm: str | AssertionAlgorithm
    sasl_oauthbearer_assertion_template_file: str | PathLike[str] | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int


class Settings(SecuritySettings, total=False):
    """See `ConsumerConfig` for what each means, or run `kwire config`. All but those that say what type keys and values
    have, which are in `AllSettings`: a consumer is typed by them."""

    bootstrap_servers: str | Sequence[str | Endpoint]
    client_dns_lookup: str | ClientDnsLookup
    client_id: str
    client_rack: str

    group_id: str | None
    group_protocol: str | GroupProtocol
    group_instance_id: str | None
    partition_assignment_strategy: Strategy | Sequence[Strategy]
    group_remote_assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_async_revocation: bool
    enable_parallel_rebalance: bool
    parallel_rebalance_min_lag_records: int
    parallel_rebalance_min_lag_ms: int | None
    parallel_rebalance_head_share: float
    parallel_rebalance_children: int

    auto_offset_reset: str | OffsetReset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: str | IsolationLevel

    max_poll_records: int
    check_crcs: bool

    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int | None
    fetch_buffer_bytes: int

    metadata_max_age_ms: int
    allow_auto_create_topics: bool
    metadata_recovery_strategy: str | MetadataRecoveryStrategy
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_cluster_check_enable: bool
    exclude_internal_topics: bool

    default_api_timeout_ms: int
    request_timeout_ms: int
    close_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int

    metrics_num_samples: int
    metrics_sample_window_ms: int
    enable_metrics_push: bool

    on_event: OnEvent | None
    event_lag_records: int | None

    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    receive_buffer_bytes: int
    send_buffer_bytes: int


class AllSettings(Settings, total=False):
    """`Settings`, and the deserializers."""

    key_deserializer: AnyDeserializer | None
    value_deserializer: AnyDeserializer | None
