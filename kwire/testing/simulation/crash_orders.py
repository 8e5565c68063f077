"""Worlds of crash orders: one consumer after the other with parallel rebalance, each ended at a point of the protocol.

A narrow world: one broker, one topic, and lives that end where their plan says (`crash_plan.py`), while the log grows,
loses its beginning or its end, or is recreated. The last life is left alone until everything is processed. What all of
them did is judged by `crash_judge.py`. Called by `scripts/simulate --parallel-rebalance` and by tests.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from kwire.model import TopicPartition
from kwire.parallel_rebalance.division import MIN_PART
from kwire.parallel_rebalance.token import decode
from kwire.protocol.schema import Message, Request
from kwire.testing.cluster.batches import build_batch
from kwire.testing.cluster.groups.offsets import CommittedOffset
from kwire.testing.cluster.request_context import RequestContext
from kwire.testing.invariants.violation import Violation
from kwire.testing.simulation.crash_judge import CrashJudge
from kwire.testing.simulation.crash_life import TOPIC, CrashLife
from kwire.testing.simulation.crash_plan import GROUP, HEAD_GROUP, Blow, Crash, Fate, Life, Plan, Theme, draw_plan
from kwire.testing.simulation.script import Script, play

PRODUCER_ID = 1_000_000
# Offsets. With a few of them a lag is long enough for several children, whatever the number of its records.
MAX_CUT = 20
MAX_IN_GAP = 3 * MIN_PART
LOOK_MS = 50.0
# Time for a successor to take over from somebody who is dead without saying so, and more.
LIFE_MS = 40_000.0
DRAIN_MS = 90_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashOutcome:
    """One run: the same whenever and wherever the seed is run.

    Attributes:
        lines: What happened, in words.
        struck: How often which kind of crash came, and which blow.
        written: How many records there were to read; delivered: how many all polls returned; repeated: how many of them
            not for the first time; lost: how many nobody processed that were to be.
    """

    plan: Plan
    lines: tuple[str, ...]
    struck: Counter[str]
    written: int
    delivered: int
    repeated: int
    lost: int
    violations: tuple[Violation, ...]
    simulated_ms: float
    checksum: int
    took_seconds: float

    @property
    def digest(self) -> str:
        """Of all that happened, and of every byte on the wire."""
        return sha256("\n".join((*self.lines, f"{self.checksum:08x}")).encode()).hexdigest()

    @property
    def story(self) -> str:
        """The run in words."""
        return "\n".join((str(self.plan), *self.lines, *(f"VIOLATION {each}" for each in self.violations)))


class CrashWorld:
    """Carries out a plan. It is `crash_life.Surroundings`."""

    def __init__(self, script: Script, plan: Plan, judge: Callable[[Callable[[], float]], CrashJudge]) -> None:
        self.script = script
        self.plan = plan
        self.rng = random.Random(f"crash world {plan.seed}")
        self.judge = judge(script.now_ms)
        self.lines: list[str] = []
        self.struck: Counter[str] = Counter()
        self._sent = 0
        self._transactions = 0
        self._puts: dict[tuple[str, TopicPartition], CommittedOffset] = {}
        self._lives: list[CrashLife] = []
        self._partitions = [TopicPartition(TOPIC, index) for index in range(plan.partitions)]

    def note(self, text: str) -> None:
        self.lines.append(f"{self.script.now_ms():10.1f} ms  {text}")

    def live(self) -> None:
        """Carry out the plan."""
        script = self.script
        script.cluster.create_topic(TOPIC, self.plan.partitions, 1)
        script.cluster.groups.offsets.on_put = self._on_put
        if self.plan.coordinators_apart:
            first = script.cluster.coordinator(GROUP)
            other = next(node_id for node_id in script.cluster.brokers if node_id != first)
            script.cluster.move_coordinator(HEAD_GROUP, other)
        for life in self.plan.lives:
            self._grow_lag(life.lag)
            self._succeed(self._start(life), life)
        self._drain()
        self.judge.end()

    # --- lives ----------------------------------------------------------------------------------------------

    def _start(self, life: Life | None) -> CrashLife:
        made = CrashLife(self, self.script.process(), life)
        self._lives.append(made)
        for crash in life.crashes if life is not None else ():
            if not crash.after_blow:
                self._lay(crash, made)
        self.note(f"{made.name} starts" + ("" if made.catches_up else ", without parallel rebalance"))
        self.judge.started(made.name, catches_up=made.catches_up)
        self.script.start(made.process, made.main)
        return made

    def _succeed(self, current: CrashLife, life: Life) -> None:
        """Wait until the successor of a life may start."""
        script, until_ms = self.script, self.script.now_ms() + LIFE_MS
        while not current.is_over and not (life.is_joined and current.polls > life.rounds // 2):
            if script.now_ms() > until_ms:
                current.is_wanted = False
            script.sleep(LOOK_MS)
            if current.wants_blow():
                assert life.blow is not None
                self._strike(life.blow)
                for crash in life.crashes:
                    if crash.after_blow:
                        self._lay(crash, current)
            if self.rng.random() < 0.5:
                self._grow(4)

    def _drain(self) -> None:
        """Everybody is let go on, a last one comes, and all there is is to be read."""
        for life in self._lives:
            if not life.process.is_killed:
                life.thaw()
                life.is_wanted = False
        self.script.cluster.control.clear()
        self._grow(5)
        last = self._start(None)
        until_ms = self.script.now_ms() + DRAIN_MS
        while self.script.now_ms() < until_ms and not self._is_done():
            self.script.sleep(LOOK_MS)
        was_settled = not self._unsettled()
        last.is_wanted = False
        self.script.until(lambda: all(life.has_ended for life in self._lives), LIFE_MS)
        for at, end in self._unsettled():
            self.judge.unsettled(at, end, was_settled=was_settled)

    def _is_done(self) -> bool:
        return next(self.judge.unprocessed(), None) is None and not self._unsettled()

    def _unsettled(self) -> list[tuple[TopicPartition, int]]:
        """Partitions of which the group's log does not say that all is done, and where they end."""
        ends = [(at, self.script.cluster.end_offset(*at)) for at in self._partitions]
        return [(at, end) for at, end in ends if self._start_of(at) < end and not self.judge.is_settled(at, end)]

    def _start_of(self, at: TopicPartition) -> int:
        found = self.script.cluster.partition(*at)
        assert found is not None
        return found.log.log_start_offset

    def _lay(self, crash: Crash, life: CrashLife, *, between: bool = False) -> None:
        """Have it strike. What is under way then, and how far it came, is the broker's to say: the newest rule for a
        request decides.

        Args:
            between: whether the other log has not got the commit that it strikes at.
        """
        count = 0

        def is_it(request: Request[Message], call: RequestContext) -> bool:
            nonlocal count
            if call.client_id != life.name or not _is_at(crash, request):
                return False
            count += 1
            return count == crash.nth

        requests = self.script.cluster.control.on(crash.point.request, times=1, where=is_it)
        rule = requests.observe() if crash.fate is Fate.ANSWERED else requests.drop(handled=crash.is_taken)
        name = crash.point.name.lower().replace("_", "-") + ("-alone" if between else "")
        rule.see = partial(self._crash, crash, life, f"{name} {crash.fate.name.lower()}")

    def _crash(
        self, crash: Crash, life: CrashLife, name: str, _request: Request[Message], _call: RequestContext
    ) -> None:
        if crash.fate is not Fate.ANSWERED:
            self.struck[name] += 1
        self.note(f"{life.name} is {crash}")
        match crash.fate:
            case Fate.KILLED:
                life.kill()
            case Fate.FROZEN:
                life.freeze()
            case Fate.UNANSWERED | Fate.ANSWERED:
                pass
        if crash.then is not None:
            self._lay(crash.then, life, between=crash.fate is Fate.UNANSWERED)

    def _on_put(self, group: str, at: TopicPartition, commit: CommittedOffset) -> None:
        if group in (GROUP, HEAD_GROUP):
            self._puts[group, at] = commit
            self.note(f"{group} has {at}@{commit.offset} {commit.metadata!r}")
            self.judge.taken(group, at, commit)

    # --- the log --------------------------------------------------------------------------------------------

    def _grow_lag(self, about: int) -> None:
        """In several batches: gaps lie between them, and a log is cut in front of one."""
        each = max(2, about // self.plan.batches)
        for _ in range(self.plan.batches):
            self._grow(each, least=each // 2)

    def _grow(self, most: int, *, least: int = 1) -> None:
        for at in self._partitions:
            self._send(at, self.rng.randint(least, most))

    def _send(self, at: TopicPartition, count: int) -> None:
        found = self.script.cluster.partition(*at)
        assert found is not None
        values = [f"value{number}" for number in range(self._sent, self._sent + count)]
        self._sent += count
        in_transaction, now_ms = self.rng.random() < 0.3, self.script.cluster.wall_clock_ms()
        self._transactions += in_transaction
        producer_id = PRODUCER_ID + self._transactions if in_transaction else -1
        batch = build_batch(
            [value.encode() for value in values],
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=0 if in_transaction else -1,
            base_sequence=0 if in_transaction else -1,
            transactional=in_transaction,
        )
        if self.plan.has_gaps and self.rng.random() < 0.5:
            found.log.leave_gap(self.rng.randint(1, MAX_IN_GAP))
        base = found.log.append(batch, found.leader_epoch, now_ms).base_offset
        committed = self.rng.random() < 0.5
        if in_transaction:
            found.log.end_transaction(producer_id, 0, found.leader_epoch, now_ms, committed=committed)
        if committed or not in_transaction or not self.plan.read_committed:
            self.judge.sent(at, dict(enumerate(values, base)))
        self.script.cluster.changed.notify(found.key)
        self.note(f"{at} has {count} more from {base} on" + (f", committed: {committed}" if in_transaction else ""))

    def _strike(self, blow: Blow) -> None:
        self.struck[blow.value] += 1
        at = self.rng.choice(self._blind_heads() or self._partitions)
        found, start = self.script.cluster.partition(*at), self._start_of(at)
        assert found is not None
        end = found.log.log_end_offset
        match blow:
            case Blow.RETENTION:
                before = self.rng.randint(start, found.log.last_stable_offset)
                self.script.cluster.delete_records(*at, before)
                self.judge.removed(at, before)
                self.note(f"{at} begins at {before}")
            case Blow.TRUNCATION:
                lost = self.rng.randint(1, MAX_CUT)
                if at in self._blind_heads():
                    lost += end - self._puts[HEAD_GROUP, at].offset
                self.script.cluster.elect_uncleanly(*at, min(lost, end - start))
                self.judge.truncated(at, found.log.log_end_offset, end)
                self._forget_reached(at)
                self.note(f"{at} is cut to {found.log.log_end_offset}, from {end}")
            case Blow.RECREATION:
                ends = {each: self.script.cluster.end_offset(*each) for each in self._partitions}
                self.script.cluster.delete_topic(TOPIC)
                self.script.cluster.create_topic(TOPIC, self.plan.partitions, 1)
                for each, its_end in ends.items():
                    self.judge.recreated(each, its_end)
                    self._forget_reached(each)
                self.note(f"{TOPIC} is another topic")

    def is_ready_for_blow(self) -> bool:
        """Where the theme is a cut log, there has to be something that the cut can make wrong."""
        return self.plan.theme is not Theme.CUT or bool(self._blind_heads())

    def _blind_heads(self) -> list[TopicPartition]:
        """Where the head's log has an offset of which nobody can tell later whether the log was cut in front of it,
        while there is something to be caught up."""
        found = []
        for at in self._partitions if self.plan.theme is Theme.CUT else ():
            low, head = self._puts.get((GROUP, at)), self._puts.get((HEAD_GROUP, at))
            if low is not None and head is not None and head.leader_epoch < 0 and decode(low.metadata) is not None:
                found.append(at)
        return found

    def _forget_reached(self, at: TopicPartition) -> None:
        """No application commits an offset of its own, without an epoch, of a log that is no more."""
        for life in self._lives:
            life.forget_reached(at)


def _is_at(crash: Crash, request: Request[Message]) -> bool:
    wanted = crash.point.group
    if wanted is None:
        return True
    groups = getattr(request, "groups", None)
    names = [each.group_id for each in groups] if groups else [getattr(request, "group_id", "")]
    return wanted in names


def crash_in_order(seed: int, judge: Callable[[Callable[[], float]], CrashJudge] = CrashJudge) -> CrashOutcome:
    """Run the world of a seed.

    Args:
        judge: makes who is told of all that happens, out of the clock of the world.
    """
    plan, worlds = draw_plan(seed), list[CrashWorld]()
    began = time.perf_counter()

    def story(script: Script) -> None:
        worlds.append(CrashWorld(script, plan, judge))
        worlds[0].live()

    problems: list[Violation] = []
    try:
        script = play(story, brokers=2 if plan.coordinators_apart else 1, seed=seed)
    except AssertionError as error:
        script = worlds[0].script
        problems.append(Violation(rule="script", at_ms=script.now_ms(), what=str(error)))
    world = worlds[0]
    return CrashOutcome(
        plan=plan,
        lines=tuple(world.lines),
        struck=world.struck,
        written=world.judge.written,
        delivered=world.judge.delivered,
        repeated=world.judge.repeated,
        lost=world.judge.lost,
        violations=(*world.judge.violations, *problems),
        simulated_ms=script.now_ms(),
        checksum=script.network.checksum,
        took_seconds=time.perf_counter() - began,
    )
