"""What becomes of the settings of librdkafka and confluent-kafka that kwire has under another name, or not at all."""

from __future__ import annotations

from kwire.config.foreign_names import COMMIT_CALLBACK, OWN_CONTEXT, ForeignName, idle, other, same, taken
from kwire.config.foreign_values import (
    buffer_bytes,
    certificate_file,
    grant_type,
    key_file,
    kibibytes,
    refresh_interval_ms,
)

_LOGS = 'kwire logs to logging.getLogger("kwire"); set its level and handlers'
_CALLBACKS = "pass it to subscribe(): on_assigned=, on_revoked=, on_lost=, or listener="
_C_ONLY = "a callback of librdkafka's C interface has no place here"
_KERBEROS = "take a ticket by kinit, or name a key table in the environment by KRB5_CLIENT_KTNAME"
_UNSECURED = "give options unsecuredLogin... in sasl_jaas_config, or sasl_oauth_token_provider"
_PROVIDER = "give sasl_oauth_token_provider, a function without arguments that returns the token, or it and its end"

LIBRDKAFKA: tuple[ForeignName, ...] = (
    # --- the same under another name ------------------------------------------------------------------------
    same("metadata.broker.list", "bootstrap_servers"),
    same("topic.metadata.refresh.interval.ms", "metadata_max_age_ms", refresh_interval_ms),
    same("socket.timeout.ms", "request_timeout_ms"),
    same("socket.send.buffer.bytes", "send_buffer_bytes", buffer_bytes),
    same("socket.receive.buffer.bytes", "receive_buffer_bytes", buffer_bytes),
    same("fetch.wait.max.ms", "fetch_max_wait_ms"),
    same("fetch.message.max.bytes", "max_partition_fetch_bytes"),
    same("queued.max.messages.kbytes", "fetch_buffer_bytes", kibibytes),
    same("auto.commit.enable", "enable_auto_commit"),
    same("sasl.mechanisms", "sasl_mechanism"),
    same("ssl.ca.location", "ssl_truststore_location"),
    same("ssl.ca.pem", "ssl_truststore_certificates"),
    same("ssl.certificate.pem", "ssl_keystore_certificate_chain"),
    same("ssl.key.pem", "ssl_keystore_key", secret=True),
    taken("ssl.certificate.location", "ssl_keystore_certificate_chain", certificate_file),
    taken("ssl.key.location", "ssl_keystore_key", key_file),
    same("sasl.oauthbearer.client.id", "sasl_oauthbearer_client_credentials_client_id"),
    same("sasl.oauthbearer.client.secret", "sasl_oauthbearer_client_credentials_client_secret", secret=True),
    same("sasl.oauthbearer.grant.type", "sasl_oauthbearer_jwt_retriever_class", grant_type),
    same("sasl.oauthbearer.assertion.jwt.template.file", "sasl_oauthbearer_assertion_template_file"),
    # --- done in another way --------------------------------------------------------------------------------
    other(
        "enable.partition.eof",
        "compare position() with end_offsets(), or use kwire.read(), which ends where the topic does",
        at=("", "false"),
    ),
    other(
        "enable.auto.offset.store",
        "set enable_auto_commit=False, and commit_sync(offsets) or commit_async(offsets) what is done",
        at=("", "true"),
    ),
    other("offset.store.method", "offsets are kept by the brokers", at=("", "broker", "none")),
    other("topic.blacklist", "subscribe to a pattern that leaves those topics out"),
    other("stats_cb", "ask metrics() when you like, or use kwire.exporters"),
    other("error_cb", "poll() raises what does not pass, and what does is logged"),
    other("throttle_cb", "metrics() has fetch-throttle-time-avg and -max"),
    other("log_cb", _LOGS),
    other("logger", _LOGS),
    other("on_commit", COMMIT_CALLBACK),
    other("offset_commit_cb", COMMIT_CALLBACK),
    other("rebalance_cb", _CALLBACKS),
    other("on_assign", _CALLBACKS),
    other("on_revoke", _CALLBACKS),
    other("on_lost", _CALLBACKS),
    other("consume_cb", "poll() returns records"),
    other("default_topic_conf", "put what is in it beside the other settings"),
    other("default.topic.config", "put what is in it beside the other settings"),
    *(
        other(name, _C_ONLY)
        for name in (
            *("background_event_cb", "socket_cb", "connect_cb", "closesocket_cb", "open_cb", "resolve_cb", "opaque"),
            *("enabled_events", "msg_order_cmp", "ssl_engine_callback_data", "plugin.library.paths"),
        )
    ),
    other("interceptors", "do what it does in the loop around poll()"),
    other("group.protocol.type", "kwire joins groups of consumers", at=("", "consumer")),
    # --- TLS ------------------------------------------------------------------------------------------------
    other(
        "enable.ssl.certificate.verification",
        "brokers are always checked; to do without, give an ssl_context with verify_mode=ssl.CERT_NONE",
        at=("", "true"),
    ),
    *(
        other(name, OWN_CONTEXT)
        for name in (
            *("ssl.curves.list", "ssl.sigalgs.list", "ssl.crl.location", "ssl.providers", "ssl.engine.location"),
            *("ssl.certificate.verify_cb", "ssl_certificate", "ssl_key", "ssl_ca"),
        )
    ),
    other("ssl.engine.id", OWN_CONTEXT, at=("", "dynamic")),
    other("ssl.ca.certificate.stores", OWN_CONTEXT, at=("", "root")),
    other(
        "https.ca.location", "login servers are checked against ssl_truststore_location and the system's authorities"
    ),
    other("https.ca.pem", "login servers are checked against ssl_truststore_certificates and the system's authorities"),
    # --- SASL -----------------------------------------------------------------------------------------------
    other("sasl.kerberos.keytab", _KERBEROS),
    other("sasl.kerberos.principal", _KERBEROS, at=("", "kafkaclient")),
    other("sasl.oauthbearer.config", _UNSECURED),
    other("enable.sasl.oauthbearer.unsecure.jwt", _UNSECURED, at=("", "false")),
    other("oauth_cb", _PROVIDER),
    other("oauthbearer_token_refresh_cb", _PROVIDER),
    other("sasl.oauthbearer.extensions", "give them as extension_NAME in sasl_jaas_config, or with an OAuthToken"),
    other("sasl.oauthbearer.assertion.private.key.pem", "give sasl_oauthbearer_assertion_private_key_file"),
    other("sasl.oauthbearer.metadata.authentication.type", _PROVIDER, at=("", "none")),
    *idle("sasl.oauthbearer.method", instead="what else is given says where tokens come from"),
    # --- without effect -------------------------------------------------------------------------------------
    *idle("debug", "log_level", "log.queue", "log.thread.name", "log.connection.close", instead=_LOGS),
    *idle("statistics.interval.ms", instead="metrics() may be asked at any time"),
    *idle("queued.min.messages", instead="fetch_buffer_bytes bounds what is fetched ahead"),
    *idle("receive.message.max.bytes", "message.max.bytes", instead="fetch_max_bytes bounds answers"),
    *idle(
        *("builtin.features", "message.copy.max.bytes", "max.in.flight.requests.per.connection", "max.in.flight"),
        *("topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.fast.cnt"),
        *("topic.metadata.refresh.sparse", "topic.metadata.propagation.max.ms"),
        *("socket.blocking.max.ms", "socket.keepalive.enable", "socket.nagle.disable", "socket.max.fails"),
        *("broker.address.ttl", "broker.address.family", "reconnect.backoff.jitter.ms", "enable.random.seed"),
        *("internal.termination.signal", "api.version.request", "api.version.request.timeout.ms"),
        *("api.version.fallback.ms", "broker.version.fallback", "coordinator.query.interval.ms"),
        *("fetch.queue.backoff.ms", "fetch.error.backoff.ms", "consume.callback.max.messages"),
        *("offset.store.path", "offset.store.sync.interval.ms"),
    ),
    # --- of producers, with whom dictionaries are shared ----------------------------------------------------
    *idle(
        *("transactional.id", "transaction.timeout.ms", "enable.idempotence", "enable.gapless.guarantee"),
        *("queue.buffering.max.messages", "queue.buffering.max.kbytes", "queue.buffering.max.ms", "linger.ms"),
        *("message.send.max.retries", "retries", "queue.buffering.backpressure.threshold", "compression.codec"),
        *("compression.type", "compression.level", "batch.num.messages", "batch.size", "delivery.report.only.error"),
        *("dr_cb", "dr_msg_cb", "on_delivery", "sticky.partitioning.linger.ms", "request.required.acks", "acks"),
        *("message.timeout.ms", "delivery.timeout.ms", "queuing.strategy", "produce.offset.report", "partitioner"),
        "partitioner_cb",
    ),
)
