"""Settings in effect: each value, its source, and the values that would apply without it (KIP-226)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from kwire.testing.cluster.config_catalog import GROUP_CONFIGS, TOPIC_CONFIGS, ConfigSource, ConfigType
from kwire.testing.cluster.settings import BrokerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.testing.cluster.config_catalog import Known
    from kwire.testing.cluster.settings import TopicSettings

OUR_OWN = frozenset(
    {
        "load_ms",
        "replica_selector_is_rack_aware",
        "transaction_marker_delay_ms",
        "min_incremental_fetch_session_eviction_ms",
        "allow_everyone_if_no_acl_found",
    }
)
"""Fields of BrokerSettings that are no settings of Kafka's brokers: a constant there, or its authorizer's."""

DYNAMIC = frozenset(
    {
        "message.max.bytes",
        "min.insync.replicas",
        "group.consumer.assignment.interval.ms",
        "transaction.partition.verification.enable",
    }
)
"""The settings of a broker that can be changed while it runs (KIP-226)."""

_LONG = frozenset({"connections.max.reauth.ms"})
_TYPES = {bool: ConfigType.BOOLEAN, int: ConfigType.INT, str: ConfigType.STRING, tuple: ConfigType.LIST}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """A setting's value. `synonyms` are (name, value, source), the one that holds first."""

    name: str
    type: ConfigType
    value: str
    source: ConfigSource
    synonyms: tuple[tuple[str, str, ConfigSource], ...]
    is_read_only: bool = False


def topic_values(config: Mapping[str, str], settings: TopicSettings) -> list[ConfigValue]:
    """The settings of a topic with this configuration."""
    return [_topic_value(known, config, settings) for known in TOPIC_CONFIGS]


def _topic_value(known: Known, config: Mapping[str, str], settings: TopicSettings) -> ConfigValue:
    in_force = getattr(settings, known.name.replace(".", "_"), None)
    otherwise = known.default
    if known.name not in config and in_force is not None:
        otherwise = _text(in_force)
    source = ConfigSource.DEFAULT if otherwise == known.default else ConfigSource.STATIC_BROKER
    return _value(known, config.get(known.name), ConfigSource.TOPIC, (otherwise, source))


def group_values(config: Mapping[str, str], broker: BrokerSettings) -> list[ConfigValue]:
    """The settings of a group with this configuration."""
    return [_group_value(known, config, broker) for known in GROUP_CONFIGS]


def _group_value(known: Known, config: Mapping[str, str], broker: BrokerSettings) -> ConfigValue:
    otherwise = _text(getattr(broker, known.synonym.replace(".", "_"), known.default))
    source = ConfigSource.DEFAULT if otherwise == known.default else ConfigSource.STATIC_BROKER
    return _value(known, config.get(known.name), ConfigSource.GROUP, (otherwise, source))


def _value(
    known: Known, given: str | None, given_source: ConfigSource, otherwise: tuple[str, ConfigSource]
) -> ConfigValue:
    synonyms = [(known.name, given, given_source)] if given is not None else []
    if known.synonym:
        synonyms.append((known.synonym, *otherwise))
    value, source = (given, given_source) if given is not None else otherwise
    return ConfigValue(name=known.name, type=known.type, value=value, source=source, synonyms=tuple(synonyms))


def broker_values(broker: BrokerSettings) -> list[ConfigValue]:
    """The settings of the brokers."""
    default = BrokerSettings()
    found = []
    for field in fields(broker):
        if field.name not in OUR_OWN:
            value, usual = getattr(broker, field.name), getattr(default, field.name)
            found.append(_broker_value(field.name.replace("_", "."), value, usual))
    return found


def _broker_value(name: str, value: object, usual: object) -> ConfigValue:
    source = ConfigSource.DEFAULT if value == usual else ConfigSource.STATIC_BROKER
    text = _text(value)
    return ConfigValue(
        name=name,
        type=ConfigType.LONG if name in _LONG else _TYPES[type(value)],
        value=text,
        source=source,
        synonyms=((name, text, source),),
        is_read_only=name not in DYNAMIC,
    )


def _text(value: object) -> str:
    """A value as Kafka writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
