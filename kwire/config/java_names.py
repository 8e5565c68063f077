"""Settings that the Java consumer has and kwire does not: `names` accepts those that change nothing, no others.

From the consumer and share consumer configs of Apache Kafka 4.4. A setting that kwire learns leaves this list, which a
test makes sure of.
"""

from __future__ import annotations

_NAMES = """
share.acknowledgement.mode share.acquire.mode
interceptor.classes
config.providers
bootstrap.resolve.timeout.ms
metric.reporters auto.include.jmx.reporter
metrics.recording.level
security.providers
ssl.protocol ssl.cipher.suites ssl.keystore.password ssl.truststore.password ssl.provider
ssl.engine.factory.class ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation
sasl.client.callback.handler.class sasl.login.class sasl.login.callback.handler.class
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.allow.unverified.audience
sasl.oauthbearer.jwt.validator.class
"""

JAVA_ONLY = frozenset(_NAMES.split())

# Values with which kwire does what the Java client does: its default, or nothing. In lower case; None for any value.
_WITHOUT_EFFECT: dict[str, frozenset[str] | None] = {
    "auto.include.jmx.reporter": None,
    "config.providers": frozenset({""}),
    "interceptor.classes": frozenset({""}),
    "metric.reporters": frozenset({"", "org.apache.kafka.common.metrics.jmxreporter"}),
    "metrics.recording.level": None,
    # Tickets are the system's business: GSSAPI takes them from its cache, or from a key table.
    "sasl.kerberos.kinit.cmd": None,
    "sasl.kerberos.min.time.before.relogin": None,
    "sasl.kerberos.ticket.renew.jitter": None,
    "sasl.kerberos.ticket.renew.window.factor": None,
    "sasl.login.callback.handler.class": frozenset(
        {
            "org.apache.kafka.common.security.oauthbearer.oauthbearerlogincallbackhandler",
            "org.apache.kafka.common.security.oauthbearer.secured.oauthbearerlogincallbackhandler",
        }
    ),
    # Of these the broker's side alone makes use.
    "sasl.oauthbearer.allow.unverified.audience": None,
    "sasl.oauthbearer.allow.unverified.issuer": None,
    "sasl.oauthbearer.clock.skew.seconds": None,
    "sasl.oauthbearer.expected.audience": None,
    "sasl.oauthbearer.expected.issuer": None,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": None,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": None,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": None,
    "sasl.oauthbearer.jwks.endpoint.url": None,
    "sasl.oauthbearer.jwt.validator.class": frozenset(
        {
            "org.apache.kafka.common.security.oauthbearer.clientjwtvalidator",
            "org.apache.kafka.common.security.oauthbearer.defaultjwtvalidator",
        }
    ),
    "sasl.oauthbearer.scope.claim.name": None,
    "sasl.oauthbearer.sub.claim.name": None,
    "security.providers": frozenset({""}),
    "ssl.cipher.suites": frozenset({""}),
    "ssl.keymanager.algorithm": None,
    "ssl.protocol": frozenset({"tls", "tlsv1.2", "tlsv1.3"}),
    "ssl.provider": frozenset({""}),
    "ssl.secure.random.implementation": None,
    "ssl.trustmanager.algorithm": None,
}


def is_without_effect(name: str, value: object) -> bool:
    """Whether a Java client with this setting, under its dotted name, does what kwire does without it."""
    if name not in _WITHOUT_EFFECT:
        return False
    values = _WITHOUT_EFFECT[name]
    return values is None or str("" if value is None else value).strip().lower() in values
