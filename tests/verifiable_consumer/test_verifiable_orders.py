"""A member of a test takes its time as it is told, and can always be closed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kwire.verifiable_consumer.orders import ProcessingOrders


@dataclass
class Sleep:
    """Time that passes by sleeping alone. `then` is done as soon as so much has been slept."""

    slept_s: float = 0.0
    after_s: float = float("inf")
    then: Callable[[], None] = lambda: None

    def __call__(self, seconds: float) -> None:
        assert self.slept_s < 1_000, "nobody ends this"
        self.slept_s += seconds
        if self.slept_s >= self.after_s:
            self.then()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.json"


def give(file: Path, *, each_ms: int = 0, is_stuck: bool = False) -> None:
    file.write_text(json.dumps({"each_ms": each_ms, "is_stuck": is_stuck}))


def test_without_orders_records_take_no_time(file: Path) -> None:
    sleep = Sleep()
    ProcessingOrders(file, sleep).work(100)
    assert sleep.slept_s == 0.0


def test_each_record_takes_its_time(file: Path) -> None:
    give(file, each_ms=100)
    sleep = Sleep()
    ProcessingOrders(file, sleep).work(25)
    assert sleep.slept_s == pytest.approx(2.5)


def test_a_poll_without_records_is_no_work(file: Path) -> None:
    give(file, each_ms=100, is_stuck=True)
    sleep = Sleep()
    ProcessingOrders(file, sleep).work(0)
    assert sleep.slept_s == 0.0


def test_who_is_stuck_stays_so_until_the_orders_change(file: Path) -> None:
    give(file, is_stuck=True)
    sleep = Sleep(after_s=30, then=lambda: give(file))
    ProcessingOrders(file, sleep).work(1)
    assert sleep.slept_s == pytest.approx(30, abs=0.1)


def test_who_is_to_close_stops_working(file: Path) -> None:
    give(file, is_stuck=True)
    sleep = Sleep(after_s=1)
    orders = ProcessingOrders(file, sleep)
    sleep.then = orders.release
    orders.work(1)
    orders.pause()
    assert sleep.slept_s == pytest.approx(1, abs=0.1)
