"""The outcome of one broker, and the part of it that is kept in docs/brokers.json."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from kwire.conformance.report import CaseStatus, Result, spans
from tools.evidence import commit, today


class Facts(TypedDict):
    """What the page tells of a broker.

    `row` are the cells of the first table. A difference is API, versions, check, and what the broker did; an absence is
    API, versions, and what the broker offers. Tests are by name; of those that were skipped, with why.
    """

    date: str
    kwire: str
    row: list[str]
    differences: list[list[str]]
    absent: list[list[str]]
    tests: list[str]
    skipped: dict[str, str]


@dataclass(frozen=True, slots=True)
class Counted:
    """The result of one run of tests: how many passed, which failed, and which were skipped, with the reasons."""

    passed: int
    failed: Sequence[str]
    skipped: Mapping[str, str]

    @classmethod
    def of_report(cls, report: ET.Element) -> Counted:
        """From pytest's report in JUnit's form. A test whose teardown fails as well is one."""
        names: set[str] = set()
        failed: set[str] = set()
        skipped: dict[str, str] = {}
        for case in report.iter("testcase"):
            name = case.get("name", "").replace("[kafka]", "").replace("kafka-", "")
            names.add(name)
            if case.find("failure") is not None or case.find("error") is not None:
                failed.add(name)
            elif (skip := case.find("skipped")) is not None:
                skipped[name] = skip.get("message", "")
        return cls(len(names) - len(failed) - len(skipped), sorted(failed), skipped)

    def tried_again(self, again: Counted) -> Counted:
        """What failed at first and passes now has passed."""
        failed = [name for name in self.failed if name in again.failed]
        return Counted(self.passed + len(self.failed) - len(failed), failed, self.skipped)

    def __str__(self) -> str:
        return f"{self.passed} of {self.passed + len(self.failed)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one broker; None for tests that it was not asked to pass."""

    results: Sequence[Result]
    core: Counted
    consumer_protocol: Counted | None
    others: Counted | None = None

    @property
    def failed_tests(self) -> Sequence[str]:
        """By name."""
        return [name for tests in self._tests() for name in tests.failed]

    @property
    def skipped_tests(self) -> Mapping[str, str]:
        """By name, with why."""
        return {name: why for tests in self._tests() for name, why in tests.skipped.items()}

    def count(self, status: CaseStatus) -> int:
        return sum(result.status is status for result in self.results)

    def _tests(self) -> Sequence[Counted]:
        return [tests for tests in (self.core, self.consumer_protocol, self.others) if tests is not None]


def facts(outcome: Outcome) -> Facts:
    """The facts about a broker that the page shows."""
    passed, failed, absent = (str(outcome.count(status)) for status in CaseStatus)
    core, kip_848, others = str(outcome.core), outcome.consumer_protocol or "not offered", outcome.others or "not run"
    return {
        "date": today(),
        "kwire": commit(),
        "row": [passed, failed, absent, core, str(kip_848), str(others)],
        "differences": [
            [api, spans(versions), check, reason]
            for (api, check, reason), versions in _alike(outcome.results, CaseStatus.FAILED).items()
        ],
        "absent": _absences(outcome.results),
        "tests": sorted(outcome.failed_tests),
        "skipped": dict(sorted(outcome.skipped_tests.items())),
    }


def _alike(results: Sequence[Result], status: CaseStatus) -> Mapping[tuple[str, str, str], list[int]]:
    """The versions in which one check ended like that for the same reason."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for result in results:
        if result.status is status:
            alike.setdefault((result.api, result.check, _without_names(result.reason)), []).append(result.version)
    return {key: sorted(versions) for key, versions in alike.items()}


def _absences(results: Sequence[Result]) -> list[list[str]]:
    """Each version of an API once, whatever the checks would have asked in it."""
    found: dict[tuple[str, str], set[int]] = {}
    for (api, _, reason), versions in _alike(results, CaseStatus.NOT_OFFERED).items():
        found.setdefault((api, reason), set()).update(versions)
    return [[api, spans(sorted(versions)), reason] for (api, reason), versions in found.items()]


def _without_names(reason: str) -> str:
    """Names and ports are others in each run."""
    return re.sub(r"kwire-conformance-[0-9a-f]+-\d+", "a topic", re.sub(r"127\.0\.0\.1:\d+", "the broker", reason))
