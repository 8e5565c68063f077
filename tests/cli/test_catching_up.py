"""What `kwire consume` says of a lag, and that it does not take the newest record for the end."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kwire.cli import catching_up
from kwire.cli.catching_up import EVERY_MS, CatchingUp, line
from kwire.model import CatchUpProgress, TopicPartition

TP = TopicPartition("orders", 0)


def progress(*, done: int, left: int, rate_per_s: float = 0.0) -> CatchUpProgress:
    return CatchUpProgress(
        topic_partition=TP,
        ranges=(range(done, done + left),),
        done=done,
        left=left,
        rate_per_s=rate_per_s,
        left_s=left / rate_per_s if rate_per_s else None,
    )


class Lagging:
    """A consumer with this progress."""

    def __init__(self, *found: CatchUpProgress) -> None:
        self._found = {each.topic_partition: each for each in found}

    def catch_up_progress(self) -> Mapping[TopicPartition, CatchUpProgress]:
        return self._found


def test_a_partition_is_not_at_its_end_while_records_in_front_of_it_are_to_come() -> None:
    assert CatchingUp(Lagging(progress(done=10, left=40))).has_lag(TP)
    assert not CatchingUp(Lagging(progress(done=50, left=0))).has_lag(TP)
    assert not CatchingUp(Lagging()).has_lag(TP)


def test_a_line_says_how_much_is_done_how_fast_and_how_long_it_takes() -> None:
    said = line(progress(done=4_000, left=46_000, rate_per_s=11_500.0))
    assert said == "orders-0: catching up, 4,000 of 50,000 done (8%), 11,500/s, 4 s left"
    assert line(progress(done=0, left=50)) == "orders-0: catching up, 0 of 50 done (0%)"


def test_it_is_told_every_two_seconds_and_only_while_there_is_a_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = [0.0]
    monkeypatch.setattr(catching_up, "monotonic_ms", lambda: now_ms[0])
    said: list[str] = []
    watch = CatchingUp(Lagging(progress(done=1, left=2)), said.append)
    for now_ms[0] in (0.0, EVERY_MS - 1, EVERY_MS, EVERY_MS + 1, 2 * EVERY_MS):
        watch.tell()
    assert len(said) == 2
    quiet = CatchingUp(Lagging(progress(done=3, left=0)), said.append)
    now_ms[0] = 10 * EVERY_MS
    quiet.tell()
    assert len(said) == 2
