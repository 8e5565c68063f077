"""The options `kafka.*`: settings of the Kafka client, handed on to kwire's or refused by name.

Spark's source hands them to the Java client, and refuses those that it sets itself; so here. A setting of the Java
client that kwire does not have is refused, never ignored. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kwire.config import ConsumerConfig
from kwire.config.consumer_config import parse_setting
from kwire.config.names import is_left_out
from kwire.errors import KafkaError
from kwire.spark.errors import GROUP_ID_WARNING, OptionError
from kwire.spark.kafka_settings import KafkaSettings
from kwire.spark.option_values import GivenOptions

log = logging.getLogger(__name__)

PREFIX = "kafka."
MIB = 1024 * 1024
# Ranges are read in large fetches, unless the user says otherwise.
_TASK_DEFAULTS: Mapping[str, object] = {
    "max_partition_fetch_bytes": 4 * MIB,
    "fetch_buffer_bytes": 32 * MIB,
}
# What a read of ranges decides itself.
_FIXED: Mapping[str, object] = {
    "auto_offset_reset": "none",
    "enable_auto_commit": False,
    "group_id": None,
    "allow_auto_create_topics": False,
}
# Spark warns of it; it must not make a group here.
_WITHOUT_EFFECT = frozenset({"group_id"})

_REFUSED = {
    "auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingOffsets' to "
        "'earliest' or 'latest' to specify where to start. Structured Streaming manages which offsets are consumed "
        "internally, rather than relying on the kafkaConsumer to do it. Note that 'startingOffsets' only applies when "
        "a new Streaming query is started, and that resuming will always pick up from where the query left off."
    ),
    "key.deserializer": (
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys."
    ),
    "value.deserializer": (
        "Kafka option 'value.deserializer' is not supported as values are deserialized as byte arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the values."
    ),
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}


def kafka_settings(given: GivenOptions) -> KafkaSettings:
    """The settings in the options, under kwire's names, each checked.

    Raises:
        OptionError: One is refused, unknown, or has a value that cannot be; or the brokers are missing.
    """
    named = {name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)}
    in_javas_words = {name.replace("_", ".") for name in named}  # kwire's own are taken as well
    if "group.id" in in_javas_words:
        log.warning(GROUP_ID_WARNING)
    for name, message in _REFUSED.items():
        if name in in_javas_words:
            raise OptionError(message)
    if "bootstrap.servers" not in named:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    return KafkaSettings({name: value for name, value in _parsed(named).items() if name not in _WITHOUT_EFFECT})


def _parsed(named: Mapping[str, str]) -> dict[str, str]:
    """The values, as they are, by snake_case name; without those that change nothing here."""
    found: dict[str, str] = {}
    for name, value in named.items():
        if is_left_out(name, value):
            log.warning("option '%s%s' is without effect in kwire, and left out", PREFIX, name)
            continue
        try:
            snake, _ = parse_setting(name, value)
        except KafkaError as error:
            raise OptionError(f"Option '{PREFIX}{name}': {error}") from error
        if snake in found:
            raise OptionError(f"Option '{PREFIX}{name}': {snake} is given twice; give it once")
        found[snake] = value
    return found


def task_config(settings: Mapping[str, object]) -> ConsumerConfig:
    """How tasks read.

    Raises:
        OptionError: Settings that contradict each other.
    """
    try:
        return ConsumerConfig.of({**_TASK_DEFAULTS, **settings, **_FIXED})
    except KafkaError as error:
        raise OptionError(f"Options 'kafka.*': {error}") from error


def driver_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """How the driver looks up offsets: with a `Consumer` that is never polled."""
    return {**settings, **_FIXED}
