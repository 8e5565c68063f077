"""`scripts/soak HOURS`: hours of reading, with a fault every few minutes. Nothing may be lost, stuck, or grow.

A group of four reads one topic of a real Kafka over TLS, with a login and a certificate: a `Consumer`, an
`AsyncConsumer`, a `Processor`, and one with parallel rebalance. Brokers are killed, restarted and cut off, connections
reset, slowed down and narrowed, members frozen, guests come to the group and are killed, and certificates are renewed.
Another client reads the same in a group of its own: what it needs more by the hour, the machine has less.

Exit codes: 0 every promise held; 1 one was broken, or it could not be tried; 130 interrupted.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from platform import python_version
from typing import TYPE_CHECKING, Annotated

import typer

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.jars import KAFKA_VERSION
from proofs.soak.faults import Faults
from proofs.soak.group import Group
from proofs.soak.member import CONTROL, TELL_EVERY_S, WAYS
from proofs.soak.picture import draw
from proofs.soak.slopes import FIGURES, Verdict, judge
from proofs.soak.testbed import PARTITIONS, Testbed, prepared_testbed
from proofs.soak.watch import CPU_OVER_S, Watch
from proofs.soak.writer import Writer
from tools.evidence import DOCS, Figure, NotMet, Result, commit, today, write_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

POLL_INTERVAL_S = 10.0
TELL_S = 300.0
STUCK_S = 60.0
"""A record that nobody has read so long after it was acknowledged, with no fault near, is stuck."""
DRAIN_S = 90.0
WARM_SHARE, WARM_AT_MOST_S = 0.2, 900.0
JUDGED_S = 1_200.0
"""Of less time than this a slope says nothing."""
PICTURE = DOCS / "soak.svg"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The arguments of the soak."""

    hours: float
    per_second: int
    every_s: float
    protocol: str
    seed: int

    @property
    def seconds(self) -> float:
        return self.hours * 3600

    @property
    def warm_s(self) -> float:
        return min(WARM_AT_MOST_S, WARM_SHARE * self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    lost: int
    records: int
    again: int
    stuck: tuple[str, ...]
    broken: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    faults: Counter[str]
    picture: str


class Run:
    """One run, from the start of the members to the judgement."""

    def __init__(self, testbed: Testbed, plan: Plan) -> None:
        began_s = time.monotonic()
        self._now_s: Callable[[], float] = lambda: time.monotonic() - began_s
        self._testbed, self._plan = testbed, plan
        self._watch = Watch(self._now_s)
        self._group = Group(testbed, plan.protocol, self._watch.hear)
        self._faults = Faults(
            testbed, self._group, every_s=plan.every_s, warm_s=plan.warm_s, seed=plan.seed, now_s=self._now_s
        )
        self._writer = Writer(
            testbed.cluster.direct_servers, testbed.topic, PARTITIONS, per_second=plan.per_second, seed=plan.seed
        )
        self._acknowledged: list[tuple[float, tuple[int, ...]]] = []
        self._stuck: dict[int, str] = {}

    def go(self) -> Outcome:
        with self._running():
            self._soak()
            ended = self._group.ended()
        unsent = self._writer.stop()
        self._drain()
        broken = [*ended, *self._group.stop()]
        if self._group.spoilt:
            broken.append(f"{self._group.spoilt} records were not as they were written")
        if self._faults.error is not None:
            broken.append(f"a fault could not be done: {self._faults.error!r}")
        if unsent:
            print(f"{unsent} records were not acknowledged", flush=True)
        return self._judge(broken)

    @contextmanager
    def _running(self) -> Iterator[None]:
        try:
            self._group.start()
            self._writer.start()
            self._faults.start()
            yield
        except BaseException:
            self._group.kill()
            self._writer.stop()
            raise
        finally:
            self._faults.stop()

    def _soak(self) -> None:
        told_s = 0.0
        while (now_s := self._now_s()) < self._plan.seconds:
            time.sleep(POLL_INTERVAL_S)
            self._watch.look(self._group.processes())
            self._look_for_stuck()
            if self._group.ended() or self._faults.error is not None:
                return
            if now_s >= told_s:
                told_s = now_s + TELL_S
                self._tell()

    def _look_for_stuck(self) -> None:
        """What was acknowledged before `STUCK_S` has to be read, but for the time that it takes until it is told."""
        now_s = self._now_s()
        self._acknowledged.append((now_s, self._writer.ends))
        while len(self._acknowledged) > 1 and self._acknowledged[1][0] <= now_s - STUCK_S - 2 * TELL_EVERY_S:
            self._acknowledged.pop(0)
        since_s, ends = self._acknowledged[0]
        if now_s - since_s < STUCK_S or self._faults.is_near(since_s, now_s):
            return
        for partition, end in enumerate(ends):
            read = self._group.read_up_to(partition)
            if read < end:
                self._stuck.setdefault(
                    partition, f"partition {partition} stood at {read}, {end - read} records behind, at {now_s:.0f} s"
                )

    def _tell(self) -> None:
        group, ends = self._group, self._writer.ends
        faults = len(self._faults.strikes)
        print(
            f"{self._now_s() / 60:6.0f} min  {group.records:>10,} read, {group.lag(ends):>6,} behind, {faults} faults, "
            f"stuck {len(self._stuck)}",
            flush=True,
        )

    def _drain(self) -> None:
        until_s = time.monotonic() + DRAIN_S
        while self._group.lag(self._writer.ends) and time.monotonic() < until_s:
            time.sleep(1)

    def _judge(self, broken: Sequence[str]) -> Outcome:
        ends, coverage = self._writer.ends, self._group.coverage
        missing = {partition: coverage[partition].missing(end) for partition, end in enumerate(ends)}
        lost = sum(end - first for runs in missing.values() for first, end in runs)
        points = self._watch.all_points()
        strikes = self._faults.strikes
        title = f"{self._plan.hours:g} hours, {len(strikes)} faults, {self._group.records:,} records"
        return Outcome(
            lost=lost,
            records=sum(ends),
            again=sum(found.again for found in coverage.values()),
            stuck=tuple(self._stuck.values()),
            broken=(*broken, *(f"partition {at} lacks {runs[:3]}" for at, runs in missing.items() if runs)),
            verdicts=tuple(self._verdicts()),
            faults=Counter(strike.name for strike in strikes),
            picture=draw(title, points, strikes, self._now_s()),
        )

    def _verdicts(self) -> Iterator[Verdict]:
        if self._now_s() - self._plan.warm_s < JUDGED_S:
            return
        for figure in FIGURES:
            control = self._watch.points(CONTROL, figure)
            for way in WAYS:
                points = self._watch.points(way, figure)
                if figure.in_calm:
                    points = [at for at in points if not self._faults.is_near(at.at_s - CPU_OVER_S, at.at_s)]
                if verdict := judge(way, figure, points, control, from_s=self._plan.warm_s):
                    yield verdict
            if not figure.beside_control and (told := judge(CONTROL, figure, control, (), from_s=self._plan.warm_s)):
                yield replace(told, is_promise=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def soak(
    hours: Annotated[float, typer.Argument(min=0.02, help="How long it reads.")],
    per_second: Annotated[int, typer.Option(min=1, help="Records a second.")] = 500,
    every_s: Annotated[float, typer.Option(min=1, help="Seconds from a fault's end to the next one.")] = 150.0,
    protocol: Annotated[str, typer.Option(help="The group's: classic or consumer.")] = "consumer",
    seed: Annotated[int, typer.Option(help="Of the faults and the records.")] = 1,
    write: Annotated[bool, typer.Option(help="Write docs/soak.svg and docs/evidence/soak.json.")] = False,
) -> None:
    """Hours of reading, with a fault every few minutes: nothing may be lost, stuck, or grow."""
    plan = Plan(hours=hours, per_second=per_second, every_s=every_s, protocol=protocol, seed=seed)
    try:
        with prepared_testbed() as made:
            outcome = Run(made, plan).go()
    except ClusterError as error:
        print(f"scripts/soak: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    tell(outcome)
    if write:
        PICTURE.write_text(outcome.picture)
        write_result("soak", evidence(plan, outcome))
    raise typer.Exit(1 if problems(outcome) else 0)


def problems(outcome: Outcome) -> list[str]:
    """The promises that were broken, each in one line."""
    steep = [
        f"{verdict.member}: {verdict.figure.name} grows by {verdict.slope} an hour, not {verdict.figure.limit} at most"
        for verdict in outcome.verdicts
        if verdict.is_broken
    ]
    return [*outcome.broken, *outcome.stuck, *steep]


def tell(outcome: Outcome) -> None:
    print(f"{outcome.records:,} records: {outcome.lost} lost, {outcome.again} read again, {len(outcome.stuck)} stuck")
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items())))
    for line in table(outcome.verdicts):
        print(line)
    found = problems(outcome)
    for line in found:
        print(f"BROKEN {line}")
    print(f"{len(found)} promises broken" if found else "every promise held", flush=True)


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    if not verdicts:
        yield f"it was too short for slopes, which want {JUDGED_S / 60:.0f} minutes after the first fifth"
        return
    yield "\n| member | figure | middle | slope an hour | limit |\n|---|---|---:|---:|---:|"
    for verdict in verdicts:
        figure = verdict.figure
        middle = f"{verdict.middle:.1f} {figure.unit}".strip()
        yield f"| {verdict.member} | {figure.name} | {middle} | {verdict.slope} | {figure.limit} |"


def evidence(plan: Plan, outcome: Outcome) -> Result:
    """What it came to, for the page of evidence."""
    broken = problems(outcome)
    whole = f"{plan.hours:g} h, {outcome.records:,} records, {outcome.faults.total()} faults"
    return Result(
        title="A soak",
        claim=claim(outcome),
        command=f"scripts/soak {plan.hours:g} --per-second {plan.per_second} --write",
        date=today(),
        versions={"kwire": commit(), "Apache Kafka": KAFKA_VERSION, "Python": python_version()},
        figures=[
            Figure(what=whole, value=f"{outcome.lost} lost, {len(outcome.stuck)} stuck, {len(broken)} promises broken"),
            Figure(
                what="kinds of faults", value=", ".join(f"{name} {n}" for name, n in sorted(outcome.faults.items()))
            ),
            Figure(what="records read again, after members were killed, frozen or cut off", value=str(outcome.again)),
            *steepest(outcome.verdicts),
        ],
        not_met=[NotMet(what=line, why="the picture shows when") for line in broken],
        page=PICTURE.name,
    )


def claim(outcome: Outcome) -> str:
    """What held."""
    held = [
        *(() if outcome.lost else ("loses nothing",)),
        *(() if outcome.stuck else ("never stands still",)),
        *(() if any(verdict.is_broken for verdict in outcome.verdicts) else ("needs no more than at the beginning",)),
    ]
    said = ", and ".join([", ".join(held[:-1]), held[-1]] if len(held) > 1 else held) or "breaks promises"
    return f"A group that reads for hours, with a fault every few minutes, {said}."


def steepest(verdicts: Sequence[Verdict]) -> Iterator[Figure]:
    """Of each figure, the member whose slope is the steepest."""
    for figure in FIGURES:
        if found := [verdict for verdict in verdicts if verdict.figure == figure and verdict.is_promise]:
            worst = max(found, key=lambda verdict: verdict.per_hour)
            control = [
                f"; the control {told.slope}" for told in verdicts if told.figure == figure and not told.is_promise
            ]
            value = f"{worst.slope} ({worst.member}; the limit is {figure.limit}{''.join(control)})"
            yield Figure(what=f"{figure.name}: the steepest slope of an hour", value=value)


if __name__ == "__main__":
    app(prog_name="scripts/soak")
