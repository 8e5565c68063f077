"""What came of the mutants: a table by module, and the figures of docs/evidence/mutation.json."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tools.evidence import RESULTS, Figure, NotMet, Result, commit, read_result, today, write_result
from tools.mutate.child import KILLED, SURVIVED, TIMEOUT, Verdict
from tools.mutate.mutant import Mutant

EVIDENCE = RESULTS / "mutation.json"
WANTED_SHARE = 0.85
Judged = tuple[Mutant, Verdict]


def table(judged: Iterable[Judged]) -> Iterator[str]:
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for mutant, verdict in judged:
        for name in (mutant.module, f"{_package(mutant)}/ in all"):
            outcomes[name][verdict.outcome] += 1
    yield f"{'module':38} {'mutants':>8} {'killed':>7} {'timeout':>8} {'survived':>9} {'score':>7}"
    for name in sorted(outcomes, key=lambda name: (name.partition("/")[0], " in all" in name, name)):
        counts = outcomes[name]
        numbers = f"{counts.total():8} {counts[KILLED]:7} {counts[TIMEOUT]:8} {counts[SURVIVED]:9}"
        yield f"{name:38} {numbers} {score(counts):7.1%}"


def score(counts: Counter[str]) -> float:
    return 1 - counts[SURVIVED] / max(1, counts.total())


def by_package(judged: Iterable[Judged]) -> dict[str, Counter[str]]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for mutant, verdict in judged:
        counts[_package(mutant)][verdict.outcome] += 1
    return dict(counts)


def survivors(judged: Iterable[Judged]) -> Iterator[str]:
    for mutant, verdict in sorted(judged, key=lambda each: (each[0].file, each[0].start)):
        if not verdict.is_found:
            yield f"{mutant}{f'    ({verdict.test})' if verdict.test else ''}"


def _package(mutant: Mutant) -> str:
    return mutant.module.partition("/")[0]


# --- docs/evidence/mutation.json ----------------------------------------------------------------------------------


def write(judged: Sequence[Judged], of_all: int, label: str, path: Path = EVIDENCE) -> None:
    """Puts these figures where those of the same packages and label stood, and leaves others."""
    packages = by_package(judged)
    before = read_result(path) if path.exists() else None
    names = ", ".join(sorted(packages, reverse=True))
    count = Figure(what=f"mutants judged of {names}, {label}", value=f"{len(judged):,} of {of_all:,}, by chance")
    new = [count, *_figures(packages, label)]
    replaced = {each.what for each in new}
    kept = [each for each in (before.figures if before else ()) if each.what not in replaced]
    figures = sorted([*kept, *new], key=lambda each: each.what.endswith(", after"))
    missed = [each for each in (before.not_met if before else ()) if not any(name in each.what for name in packages)]
    write_result(path.stem, evidence(figures, [*missed, *not_met(judged)]), path.parent)


def evidence(figures: Sequence[Figure], missed: Sequence[NotMet]) -> Result:
    return Result(
        title="Mutation testing",
        claim="A small mistake in a line that decides, planted by a machine, makes a test fail.",
        command="scripts/mutate states managers protocol --survivors --write",
        date=today(),
        versions={"kwire": commit(), "Python": platform.python_version()},
        figures=figures,
        not_met=missed,
    )


def _figures(packages: Mapping[str, Counter[str]], label: str) -> Iterator[Figure]:
    for package, counts in sorted(packages.items(), reverse=True):
        found = counts[KILLED] + counts[TIMEOUT]
        value = f"{counts.total()} mutants, {found} killed: {score(counts):.1%} (of {commit()})"
        yield Figure(what=f"kwire/{package}/, {label}", value=value)


def not_met(judged: Iterable[Judged]) -> Iterator[NotMet]:
    for package, counts in by_package(judged).items():
        if score(counts) < WANTED_SHARE:
            yield NotMet(
                what=f"{WANTED_SHARE:.0%} of kwire/{package}/",
                why=f"{score(counts):.1%} are killed; {counts[SURVIVED]} survive",
            )
