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
metrics.num.samples metrics.sample.window.ms metrics.recording.level
enable.metrics.push
security.providers
ssl.protocol ssl.enabled.protocols ssl.cipher.suites ssl.endpoint.identification.algorithm ssl.key.password
ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.keystore.key ssl.keystore.certificate.chain
ssl.truststore.location ssl.truststore.password ssl.truststore.type ssl.truststore.certificates ssl.provider
ssl.engine.factory.class ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation
sasl.mechanism sasl.jaas.config sasl.client.callback.handler.class sasl.login.class
sasl.login.callback.handler.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms
sasl.kerberos.service.name sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.oauthbearer.token.endpoint.url
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.allow.unverified.audience
sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.sub
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.exp.seconds
sasl.oauthbearer.assertion.claim.nbf.seconds
"""

JAVA_ONLY = frozenset(_NAMES.split())

# Values with which kwire does what the Java client does: its default, or nothing. In lower case; None for any value.
_WITHOUT_EFFECT: dict[str, frozenset[str] | None] = {
    "auto.include.jmx.reporter": None,
    "config.providers": frozenset({""}),
    "enable.metrics.push": None,
    "interceptor.classes": frozenset({""}),
    "metric.reporters": frozenset({"", "org.apache.kafka.common.metrics.jmxreporter"}),
    "metrics.num.samples": None,
    "metrics.recording.level": None,
    "metrics.sample.window.ms": None,
    "security.providers": frozenset({""}),
}


def is_without_effect(name: str, value: object) -> bool:
    """Whether a Java client with this setting, under its dotted name, does what kwire does without it."""
    if name not in _WITHOUT_EFFECT:
        return False
    values = _WITHOUT_EFFECT[name]
    return values is None or str("" if value is None else value).strip().lower() in values
