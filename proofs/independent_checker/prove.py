"""`scripts/prove independent-checker`: kwire's judge and Jepsen's say the same of the same histories.

kwire judges its worlds itself (`kwire.testing.invariants`). Here their histories are told as operations of Jepsen's
workload for Kafka, and judged by Jepsen's own checker as well: good ones, and ones that are bad in a known place. No
Kafka is started.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from kwire.testing.invariants import Ledger, check
from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import cache_dir
from proofs.independent_checker.changes import CHANGES
from proofs.independent_checker.comparison import OF_RECORDS, Judged, result, table
from proofs.independent_checker.export import can_be_told, operations_of
from proofs.independent_checker.jepsen import Jepsen, Verdict
from proofs.independent_checker.operations import edn_lines, json_lines
from proofs.independent_checker.planted import buggy_histories, changed_histories
from proofs.independent_checker.worlds import History, by_kind, good_histories, read_history
from tools.detect.bugs import BUGS
from tools.evidence import commit, today, write_result

BUG_SEEDS = range(1, 6)


def independent_checker(
    checkout: Annotated[Path | None, typer.Option(help="Clones of Jepsen's sources; CACHE/jepsen.")] = None,
    good: Annotated[int, typer.Option(min=0, help="Histories of kwire as it is.")] = 200,
    planted: Annotated[int, typer.Option(min=0, help="Of these, changed in one place.")] = 60,
    bugs: Annotated[int, typer.Option(min=0, help="Bugs of tools/detect that are planted as well.")] = 0,
    seed: Annotated[int, typer.Option(help="Draws the changes.")] = 1,
    also: Annotated[list[Path] | None, typer.Option(help="A history of 'kwire faults run --history'.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Where histories are kept, as EDN and JSON, and found.")] = None,
    table_in: Annotated[Path | None, typer.Option("--table", help="Write the table, as Markdown, into it.")] = None,
    write: Annotated[bool, typer.Option(help="Write what came of it into docs/evidence.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="Worlds at once; one for each core.")] = os.cpu_count() or 1,
) -> list[str]:
    """Jepsen's checker of Kafka histories: it says of each what kwire's own judge says."""
    sources = checkout or cache_dir() / "jepsen"
    checker = Jepsen.in_checkouts(sources)
    told = [_told(path) for path in also or ()]
    with ExitStack() as stack:
        directory = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-histories-")))
        worlds = directory / "worlds"
        worlds.mkdir(parents=True, exist_ok=True)
        found = list(good_histories(good, worlds, processes))
        print(f"histories of kwire as it is: {by_kind(found)}", flush=True)
        changed = list(changed_histories(found, planted, seed))
        chosen = BUGS[:: max(1, len(BUGS) // bugs)][:bugs] if bugs else ()
        bad = [*changed, *buggy_histories(chosen, BUG_SEEDS, directory / "bugs")]
        judged = judge_both(checker, [*found, *told], bad, directory)
    for each in judged:
        if each.planted:
            print(each)
    print(table(judged))
    if table_in is not None:
        table_in.write_text(table(judged) + "\n")
    if write:
        versions = {"kwire": commit(), **Jepsen.versions_in(sources)}
        write_result("independent-checker", result(judged, date=today(), versions=versions, bugs=bugs))
    for each in judged:
        if each.explanation:
            print(f"explained: {each} ({each.explanation})")
    return [each.problem for each in judged if each.problem is not None]


def _told(path: Path) -> History:
    history = read_history(path)
    if not can_be_told(history.events):
        raise ClusterError(f"a log was cut in {path}: Jepsen's workload has no words for that")
    return history


def judge_both(checker: Jepsen, good: Sequence[History], bad: Sequence[History], directory: Path) -> list[Judged]:
    """Each history, in the same form, to both."""
    operations = directory / "operations"
    operations.mkdir(exist_ok=True)
    files = {_write(history, operations): history for history in (*good, *bad)}
    verdicts = checker.judge(list(files))
    bad_names = {history.name for history in bad}
    return [_judged(history, verdicts[file], is_bad=history.name in bad_names) for file, history in files.items()]


def _judged(history: History, verdict: Verdict, *, is_bad: bool) -> Judged:
    """What was changed are records: a rule about anything else has not seen it."""
    planted = history.name.partition(" in ")[0] if is_bad else ""
    rules = broken_rules(history)
    ours = tuple(rule for rule in rules if rule in OF_RECORDS) if planted in CHANGES else rules
    return Judged(name=history.name, planted=planted, ours=ours, theirs=verdict.bad)


def broken_rules(history: History) -> tuple[str, ...]:
    """By the world's own judge, and by the one for ledgers."""
    violations = check(Ledger(list(history.events)))
    return tuple(dict.fromkeys((*history.rules, *(violation.rule for violation in violations))))


def _write(history: History, directory: Path) -> Path:
    operations = list(operations_of(history.events))
    name = re.sub(r"[^\w.-]+", "-", history.name).strip("-")
    file = directory / f"{name}.edn"
    file.write_text("".join(f"{line}\n" for line in edn_lines(operations)))
    file.with_suffix(".json").write_text("".join(f"{line}\n" for line in json_lines(operations)))
    return file
