"""The settings that DescribeConfigs shows and CreateTopics takes: names, types, defaults and bounds of Kafka 4.4.

Most of them change nothing here (`settings` has those that do), but tools read them, and users set them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ConfigType(IntEnum):
    """DescribeConfigs' types (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from (KIP-226)."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A setting. `synonym` is the broker's setting that applies where the topic or group does not set it."""

    name: str
    type: ConfigType
    default: str
    synonym: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


def _known(
    name: str,
    type_: ConfigType,
    default: str,
    synonym: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
) -> Known:
    return Known(name=name, type=type_, default=default, synonym=synonym, minimum=minimum, maximum=maximum)


def _chosen(name: str, type_: ConfigType, default: str, synonym: str, *choices: str) -> Known:
    return Known(name=name, type=type_, default=default, synonym=synonym, choices=choices)


_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_MAX = str((1 << 63) - 1)

TOPIC_CONFIGS = (
    _chosen("cleanup.policy", ConfigType.LIST, "delete", "log.cleanup.policy", "compact", "delete"),
    _known("compression.gzip.level", _INT, "-1", "compression.gzip.level"),
    _known("compression.lz4.level", _INT, "9", "compression.lz4.level", 1, 17),
    _chosen(
        "compression.type",
        _STRING,
        "producer",
        "compression.type",
        *("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _known("compression.zstd.level", _INT, "3", "compression.zstd.level", -131072, 22),
    _known("delete.retention.ms", _LONG, "86400000", "log.cleaner.delete.retention.ms", 0),
    _known("errors.deadletterqueue.group.enable", _BOOLEAN, "false"),
    _known("file.delete.delay.ms", _LONG, "60000", "log.segment.delete.delay.ms", 0),
    _known("flush.messages", _LONG, _MAX, "log.flush.interval.messages", 1),
    _known("flush.ms", _LONG, _MAX, "", 0),
    _known("follower.replication.throttled.replicas", ConfigType.LIST, ""),
    _known("index.interval.bytes", _INT, "4096", "log.index.interval.bytes", 0),
    _known("leader.replication.throttled.replicas", ConfigType.LIST, ""),
    _known("local.retention.bytes", _LONG, "-2", "log.local.retention.bytes", -2),
    _known("local.retention.ms", _LONG, "-2", "log.local.retention.ms", -2),
    _known("max.compaction.lag.ms", _LONG, _MAX, "log.cleaner.max.compaction.lag.ms", 1),
    _known("max.decompressed.message.bytes", _INT, "2147483639", "max.decompressed.message.bytes", 1, 2147483639),
    _known("max.message.bytes", _INT, "1048588", "message.max.bytes", 0),
    _known("message.timestamp.after.max.ms", _LONG, "3600000", "log.message.timestamp.after.max.ms", 0),
    _known("message.timestamp.before.max.ms", _LONG, _MAX, "log.message.timestamp.before.max.ms", 0),
    _chosen(
        "message.timestamp.type", _STRING, "CreateTime", "log.message.timestamp.type", "CreateTime", "LogAppendTime"
    ),
    _known("min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", 0, 1),
    _known("min.compaction.lag.ms", _LONG, "0", "log.cleaner.min.compaction.lag.ms", 0),
    _known("min.insync.replicas", _INT, "1", "min.insync.replicas", 1),
    _known("preallocate", _BOOLEAN, "false", "log.preallocate"),
    _known("remote.copy.lag.bytes", _LONG, "-1", "log.remote.copy.lag.bytes", -1),
    _known("remote.copy.lag.ms", _LONG, "0", "log.remote.copy.lag.ms", -1),
    _known("remote.log.copy.disable", _BOOLEAN, "false"),
    _known("remote.log.delete.on.disable", _BOOLEAN, "false"),
    _known("remote.storage.enable", _BOOLEAN, "false"),
    _known("retention.bytes", _LONG, "-1", "log.retention.bytes"),
    _known("retention.ms", _LONG, "604800000", "log.retention.ms", -1),
    _known("segment.bytes", _INT, "1073741824", "log.segment.bytes", 1024 * 1024),
    _known("segment.index.bytes", _INT, "10485760", "log.index.size.max.bytes", 4),
    _known("segment.jitter.ms", _LONG, "0", "", 0),
    _known("segment.ms", _LONG, "604800000", "", 1),
    _known("unclean.leader.election.enable", _BOOLEAN, "false", "unclean.leader.election.enable"),
)

GROUP_CONFIGS = (
    _known("consumer.assignment.interval.ms", _INT, "1000", "group.consumer.assignment.interval.ms", 0),
    _known("consumer.assignor.offload.enable", _BOOLEAN, "true", "group.consumer.assignor.offload.enable"),
    _known("consumer.heartbeat.interval.ms", _INT, "5000", "group.consumer.heartbeat.interval.ms", 1),
    _known("consumer.session.timeout.ms", _INT, "45000", "group.consumer.session.timeout.ms", 1),
)

OF_TOPICS: Mapping[str, Known] = {known.name: known for known in TOPIC_CONFIGS}
OF_GROUPS: Mapping[str, Known] = {known.name: known for known in GROUP_CONFIGS}
