"""What tests of commands share: `kwire consume` with a fake for Kafka, and any command with Kafka in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.fake_consumer import P0, P1, Command, CommandLine, FakeConsumer, values
else:
    from fake_consumer import P0, P1, Command, CommandLine, FakeConsumer, values


@pytest.fixture
def kafka() -> FakeConsumer:
    return FakeConsumer({P0: values("a", 6), P1: values("b", 5)})


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    for variable in list(os.environ):
        if variable.startswith("KWIRE_"):
            monkeypatch.delenv(variable)
    return Command(capfdbinary, monkeypatch)


@pytest.fixture
def consume(kafka: FakeConsumer, command: Command, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    def open_consumer(settings: Mapping[str, object]) -> FakeConsumer:
        kafka.settings, kafka.polls, kafka.closed = settings, 0, False
        kafka.positions, kafka.paused = {}, set()
        return kafka

    monkeypatch.setattr("kwire.cli.consume.open_consumer", open_consumer)
    return CommandLine(kafka, command.capture, command)
