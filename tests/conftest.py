"""What every test shares: how Hypothesis searches, the count of the rows that were fired, and signals that arrive.

And how processes share a run (`shared_runs.py`).
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kwire import speedups
from kwire.protocol import inflation_in_c, record_batch_columns, record_payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.row_coverage import RowCoverage, all_rows
    from tests.shared_runs import SharedRuns
else:
    from row_coverage import RowCoverage, all_rows
    from shared_runs import SharedRuns

# The same examples each time, so that a failure means that the change did it. `HYPOTHESIS_PROFILE=deep scripts/test`
# searches anew and longer. No deadlines: a slow machine is not a bug.
settings.register_profile("default", derandomize=True, deadline=None, max_examples=50, database=None)
settings.register_profile("deep", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def no_thread_of_kafka_python_is_left() -> Iterator[None]:
    """Such a thread connects to a broker that has ended, again and again: other tests fail over its open sockets."""
    before = threads_of_kafka_python()
    yield
    for thread in threads_of_kafka_python() - before:
        thread.join(timeout=10)
        assert not thread.is_alive(), f"close the client of kafka-python that this test has made: {thread.name}"


def threads_of_kafka_python() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("kafka-io-")}


@pytest.fixture(scope="module", params=["in C", "in Python"])
def in_c_and_in_python(request: pytest.FixtureRequest) -> Iterator[None]:
    """For tests of records: once with the module in C, if it is there, and once without it."""
    if request.param == "in C" and speedups.module is None:
        pytest.skip("kwire._speedups was not built, or is not wanted")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in Python":
            patch.setattr(speedups, "module", None)
        yield


@pytest.fixture(scope="module", params=["few batches", "many batches"])
def few_and_many_batches(request: pytest.FixtureRequest) -> Iterator[None]:
    """For tests of fetches: once with headers read, and payloads inflated, one by one, and once all of them together,
    though they are few."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "many batches":
            patch.setattr(record_batch_columns, "MANY_BATCHES", 1)
            patch.setattr(record_payloads, "MANY_PAYLOADS", 1)
            patch.setattr(record_payloads, "MIN_AHEAD_BYTES", 1)
            patch.setattr(inflation_in_c, "PROCESSORS", 2)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rows", action="store_true", help="list the rows of the state tables that no test has fired")
    parser.addoption(
        "--kafka",
        choices=("real", "fake", "both", "kfake"),
        default="both",
        help="tests/integration: against a real Kafka, the one in this process (no Java needed), or each of them; "
        "kfake: what any real Kafka will do for, against franz-go's broker (no Java, but Go)",
    )
    parser.addoption(
        "--facade",
        choices=("sync", "asyncio", "trio"),
        default="sync",
        help="tests/integration/consumer and tests/processing: with code that blocks, or that awaits on an event loop",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is about threads where there are tasks."""
    if config.getoption("--facade") != "sync":
        others = [item for item in items if item.get_closest_marker("threads")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts tests in the background has them ignore both, and so would the programs they start and stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.pluginmanager.register(RowCoverage(all_rows(), is_wanted=config.getoption("--rows")), "row coverage")
    config.pluginmanager.register(SharedRuns(), "shared runs")
