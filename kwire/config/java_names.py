"""What becomes of the Java client's settings that kwire has not.

From the consumer, share consumer and producer configs of Apache Kafka 4.4. A setting that kwire learns leaves this
list, which a test makes sure of.
"""

from __future__ import annotations

from kwire.config.foreign_names import OWN_CONTEXT, ForeignName, idle, other

_COMMON = "org.apache.kafka.common."
_OAUTH = f"{_COMMON}security.oauthbearer."

_PEM = "kwire reads PEM files, whose key is encrypted with ssl_key_password; convert the store by keytool and openssl"
_SHARE = "kwire reads as a consumer of a group; share groups are not supported"
_HANDLER = (
    "tokens of your own come by sasl_oauth_token_provider, user and password by sasl_credentials_provider; "
    "those that do not change are sasl_username and sasl_password"
)

JAVA: tuple[ForeignName, ...] = (
    other("share.acknowledgement.mode", _SHARE, at=("", "implicit")),
    other("share.acquire.mode", _SHARE, at=("", "batch_optimized")),
    other("interceptor.classes", "do what it does in the loop around poll(), and in the callback of commit_async()"),
    other("config.providers", "values come as they are: read secrets in your program and pass them"),
    other(
        "bootstrap.resolve.timeout.ms",
        "names are resolved in the background, and poll(timeout) raises BootstrapError if that led nowhere",
        at=("", "0"),
    ),
    *idle("auto.include.jmx.reporter", "internal.throw.on.fetch.stable.offset.unsupported"),
    other(
        "metric.reporters",
        "metrics() has the numbers, and kwire.exporters pass them on to Prometheus and OpenTelemetry",
        at=("", f"{_COMMON}metrics.jmxreporter"),
    ),
    *idle("metrics.recording.level"),
    # --- TLS ------------------------------------------------------------------------------------------------
    other("ssl.keystore.password", _PEM),
    other("ssl.truststore.password", "kwire reads PEM files, which have no password; convert the store by keytool"),
    other("ssl.protocol", "ssl_enabled_protocols says which versions are spoken", at=("", "tls", "tlsv1.2", "tlsv1.3")),
    other("ssl.cipher.suites", OWN_CONTEXT),
    other("ssl.engine.factory.class", OWN_CONTEXT),
    other("ssl.provider", OWN_CONTEXT),
    other("security.providers", OWN_CONTEXT),
    *idle("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation"),
    # --- SASL -----------------------------------------------------------------------------------------------
    other("sasl.client.callback.handler.class", _HANDLER),
    other("sasl.login.class", _HANDLER),
    other(
        "sasl.login.callback.handler.class",
        _HANDLER,
        at=("", f"{_OAUTH}oauthbearerlogincallbackhandler", f"{_OAUTH}secured.oauthbearerlogincallbackhandler"),
    ),
    other(
        "sasl.oauthbearer.jwt.validator.class",
        "the broker judges tokens; for a client of your own give sasl_oauth_token_provider",
        at=("", f"{_OAUTH}clientjwtvalidator", f"{_OAUTH}defaultjwtvalidator"),
    ),
    # Tickets are the system's business: GSSAPI takes them from its cache, or from a key table.
    *idle(
        *("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),
        *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
    ),
    # Only brokers make use of these.
    *idle(
        *("sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer"),
        *("sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience"),
        *("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        *("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        *("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.scope.claim.name"),
        "sasl.oauthbearer.sub.claim.name",
    ),
)

# Files are shared with producers; Java's consumer says of these that they are not used.
JAVA_PRODUCER: tuple[ForeignName, ...] = tuple(
    idle(
        *("acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level"),
        *("compression.type", "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence"),
        *("key.serializer", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection"),
        *("max.request.size", "metadata.max.idle.ms", "partitioner.adaptive.partitioning.enable"),
        *("partitioner.availability.timeout.ms", "partitioner.class", "partitioner.ignore.keys", "retries"),
        *("transaction.timeout.ms", "transaction.two.phase.commit.enable", "transactional.id", "value.serializer"),
    )
)

JAVA_ONLY = frozenset(entry.name for entry in JAVA)
