"""Results that docs/evidence.md shows: one JSON file in docs/evidence for each command that tests a claim.

A proof, a benchmark or a tool makes a `Result` and hands it to `write_result`; `python -m tools.evidence_docs` makes
docs/evidence.md of all of them.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
DOCS = TOP / "docs"
RESULTS = DOCS / "evidence"
KWIRE = "kwire"
"""The version that each result names: the commit that was judged."""
_PACKAGES = ("kwire", "pyspark_kwire", "pytest_kwire")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class NoResultError(ValueError):
    """A result that cannot stand on the page; the message says of which file, where, and what is expected there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that was counted or measured."""

    what: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMet:
    """Something that failed, was left out, or is not shown by this; and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one command came to.

    Args:
        title: Of its section.
        claim: One plain sentence: what it shows.
        command: How anybody gets it again.
        date: The day of the run, as 2026-11-26.
        versions: What was judged, and by what; `kwire` is a commit.
        figures: The first one is the sum of it all.
        not_met: What failed, or is left out.
        page: The page in docs/ that has more, if there is one; it may name a heading (`losses.md#two-judges`). Or a
            picture, as SVG, that is shown.
    """

    title: str
    claim: str
    command: str
    date: str
    versions: Mapping[str, str]
    figures: Sequence[Figure]
    not_met: Sequence[NotMet] = ()
    page: str | None = None


def write_result(name: str, result: Result, folder: Path = RESULTS) -> Path:
    """Writes it into docs/evidence, in place of what was there.

    Raises:
        NoResultError: It cannot stand on the page.
    """
    if not _NAME.fullmatch(name):
        raise NoResultError(f"{name!r}: a result has a name of small letters, digits and hyphens")
    file = folder / f"{name}.json"
    text = json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n"
    _result_of(file.name, json.loads(text))
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"{file}: written; python -m tools.evidence_docs puts it on docs/evidence.md")
    return file


def read_result(file: Path) -> Result:
    """
    Raises:
        NoResultError: It is not of the form.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NoResultError(f"{file.name}: it is no JSON: {error}") from error
    return _result_of(file.name, found)


def read_results(folder: Path = RESULTS) -> dict[str, Result]:
    """All that there are, by name."""
    return {file.stem: read_result(file) for file in sorted(folder.glob("*.json"))}


def today() -> str:
    """As a result says it."""
    return datetime.now(UTC).date().isoformat()


def commit(top: Path = TOP) -> str:
    """Which kwire this is; with "and changes" if its files are not those of the commit. Outside a clone: unknown."""
    found = _git(top, "rev-parse", "--short=7", "HEAD")
    if found is None or found.returncode:
        return "unknown"
    changed = _git(top, "diff", "--quiet", "HEAD", "--", *_PACKAGES)
    return found.stdout.strip() + (" and changes" if changed is not None and changed.returncode else "")


def _git(top: Path, *words: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(["git", *words], cwd=top, capture_output=True, text=True, check=False)
    except OSError:
        return None


# --- from JSON ---------------------------------------------------------------------------------------------------


def _result_of(file: str, found: object) -> Result:
    whole = _Part(file, "", found)
    whole.has_just([field.name for field in fields(Result)])
    day, page = whole.text("date"), whole.part("page").found
    try:
        date.fromisoformat(day)
    except ValueError:
        raise NoResultError(f"{file}: date: {day!r} should be a day such as 2026-11-26") from None
    if page is not None and not (isinstance(page, str) and (DOCS / page.partition("#")[0]).is_file()):
        raise NoResultError(f"{file}: page: {page!r} should be null or a page in docs/, such as kafkatest.md")
    result = Result(
        title=whole.text("title"),
        claim=whole.text("claim"),
        command=whole.text("command"),
        date=day,
        versions=whole.part("versions").texts(),
        figures=[Figure(what=each.text("what"), value=each.text("value")) for each in whole.parts("figures", Figure)],
        not_met=[NotMet(what=each.text("what"), why=each.text("why")) for each in whole.parts("not_met", NotMet)],
        page=page,
    )
    if KWIRE not in result.versions:
        raise NoResultError(f"{file}: versions: {KWIRE!r} is missing: the commit that was judged")
    if not result.figures:
        raise NoResultError(f"{file}: figures: there is none; a claim needs one at least")
    return result


@dataclass(frozen=True, slots=True)
class _Part:
    """An object of the file, and where in it that is."""

    file: str
    where: str
    found: object

    def has_just(self, names: Sequence[str]) -> None:
        keys = set(self._object())
        if missing := [name for name in names if name not in keys]:
            raise self._error(f"{', '.join(missing)} is missing")
        if unknown := sorted(keys.difference(names)):
            raise self._error(f"{', '.join(unknown)} is unknown; there are {', '.join(names)}")

    def text(self, name: str) -> str:
        value = self._object()[name]
        if not isinstance(value, str) or not value.strip():
            raise self._error(f"{name} should be some text, not {value!r}")
        return value

    def part(self, name: str) -> _Part:
        return _Part(self.file, f"{self.where}{name}", self._object()[name])

    def parts(self, name: str, form: type[Figure | NotMet]) -> Iterator[_Part]:
        value = self._object()[name]
        if not isinstance(value, list):
            raise self._error(f"{name} should be a list, not {value!r}")
        for number, each in enumerate(value):
            part = _Part(self.file, f"{name}[{number}]", each)
            part.has_just([field.name for field in fields(form)])
            yield part

    def texts(self) -> dict[str, str]:
        return {name: self.text(name) for name in self._object()}

    def _object(self) -> dict[str, object]:
        if not isinstance(self.found, dict):
            raise self._error(f"it should be an object, not {self.found!r}")
        return self.found

    def _error(self, what: str) -> NoResultError:
        return NoResultError(f"{self.file}: {f'{self.where}: ' if self.where else ''}{what}")
