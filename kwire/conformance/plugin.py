"""A pytest plugin that runs the conformance suite, with one test for each check and version.

    pytest -p kwire.conformance.plugin --kafka-bootstrap HOST:PORT

Without the option the plugin does nothing. With the option and without a path on the command line, only the suite runs;
with paths, the suite runs after the tests found there. `-k`, `-x`, `--junit-xml` and the rest work as everywhere.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.conformance.cleanup import clean_up
from kwire.conformance.report import CaseStatus
from kwire.conformance.runner import DEFAULT_TIMEOUT_S, connect, run_case, select
from kwire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.conformance.broker import JudgedBroker
    from kwire.conformance.registry import Case
    from kwire.conformance.report import Result

OPTION = "--kafka-bootstrap"
_broker: pytest.StashKey[JudgedBroker] = pytest.StashKey()
_empty_directory: pytest.StashKey[Path] = pytest.StashKey()


class BrokenRuleError(Exception):
    """A check has failed; only the text is shown."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("kafka", "protocol conformance of a Kafka broker")
    group.addoption(OPTION, metavar="HOST:PORT", help="judge the broker at this address")
    group.addoption(
        "--kafka-timeout", metavar="SECONDS", type=float, default=DEFAULT_TIMEOUT_S, help="the wait for any one answer"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Connects to the broker, so that one that is unreachable is one error and not one for each test."""
    bootstrap = config.getoption(OPTION)
    if not isinstance(bootstrap, str):
        return
    timeout_s = float(config.getoption("--kafka-timeout"))
    try:
        config.stash[_broker] = connect(bootstrap, timeout_s)
    except KafkaError as error:
        raise pytest.UsageError(str(error)) from error
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        # pytest collects at least one path; an empty one adds no tests to the suite.
        config.stash[_empty_directory] = Path(tempfile.mkdtemp(prefix="kwire-conformance-"))
        config.args = [str(config.stash[_empty_directory])]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Deletes what the suite has created."""
    if (broker := config.stash.get(_broker, None)) is not None:
        clean_up(broker)
    if (directory := config.stash.get(_empty_directory, None)) is not None:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # before -k and its like choose
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the suite after the tests that were found."""
    if (broker := config.stash.get(_broker, None)) is not None:
        items.extend(Suite.from_parent(session, name="kafka-conformance", broker=broker).collect())


class Suite(pytest.Collector):
    """All cases for the broker."""

    def __init__(self, *, broker: JudgedBroker, **others: object) -> None:
        super().__init__(**others)  # type: ignore[arg-type]  # what pytest's from_parent passes on, whatever it is
        self.broker = broker

    def collect(self) -> Iterator[pytest.Item]:
        """Yields one test for each case."""
        for case in select(self.broker):
            yield CaseItem.from_parent(self, name=str(case), broker=self.broker, case=case)


class CaseItem(pytest.Item):
    """One check in one version."""

    def __init__(self, *, broker: JudgedBroker, case: Case, **others: object) -> None:
        super().__init__(**others)  # type: ignore[arg-type]  # as above
        self.broker = broker
        self.case = case

    def runtest(self) -> None:
        """Runs the check; skips it if the broker does not offer the API."""
        result: Result = run_case(self.broker, self.case)
        if result.status is CaseStatus.NOT_OFFERED:
            pytest.skip(result.reason)
        if result.status is CaseStatus.FAILED:
            raise BrokenRuleError(result.reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_style: object) -> str:
        """The reason without a traceback, which does not help to fix a broker."""
        if isinstance(excinfo.value, BrokenRuleError):
            return f"{self.case}\n{excinfo.value}"
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The location that pytest shows for the test."""
        return Path(self.case.check.area), None, f"{self.case.check.area}: {self.case}"
