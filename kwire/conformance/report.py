"""The report of a run: its results as values, as a table, and as JSON.

The JSON is an object with `bootstrap`, `prefix`, `seconds`, `passed`, `failed`, `not_offered`, `api_versions`,
`leftovers` and `results`; each of these is an object with the fields of `Result`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class CaseStatus(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case: a check, in one version of an API."""

    api: str
    api_key: int
    version: int
    area: str
    check: str
    status: CaseStatus
    reason: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.api} v{self.version}: {self.check}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results, in the order of the checks.

    All names that the run has created begin with `prefix`; `leftovers` are those that could not be deleted.
    """

    bootstrap: str
    prefix: str
    seconds: float
    results: tuple[Result, ...]
    leftovers: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no case has failed."""
        return not self.count(CaseStatus.FAILED)

    @property
    def has_judged(self) -> bool:
        """Whether any case was run: a broker may offer none of the APIs that were selected."""
        return any(result.status is not CaseStatus.NOT_OFFERED for result in self.results)

    def count(self, status: CaseStatus) -> int:
        """The number of cases with this status."""
        return sum(result.status is status for result in self.results)

    def of(self, status: CaseStatus) -> list[Result]:
        """The cases with this status."""
        return [result for result in self.results if result.status is status]

    def api_versions(self) -> dict[str, list[int]]:
        """The versions of each API in which at least one case has passed."""
        spoken: dict[str, set[int]] = {}
        for result in self.of(CaseStatus.PASSED):
            spoken.setdefault(result.api, set()).add(result.version)
        return {api: sorted(versions) for api, versions in spoken.items()}

    def to_json(self) -> str:
        """The report as JSON."""
        found = {
            "bootstrap": self.bootstrap,
            "prefix": self.prefix,
            "seconds": round(self.seconds, 3),
            "passed": self.count(CaseStatus.PASSED),
            "failed": self.count(CaseStatus.FAILED),
            "not_offered": self.count(CaseStatus.NOT_OFFERED),
            "api_versions": self.api_versions(),
            "leftovers": list(self.leftovers),
            "results": [asdict(result) for result in self.results],
        }
        return json.dumps(found, indent=1)

    def to_text(self, *, verbose: bool = False) -> str:
        """A table by API, then every failure with its reason.

        Args:
            verbose: Whether to show each case, also those that passed.
        """
        lines = [*self._table(), *self._failures(), *self._not_offered()]
        if verbose:
            lines += ["", *(f"{result.status.value:<12}{result}  ({result.seconds:.2f} s)" for result in self.results)]
        lines += [f"left behind: {leftover}" for leftover in self.leftovers]
        return "\n".join([*lines, "", self.summary()]) + "\n"

    def summary(self) -> str:
        """The result in one line."""
        spoken = self.api_versions()
        versions = sum(map(len, spoken.values()))
        return (
            f"{self.bootstrap}: {self.count(CaseStatus.PASSED)} passed, {self.count(CaseStatus.FAILED)} failed, "
            f"{self.count(CaseStatus.NOT_OFFERED)} not offered; {versions} versions of {len(spoken)} APIs spoken, "
            f"in {self.seconds:.1f} s"
        )

    def _table(self) -> Iterator[str]:
        yield f"{'key':>3}  {'API':<28}{'versions':<10}{'passed':>7}{'failed':>7}  not offered"
        for (key, api), group in groupby(self.results, lambda result: (result.api_key, result.api)):
            results = list(group)
            shown = spans([result.version for result in results if result.status is not CaseStatus.NOT_OFFERED]) or "-"
            passed, failed, absent = (sum(result.status is status for result in results) for status in CaseStatus)
            yield f"{key:>3}  {api:<28}{shown:<10}{passed:>7}{failed or '':>7}  {absent or '':>11}"

    def _failures(self) -> Iterator[str]:
        """One entry for each check and reason: a failure that several versions share is shown once."""
        alike: dict[tuple[str, str, str, str], list[int]] = {}
        for result in self.of(CaseStatus.FAILED):
            alike.setdefault((result.api, result.area, result.check, result.reason), []).append(result.version)
        for (api, area, check, reason), versions in alike.items():
            yield ""
            yield f"FAILED  {api} v{spans(versions)}: {check}  [{area}]"
            yield f"        {reason}"

    def _not_offered(self) -> Iterator[str]:
        alike: dict[tuple[str, str], list[int]] = {}
        for result in self.of(CaseStatus.NOT_OFFERED):
            alike.setdefault((result.api, result.reason), []).append(result.version)
        if alike:
            yield ""
        for (api, reason), versions in alike.items():
            yield f"not offered  {api} v{spans(versions)}: {reason}"


def spans(numbers: Sequence[int]) -> str:
    """Numbers as ranges: "3-7,9"."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)
