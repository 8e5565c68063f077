"""A list of settings with several mistakes is answered with all of them."""

from __future__ import annotations

import pytest

from kwire.config import ConsumerConfig
from kwire.errors import ConfigError


def told(config: dict[str, object]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        ConsumerConfig.of({"bootstrap.servers": "localhost:9092", **config})
    return str(caught.value).splitlines()


def test_names_that_kwire_has_not_are_named_together() -> None:
    first, *others = told({"error_cb": print, "grp.id": "billing", "group.id": "a", "group_id": "b"})
    assert first == "3 settings cannot be taken:"
    assert [line.split()[0:4] for line in others] == [
        ["kwire", "has", "no", "setting"],
        ["unknown", "setting", "'grp.id';", "did"],
        ["group_id", "is", "given", "twice,"],
    ]


def test_values_that_are_bad_are_named_together() -> None:
    first, *others = told({"max.poll.records": "many", "session.timeout.ms": -1, "group.id": "billing"})
    assert first == "2 settings cannot be taken:"
    assert [line.strip().split("=")[0] for line in others] == ["max_poll_records", "session_timeout_ms"]


def test_one_mistake_is_one_line() -> None:
    (line,) = told({"max.poll.records": "many"})
    assert line.startswith("max_poll_records='many'")
