"""The settings of a consumer: names, defaults, docs, and what values are valid.

`ConsumerConfig.of` is the one way in; everything above reads the frozen result.
"""

from __future__ import annotations

from kwire.config.choices import (
    ClientDnsLookup,
    GroupProtocol,
    IsolationLevel,
    MetadataRecoveryStrategy,
    SecurityProtocol,
)
from kwire.config.consumer_config import SETTINGS, ConsumerConfig, parse_setting
from kwire.config.deserializers import AnyDeserializer, Deserialize, Deserializer
from kwire.config.docs import SettingDoc, docs
from kwire.config.endpoints import Endpoint
from kwire.config.offset_reset import OffsetReset, ResetKind
from kwire.config.settings import Settings

__all__ = [
    "ClientDnsLookup",
    "ConsumerConfig",
    "Settings",
    "Endpoint",
    "GroupProtocol",
    "IsolationLevel",
    "MetadataRecoveryStrategy",
    "OffsetReset",
    "ResetKind",
    "SecurityProtocol",
    "AnyDeserializer",
    "Deserialize",
    "Deserializer",
    "SETTINGS",
    "parse_setting",
    "SettingDoc",
    "docs",
]
