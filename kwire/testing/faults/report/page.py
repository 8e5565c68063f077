"""One run on one page: the verdict, the figures, the picture, recoveries, violations with their stories, how to do it
again. A single HTML file; nothing comes from outside, and there are no scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kwire.testing.faults.report.compare import as_table, recoveries_as_table
from kwire.testing.faults.report.figures import NONE, count, counted, duration, moment, size
from kwire.testing.faults.report.html import document, folded, heading, paragraph, section, table, verbatim
from kwire.testing.faults.report.progress import follow
from kwire.testing.faults.report.recovery import Judgement, Recovery
from kwire.testing.faults.report.run import FaultRun
from kwire.testing.faults.report.stories import stories
from kwire.testing.faults.report.summary import Summary, summarize
from kwire.testing.faults.report.timeline import timeline
from kwire.testing.faults.report.verdict import verdict

# Opened right away; the others by a click.
OPEN_STORIES = 3


def page(run: FaultRun, others: Sequence[FaultRun] = ()) -> str:
    """Args:
    others: more runs of the same schedule: in the table of figures beside this one, their pictures below.
    """
    tracks = follow(run.ledger)
    summary = summarize(run, tracks)
    compared = [summarize(other) for other in others]
    kind = "verdict" if summary.has_passed else "verdict failed"
    figures = [section("Figures", [as_table([summary, *compared])])]
    beside = [section("Recovery from each fault", _beside([summary, *compared]))]
    return document(
        f"{run.name}: {'passed' if summary.has_passed else 'failed'}",
        [
            heading(f"Fault injection: {run.title}" if run.title else "Fault injection"),
            paragraph(verdict(summary), kind),
            *(paragraph(verdict(other), "dim") for other in compared),
            *([*figures, *beside] if others else []),
            section("What happened", [f'<div class="picture">{timeline(run, tracks)}</div>']),
            section("Recovery", [_recoveries(summary)]),
            *([] if others else figures),
            section("What these faults are", [_kinds(run, summary)]),
            section("Violations", _violations(run)),
            section("Records that came again", [_again(summary)]),
            section("Longest silence of each partition", [_silences(summary)]),
            section("Memory", [_memory(summary)]),
            *(
                section(other.name, [f'<div class="picture">{timeline(other)}</div>', *_violations(other)])
                for other in others
            ),
            section("Again", _again_with(run)),
        ],
    )


def _beside(summaries: Sequence[Summary]) -> Iterator[str]:
    yield recoveries_as_table(summaries)
    yield paragraph("In brackets: past the bound, and not judged, as other faults were at work.", "dim")


def _recoveries(summary: Summary) -> str:
    head = ["fault", "what", "began", "ended", "recovered", "bound", "", "slowest", "no write for", "beside"]
    bad = {
        (line, column)
        for line, each in enumerate(summary.recoveries)
        if each.judgement in (Judgement.LATE, Judgement.NEVER)
        for column in (4, 6)
    }
    return table(head, [_recovery(each) for each in summary.recoveries], bad)


def _recovery(each: Recovery) -> list[str]:
    fault = each.fault
    return [
        fault.fault,
        fault.detail,
        moment(fault.began_ms),
        "at once" if fault.ended_ms is None else moment(fault.ended_ms),
        _took(each),
        duration(each.bound_ms),
        each.judgement.value,
        NONE if each.slowest is None else str(each.slowest),
        duration(each.unwritten_ms),
        ", ".join(each.beside) or NONE,
    ]


def _took(each: Recovery) -> str:
    if each.took_ms is None:
        return "never"
    return f"{duration(each.took_ms)} after the {'strike' if each.from_ms == each.fault.began_ms else 'heal'}"


def _kinds(run: FaultRun, summary: Summary) -> str:
    """Of those that struck, what is known about them."""
    struck = sorted({each.fault.fault for each in summary.recoveries})
    known = [(name, run.expected[name]) for name in struck if name in run.expected]
    lines = [[name, each.about, each.formula or duration(each.bound_ms)] for name, each in known]
    return table(["fault", "what it does", "all is well again within"], lines)


def _violations(run: FaultRun) -> Iterator[str]:
    told = stories(run.ledger, run.violations)
    for position, story in enumerate(told):
        lines = verbatim(
            "\n".join([*story.lines, f"{moment(story.violation.at_ms)}  VIOLATION {story.violation.what}"])
        )
        yield folded(str(story.violation), lines, is_open=position < OPEN_STORIES)
    if more := run.violations[len(told) :]:
        words = "\n".join(map(str, more))
        yield folded(f"{counted(len(more), 'more', 'more')}, without their stories", verbatim(words))


def _again(summary: Summary) -> str:
    return table(["why", "records"], [[why, count(number)] for why, number in summary.records.again.items()])


def _silences(summary: Summary) -> str:
    """The longest first."""
    ordered = sorted(summary.silences, key=lambda silence: -silence.lasted_ms)
    lines = [
        [
            str(each.partition),
            duration(each.lasted_ms),
            moment(each.from_ms),
            "never" if each.to_ms is None else moment(each.to_ms),
            count(each.unread),
        ]
        for each in ordered
    ]
    return table(["partition", "lasted", "from", "until", "unread records in the end"], lines)


def _memory(summary: Summary) -> str:
    lines = [[peak.member, size(peak.resident_bytes), moment(peak.at_ms)] for peak in summary.memory]
    return table(["member", "at most", "at"], lines)


def _again_with(run: FaultRun) -> Iterator[str]:
    if run.replay:
        yield verbatim(run.replay)
    if run.schedule:
        yield verbatim(run.schedule)
    yield table(["", "version"], [[name, version] for name, version in run.versions.items()])
