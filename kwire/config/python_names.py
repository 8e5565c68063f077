"""What becomes of the settings of kafka-python and aiokafka, where kwire has another name or none."""

from __future__ import annotations

from kwire.config.foreign_names import COMMIT_CALLBACK, OWN_CONTEXT, ForeignName, idle, other, same, taken
from kwire.config.foreign_values import certificate_file, hostname_check, key_file

_KERBEROS = "sasl_kerberos_service_name and the brokers' host names say which service it is"
_PROXY = "kwire connects to brokers itself; a tunnel has to be where bootstrap_servers and advertised listeners point"

PYTHON_CLIENTS: tuple[ForeignName, ...] = (
    same("sasl_plain_username", "sasl_username"),
    same("sasl_plain_password", "sasl_password", secret=True),
    same("ssl_cafile", "ssl_truststore_location"),
    taken("ssl_certfile", "ssl_keystore_certificate_chain", certificate_file),
    taken("ssl_keyfile", "ssl_keystore_key", key_file),
    same("ssl_password", "ssl_key_password", secret=True),
    same("ssl_check_hostname", "ssl_endpoint_identification_algorithm", hostname_check),
    other("ssl_crlfile", OWN_CONTEXT),
    other("ssl_ciphers", OWN_CONTEXT),
    other(
        "consumer_timeout_ms",
        "poll(timeout) comes back without records, and kwire.read() ends where the topic does; aiokafka's only "
        "tunes how it fetches, and has no counterpart",
        at=("", "inf"),
    ),
    other("default_offset_commit_callback", COMMIT_CALLBACK),
    other("rebalance_timeout_ms", "max_poll_interval_ms is also how long a rebalance waits for this member"),
    other("socket_options", "there are receive_buffer_bytes and send_buffer_bytes"),
    other("sasl_kerberos_name", _KERBEROS),
    other("sasl_kerberos_domain_name", _KERBEROS),
    other("proxy_url", _PROXY),
    other("socks5_proxy", _PROXY),
    other("kafka_client", "the client is kwire's own"),
    other("selector", "the loop is kwire's own", at=("", "<class 'selectors.epollselector'>")),
    other("loop", "Consumer blocks; it takes no event loop"),
    *idle("api_version", "api_version_auto_timeout_ms", instead="brokers are asked what they speak"),
    *idle("bootstrap_timeout_ms", instead="poll(timeout) raises BootstrapError if no broker was ever reached"),
    *idle(
        *("enable_incremental_fetch_sessions", "max_in_flight_requests_per_connection", "receive_message_max_bytes"),
        *("metrics_enabled", "metric_group_prefix"),
    ),
)
