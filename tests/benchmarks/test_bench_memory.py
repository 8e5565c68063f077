"""`scripts/bench memory` against a real Kafka, for a moment: the consumer is slow, and its growth is bounded."""

from __future__ import annotations

import pytest

from benchmarks import memory
from benchmarks.consumer_worker import MIB, peak_bytes
from benchmarks.memory import BUFFER_MIB, CASES, SLACK_MIB
from benchmarks.turns import OWN


def test_the_peak_is_seen() -> None:
    before_bytes = peak_bytes()
    held = bytearray(b"x") * (64 * MIB)
    assert peak_bytes() >= max(before_bytes, len(held))


@pytest.mark.integration
@pytest.mark.slow
def test_a_slow_consumer_of_a_real_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "HEAD_START", 100_000)
    (grown, records) = memory.run(rounds=1, seconds=2.0, per_second=50_000, cases=CASES[:1], participants=(OWN,))
    assert 0 < records.median < 50_000, "it was not slow"
    assert 16 < grown.median <= BUFFER_MIB + SLACK_MIB
