"""Settings of librdkafka that the adapter implements; the rest is passed on to kwire.

Defaults are librdkafka's: `isolation.level` is read_committed, and `allow.auto.create.topics` false.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias, cast

from kwire.compat.bootstrap_servers import with_ports
from kwire.compat.confluent_kafka.credentials import ChangingCredentials
from kwire.compat.confluent_kafka.forwarded_logs import Target
from kwire.compat.confluent_kafka.kafka_error import KafkaError, exception
from kwire.compat.confluent_kafka.tokens import CallbackTokens, OnOAuth
from kwire.compat.confluent_kafka.values import TopicPartition
from kwire.compat.heartbeats import fitting_interval_ms
from kwire.compat.plain_values import plain

OnCommit: TypeAlias = Callable[[KafkaError | None, list[TopicPartition]], object]
OnError: TypeAlias = Callable[[KafkaError], object]
OnStatistics: TypeAlias = Callable[[str], object]

log = logging.getLogger("kwire.compat")

_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb", "oauth_cb", "on_commit")
# Throttle times are in kwire's metrics().
_NEVER_CALLED = ("throttle_cb",)
_MAX_INTERVAL_MS = 86_400_000
# Defaults of librdkafka's consumer where kwire's differ.
_DEFAULTS = {"isolation.level": "read_committed", "allow.auto.create.topics": False}
_AUTO_COMMIT = ("enable.auto.commit", "auto.commit.enable", "enable_auto_commit")
_MECHANISM = ("sasl.mechanisms", "sasl.mechanism", "sasl_mechanism")
_TAKE_PASSWORDS = ("plain", "scram-sha-256", "scram-sha-512")
_SERVERS = ("bootstrap.servers", "metadata.broker.list", "bootstrap_servers")
# An empty text counts as not set: os.getenv(name, "") returns it.
_MAY_BE_EMPTY = (
    *("sasl.username", "sasl.password", "group.instance.id", "ssl.ca.location", "ssl.ca.pem", "ssl.key.location"),
    *("ssl.key.password", "ssl.certificate.location", "ssl.keystore.location", "ssl.keystore.password"),
    *("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "group.remote.assignor"),
)
# When metadata is asked for again, and when librdkafka takes it for outdated: kwire has one setting.
_REFRESH_INTERVAL, _MAX_AGE = "topic.metadata.refresh.interval.ms", "metadata.max.age.ms"
_BOOLEANS = (
    *(*_AUTO_COMMIT, "check.crcs", "allow.auto.create.topics"),
    *("enable.metrics.push", "enable.ssl.certificate.verification"),
)
_OTHER_BOOLEANS = {"t": True, "1": True, "f": False, "0": False}
_PARALLEL_REBALANCE = ("enable.parallel.rebalance", "enable_parallel_rebalance")


@dataclass(frozen=True)
class OwnSettings:
    """The settings that the adapter implements, of one consumer.

    Attributes:
        on_error: `error_cb`.
        on_statistics: `stats_cb`.
        statistics_interval_s: `statistics.interval.ms`; infinite for never.
        tokens: The tokens of `oauth_cb`, if logins are by OAUTHBEARER.
        credentials: The user name and password of logins by PLAIN and SCRAM.
        logger: The logger to which log lines about this consumer are forwarded.
        with_debug: `debug`, where there is a logger.
        tells_ends: `enable.partition.eof`.
        stores_each: `enable.auto.offset.store`: the offset of each message that is returned.
        commits_by_kwire: Whether kwire makes the commits: with parallel rebalance, offsets alone do not say what was
        returned. auto_commits: `enable.auto.commit`, unless that is kwire's.
        left: The settings that kwire is given.
    """

    on_error: OnError | None
    on_commit: OnCommit | None
    on_statistics: OnStatistics | None
    statistics_interval_s: float
    tokens: CallbackTokens | None
    credentials: ChangingCredentials
    logger: Target | None
    with_debug: bool
    tells_ends: bool
    stores_each: bool
    commits_by_kwire: bool
    auto_commits: bool
    left: Mapping[str, object]

    @classmethod
    def of(cls, given: dict[str, object]) -> Self:
        """Take these settings out of those that a program gives."""
        if not given:
            raise TypeError("expected configuration dict")
        if given.get("group.id") is None:
            raise ValueError("Failed to create consumer: group.id must be set")
        _check_names(given)
        given = {name: plain(name, value) for name, value in given.items() if value is not None}
        _check_callbacks(given)
        if unused := [name for name in _NEVER_CALLED if given.pop(name, None) is not None]:
            log.warning("never called by kwire (see docs/migration.md): %s", ", ".join(unused))
        given.update(cast("Mapping[str, object]", given.pop("default.topic.config", None) or {}))
        _spell_as_kwire(given)
        stores_each = _is_true(given.pop("enable.auto.offset.store", True))
        by_kwire = stores_each and any(_is_true(given.get(name)) for name in _PARALLEL_REBALANCE)
        logger = cast("Target | None", given.pop("logger", None))
        return cls(
            on_error=cast("OnError | None", given.pop("error_cb", None)),
            on_commit=cast("OnCommit | None", given.pop("on_commit", None)),
            on_statistics=cast("OnStatistics | None", given.pop("stats_cb", None)),
            statistics_interval_s=_interval_s(given.pop("statistics.interval.ms", 0)),
            tokens=_take_tokens(given),
            credentials=_take_credentials(given),
            logger=logger,
            with_debug=logger is not None and bool(given.pop("debug", "")),
            tells_ends=_is_true(given.pop("enable.partition.eof", False)),
            stores_each=stores_each,
            commits_by_kwire=by_kwire,
            auto_commits=not by_kwire and _take_auto_commit(given),
            left={**_DEFAULTS, **_with_heartbeats(given)},
        )


def _check_names(given: Iterable[object]) -> None:
    for name in given:
        if not isinstance(name, str):
            raise exception(KafkaError._INVALID_ARG, f"there is no setting {name!r}: a setting's name must be a str")


def _check_callbacks(given: Mapping[str, object]) -> None:
    for name in _CALLBACKS:
        if (found := given.get(name)) is not None and not callable(found):
            kind = ValueError if name == "throttle_cb" else TypeError  # as in confluent-kafka
            raise kind(f"expected {name} property as a callable function")


def _interval_s(given: object) -> float:
    text = _text(given)
    if not text.isdecimal() or int(text) > _MAX_INTERVAL_MS:
        raise exception(KafkaError._INVALID_ARG, f"statistics.interval.ms={given!r}: give 0 to {_MAX_INTERVAL_MS}")
    return int(text) / 1000.0 or math.inf


def _take_tokens(given: dict[str, object]) -> CallbackTokens | None:
    """Give kwire `oauth_cb` if logins are by OAUTHBEARER. As in librdkafka it may be set with another mechanism."""
    function = cast("OnOAuth | None", given.pop("oauth_cb", None))
    if function is None or not _has_mechanism(given, ("oauthbearer",)):
        return None
    text = given.pop("sasl.oauthbearer.config", None)
    tokens = CallbackTokens(function, None if text is None else str(text))
    given["sasl_oauth_token_provider"] = tokens
    return tokens


def _take_credentials(given: dict[str, object]) -> ChangingCredentials:
    """Replace user name and password by `sasl_credentials_provider`. If one of them is missing, kwire raises an
    error."""
    dotted = {name.replace("_", "."): name for name in given}
    username, password = (given.get(dotted.get(name, "")) for name in ("sasl.username", "sasl.password"))
    if not isinstance(username, str) or not isinstance(password, str) or not _has_mechanism(given, _TAKE_PASSWORDS):
        return ChangingCredentials()
    del given[dotted["sasl.username"]], given[dotted["sasl.password"]]
    given["sasl_credentials_provider"] = found = ChangingCredentials(username, password)
    return found


def _has_mechanism(given: Mapping[str, object], mechanisms: Collection[str]) -> bool:
    return any(_text(given.get(name)) in mechanisms for name in _MECHANISM)


def _spell_as_kwire(given: dict[str, object]) -> None:
    """Respell values that librdkafka accepts and kwire would refuse."""
    for name in given.keys() & _SERVERS:
        given[name] = with_ports(given[name])
    for name in given.keys() & _BOOLEANS:
        given[name] = _OTHER_BOOLEANS.get(_text(given[name]), given[name])
    for name in given.keys() & _MAY_BE_EMPTY:
        if given[name] == "":
            del given[name]
    if _REFRESH_INTERVAL in given and _MAX_AGE in given:
        del given[_REFRESH_INTERVAL if _text(given[_REFRESH_INTERVAL]) == "-1" else _MAX_AGE]
    # librdkafka ignores the assignor of other protocols.
    if _text(given.get("group.protocol", given.get("group_protocol"))) != "consumer":
        given.pop("group.remote.assignor", None)
    if _text(given.get("ssl.ca.location")) == "probe":  # the system's authorities, which are kwire's default
        del given["ssl.ca.location"]


def _with_heartbeats(given: Mapping[str, object]) -> Mapping[str, object]:
    """The settings with a heartbeat interval that fits the session timeout: kwire refuses one that does not."""
    session = given.get("session.timeout.ms")
    if session is None or "heartbeat.interval.ms" in given or not str(session).isdecimal():
        return given
    return {**given, "heartbeat.interval.ms": fitting_interval_ms(int(str(session)))}


def _take_auto_commit(given: dict[str, object]) -> bool:
    """Whether auto-commit is on. If so, kwire's own is turned off; an invalid value is left for kwire to refuse."""
    names = [name for name in _AUTO_COMMIT if name in given] or [_AUTO_COMMIT[0]]
    is_on = all(_is_true(given.get(name, True)) for name in names)
    if is_on:
        given.update(dict.fromkeys(names, False))
    return is_on


def _is_true(value: object) -> bool:
    return _text(value) in ("true", "t", "1")


def _text(value: object) -> str:
    return str(value).strip().lower()
