"""The settings of kafka-python's consumer, with its defaults where kwire has other ones, or none."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Real

from kwire.compat.bootstrap_servers import with_ports
from kwire.compat.plain_values import plain
from kwire.config import ConsumerConfig
from kwire.errors import ConfigError

BOOTSTRAP_MS = 30_000
_DEFAULTS: Mapping[str, object] = {
    "bootstrap_servers": "localhost",
    "auto_offset_reset": "latest",
    "enable_auto_commit": True,
    "consumer_timeout_ms": float("inf"),
    "max_partition_fetch_bytes": 1_048_576,
    "security_protocol": "PLAINTEXT",
    "sasl_mechanism": None,
    "ssl_check_hostname": True,
    "bootstrap_timeout_ms": BOOTSTRAP_MS,
    "isolation_level": "read_uncommitted",
    "partition_assignment_strategy": ("range", "cooperative-sticky"),
    "enable_incremental_fetch_sessions": True,
    "max_in_flight_requests_per_connection": 5,
    "receive_message_max_bytes": 100_000_000,
    "metrics_enabled": True,
    "metric_group_prefix": "consumer",
}
# Further settings that programs look up.
_UNSET = (
    *("api_version", "client_dns_lookup", "default_offset_commit_callback", "kafka_client", "metric_reporters"),
    *("proxy_url", "selector", "socket_options", "socks5_proxy"),
    *("sasl_kerberos_domain_name", "sasl_kerberos_name", "sasl_plain_password", "sasl_plain_username"),
    *("ssl_cafile", "ssl_certfile", "ssl_ciphers", "ssl_crlfile", "ssl_keyfile", "ssl_password"),
)
_NEVER_MS = 2**31 - 1


def take_ms(given: dict[str, object], name: str, default_ms: float) -> float:
    """Take a duration that kwire has no setting for out of the given settings.

    Raises:
        ConfigError: The value is no number.
    """
    found = given.pop(name, default_ms)
    if not isinstance(found, Real):
        raise ConfigError(f"{name}={found!r}: not a number; valid: a number of milliseconds")
    return float(found)


def settings_of(given: Mapping[str, object]) -> dict[str, object]:
    """The settings of the `Consumer`."""
    settings = {name: plain(name, value) for name, value in given.items()}
    settings["bootstrap_servers"] = with_ports(given.get("bootstrap_servers", "localhost"))
    if isinstance(commits := given.get("enable_auto_commit"), int):
        settings["enable_auto_commit"] = bool(commits)
    if "group_id" not in given:
        settings.pop("enable_auto_commit", None)  # on by default in kafka-python, and without effect
    for name in ("key_deserializer", "value_deserializer"):
        if name in given:
            settings[name] = _deserializer(given[name])
    return settings


def take_interval(settings: dict[str, object]) -> float:
    """The interval in seconds at which the adapter auto-commits in place of kwire, which still commits before
    partitions are revoked."""
    config = ConsumerConfig.of(settings)
    if not config.enable_auto_commit:
        return math.inf
    settings["auto_commit_interval_ms"] = _NEVER_MS
    return config.auto_commit_interval_ms / 1000.0


def defaults(config: ConsumerConfig, client_id: str) -> dict[str, object]:
    """Settings that a program may look up without having given them: kwire's with plain values, and kafka-python's."""
    found = {field.name: getattr(config, field.name) for field in fields(config)}
    plain = {name: value for name, value in found.items() if value is None or isinstance(value, str | int | float)}
    return {**plain, **dict.fromkeys(_UNSET), **_DEFAULTS, "client_id": client_id}


class _Deserializer:
    """A deserializer object of kafka-python's, with deserialize(topic, headers, data) or deserialize(topic, data)."""

    def __init__(self, function: Callable[..., object], *, with_headers: bool) -> None:
        self._function, self._with_headers = function, with_headers

    def deserialize(self, topic: str, headers: object, data: bytes | None) -> object:
        return self._function(topic, headers, data) if self._with_headers else self._function(topic, data)


def _deserializer(given: object) -> object:
    """A deserializer for kwire. kafka-python calls a function for nulls, too; kwire does not, and a null stays None."""
    method = getattr(given, "deserialize", None)
    if method is None or isinstance(given, type):
        return given
    return _Deserializer(method, with_headers=_takes_three(method))


def _takes_three(function: Callable[..., object]) -> bool:
    """Whether a function takes three arguments; assumed if its signature is not known."""
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:
        pass
    return True
