"""The names of confluent-kafka's C module, from which some programs import."""

from __future__ import annotations

from kwire.compat.confluent_kafka import *  # noqa: F403 - the names are listed there
from kwire.compat.confluent_kafka import __all__ as __all__  # noqa: PLC0414 - exported
