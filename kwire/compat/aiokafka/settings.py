"""The settings of aiokafka's consumer, with its defaults where kwire's differ."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping

from kwire.compat.bootstrap_servers import with_ports
from kwire.compat.heartbeats import fitting_interval_ms
from kwire.compat.plain_values import plain
from kwire.config.consumer_config import DEFAULT_MAX_POLL_RECORDS
from kwire.model import Header

log = logging.getLogger("kwire.compat")

# The only assignor of members that still run aiokafka.
_DEFAULTS: Mapping[str, object] = {
    "partition_assignment_strategy": ("roundrobin",),
    "session_timeout_ms": 10_000,
    "request_timeout_ms": 40_000,
}
# What `getmany` returns at most.
_MAX_RECORDS = 10_000
# Settings of aiokafka's implementation, which kwire has no counterpart for.
_WITHOUT_EFFECT = ("loop", "api_version", "consumer_timeout_ms")
_WARNED_OF = ("rebalance_timeout_ms", "sasl_kerberos_domain_name")


def most_records(configs: Mapping[str, object]) -> int:
    """How many records one `getmany` returns at most."""
    most = configs.get("max_poll_records")
    if most is None:
        return _MAX_RECORDS
    if not isinstance(most, int) or most < 1:
        raise ValueError("`max_poll_records` should be positive Integer")
    return most


def settings_of(configs: Mapping[str, object]) -> dict[str, object]:
    """The settings of the `AsyncConsumer`."""
    given = {
        name: plain(name, value) for name, value in configs.items() if value is not None and name not in _WITHOUT_EFFECT
    }
    if given_loop := configs.get("loop"):
        warnings.warn(f"a loop is not passed any more: {given_loop!r}", DeprecationWarning, stacklevel=3)
    if unused := [name for name in _WARNED_OF if given.pop(name, None) is not None]:
        log.warning("without effect in kwire (see docs/migration.md): %s", ", ".join(unused))
    if "group_id" not in given:
        given.pop("enable_auto_commit", None)  # on by default in aiokafka, and without effect
    if given.get("security_protocol", "PLAINTEXT") in ("PLAINTEXT", "SSL"):  # frameworks give them all the same
        given.pop("sasl_mechanism", None)
        given.pop("sasl_kerberos_service_name", None)
    given["bootstrap_servers"] = with_ports(given.get("bootstrap_servers", "localhost"))
    for name in ("key_deserializer", "value_deserializer"):
        if callable(function := given.get(name)):
            given[name] = _Deserializer(function)
    session_ms = given.get("session_timeout_ms")
    if isinstance(session_ms, int):
        given.setdefault("heartbeat_interval_ms", fitting_interval_ms(session_ms))
    # Of the polls behind `getmany` and loops, which grow by themselves; `getmany` sees to its own limit.
    has_limit = configs.get("max_poll_records") is not None
    polled = max(most_records(configs) if has_limit else 0, DEFAULT_MAX_POLL_RECORDS)
    return {**_DEFAULTS, **given, "max_poll_records": polled}


class _Deserializer:
    """A deserializer function of an aiokafka program: unlike kwire's, it is called for nulls, too."""

    def __init__(self, function: Callable[[bytes | None], object]) -> None:
        self._function = function

    def deserialize(self, topic: str, headers: tuple[Header, ...], data: bytes | None) -> object:  # noqa: ARG002
        return self._function(data)
