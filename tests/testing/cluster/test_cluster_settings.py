"""The settings of the cluster in the process: each one does something."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from kwire.errors import InvalidArgumentError
from kwire.testing import cluster
from kwire.testing.cluster.settings import BrokerSettings, TopicSettings

SOURCES = [path for path in Path(cluster.__path__[0]).rglob("*.py") if path.name != "settings.py"]


def test_each_setting_is_looked_at() -> None:
    """Four were taken and did nothing: a test that set one would have proved nothing."""
    source = "\n".join(path.read_text() for path in SOURCES)
    names = {field.name for kind in (BrokerSettings, TopicSettings) for field in fields(kind)}
    names -= {"cleanup_policy", "message_max_bytes"}  # looked at by `settings.py`
    assert {name for name in names if f".{name}" not in source} == set()


def test_a_setting_that_the_cluster_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="has no setting 'producer_id_expiration_ms'"):
        BrokerSettings.of({"producer.id.expiration.ms": "1"})
