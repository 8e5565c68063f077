"""Two judges' verdicts of histories, side by side: where they agree, where not, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tools.evidence import Figure, NotMet, Result

# Of the rules of `kwire.testing.invariants`, those that Jepsen's workload has words for.
OF_RECORDS = frozenset(
    (
        "lost-write",
        "unseen",
        "inconsistent-offsets",
        "poll-skip",
        "nonmonotonic-poll",
        "overlap",
    )
)
BEYOND = "its operations tell of records and positions; commits, owners, handlers and times are not in them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A history, with what each judge found.

    Args:
        planted: why it is bad: the name of a change, or of a bug; empty for one that is good.
        ours: the rules that are broken.
        theirs: kinds of errors.
    """

    name: str
    planted: str = ""
    ours: tuple[str, ...]
    theirs: tuple[str, ...]

    @property
    def verdict(self) -> str:
        match bool(self.ours), bool(self.theirs):
            case False, False:
                return "both good"
            case True, True:
                return "both bad"
            case True, False:
                return "ours alone"
            case _:
                return "theirs alone"

    @property
    def explanation(self) -> str:
        """Why the judges differ; empty if nobody knows."""
        if self.verdict == "ours alone" and not OF_RECORDS.intersection(self.ours):
            return BEYOND
        return ""

    @property
    def problem(self) -> str | None:
        if not self.planted and self.verdict != "both good":
            return f"{self}: nothing is wrong with it"
        if self.planted and self.verdict == "both good":
            return f"{self}: nobody has seen it"
        if self.verdict in {"ours alone", "theirs alone"} and not self.explanation:
            return f"{self}: the judges differ"
        return None

    def __str__(self) -> str:
        told = f"ours: {', '.join(self.ours) or 'good'}; Jepsen's: {', '.join(self.theirs) or 'good'}"
        return f"{self.name}: {told}"


def result(judged: Sequence[Judged], *, date: str, versions: Mapping[str, str], bugs: int = 0) -> Result:
    """For docs/evidence.md. `bugs` is how many were asked for."""
    good = [each for each in judged if not each.planted]
    planted = [each for each in judged if each.planted]
    unlike = [each for each in judged if each.problem is not None or each.explanation]
    alike = len(judged) - sum(each.verdict.endswith("alone") for each in judged)
    return Result(
        title="Jepsen's checker",
        claim="Jepsen's checker finds no error in histories that kwire's consumers have read under faults, and finds "
        "the planted ones. On every kind of error that it knows, kwire's own judge says the same.",
        command=f"scripts/prove independent-checker --checkout PATH{f' --bugs {bugs}' if bugs else ''}",
        date=date,
        versions=versions,
        figures=[
            Figure(what="Both judges say the same", value=f"{alike} of {len(judged)} histories"),
            Figure(what="Good histories that both find good", value=_of(good, "both good")),
            Figure(what="Planted errors that both find", value=_of(planted, "both bad")),
            Figure(what="Planted errors that kwire's judge finds", value=_of(planted, "both bad", "ours alone")),
        ],
        not_met=[
            *(NotMet(what=str(each), why=each.explanation or each.problem or "") for each in unlike),
            NotMet(
                what="Commits, owners, handlers, times",
                why="that workload has no words for them; kwire's judge alone sees them",
            ),
            NotMet(
                what="Histories with a log that was cut, or with several children of one partition",
                why="that workload takes an offset for one record's, for ever; they are left out",
            ),
        ],
        page="losses.md#who-judges",
    )


def _of(found: Sequence[Judged], *verdicts: str) -> str:
    return f"{sum(each.verdict in verdicts for each in found)} of {len(found)}"


VERDICTS = ("both good", "both bad", "ours alone", "theirs alone")


def table(judged: Sequence[Judged]) -> str:
    """Markdown: how many of each verdict, and for each thing that was planted what was found."""
    return "\n".join((*_summary(judged), "", *_planted(judged)))


def _summary(judged: Sequence[Judged]) -> Iterator[str]:
    yield f"| histories | {' | '.join(VERDICTS)} |"
    yield f"|---|{'---:|' * len(VERDICTS)}"
    for title, found in (
        ("good", [each for each in judged if not each.planted]),
        ("planted", [each for each in judged if each.planted]),
    ):
        counts = Counter(each.verdict for each in found)
        yield f"| {len(found)} {title} | {' | '.join(str(counts[verdict]) for verdict in VERDICTS)} |"


def _planted(judged: Sequence[Judged]) -> Iterator[str]:
    yield "| planted | histories | ours | Jepsen's |"
    yield "|---|---:|---|---|"
    for name in dict.fromkeys(each.planted for each in judged if each.planted):
        found = [each for each in judged if each.planted == name]
        ours = Counter(rule for each in found for rule in each.ours)
        theirs = Counter(kind.partition("=")[0] for each in found for kind in each.theirs)
        yield f"| {name} | {len(found)} | {_counted(ours)} | {_counted(theirs)} |"


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{name} {times}" for name, times in found.most_common()) or "-"
