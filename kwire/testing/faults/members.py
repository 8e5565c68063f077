"""The processes of the group's members: they are started, closed, killed, frozen and slowed down, and their output is
read.

    with Members(recorder, directory, bootstrap_servers=proxied, group_id="faults") as members:
        name = members.start(MemberPlan.of(0, schedule))
        members.kill(name)

Injectors call it, each from a thread of its own. The lines of members go to the recorder; invalid lines, and an end
that was not asked for, become violations there. Programs that end after an error, as Java's does, are started
again instead. Each incarnation has a name of its own: `member2.3` is the third process of member 2.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType

from kwire.model import TopicPartition
from kwire.testing.faults.clock_shift import HOW_TO_INSTALL, find_faketime, with_shifted_clock, write_shift
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.member_plan import CATCHES_UP_FROM, MemberPlan
from kwire.testing.faults.member_process import CLOSE_GRACE_S, MemberProcess
from kwire.testing.faults.process_state import MemorySampler
from kwire.testing.faults.report.run import MemorySample
from kwire.testing.faults.secured import member_settings
from kwire.testing.faults.telling import Teller
from kwire.testing.invariants.ledger import Raised, Started
from kwire.testing.kafka.guard import GuardOrder
from kwire.testing.kafka.jars import ClusterError

START_LIMIT_S = 60.0  # a JVM on a machine that is busy with others takes seconds of it
ENDS_WITHIN_S = CLOSE_GRACE_S + 10.0
# Before a process that has ended by an error is started again: a supervisor's usual second.
RESTART_PAUSE_S = 1.0


class Members:
    """All members, also those that have ended. The lock `_told` guards the maps; processes have locks of their own.

    Args:
        directory: the directory in which each incarnation gets one for its output.
        bootstrap_servers: the proxies.
        truststore: the truststore for secured runs (`secured.py`); None for others.
    """

    def __init__(
        self,
        recorder: Recorder,
        directory: Path,
        bootstrap_servers: str,
        group_id: str = "faults",
        truststore: Path | None = None,
    ) -> None:
        self._recorder = recorder
        self._directory = directory
        self._bootstrap_servers = bootstrap_servers
        self._group_id = group_id
        self._truststore = truststore
        self._faketime = find_faketime()
        self._told = threading.Condition()
        self._processes: dict[str, MemberProcess] = {}
        self._plans: dict[str, MemberPlan] = {}
        self._incarnations: Counter[int] = Counter()
        self._restarts: list[threading.Thread] = []
        self._is_closing = False
        self._sampler = MemorySampler(recorder.now_ms, self._pids)

    def __enter__(self) -> Members:
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_restarts()
        for name in self.names():
            self.kill(name)
        for process in self._processes.values():
            process.wait()
        self._sampler.stop()

    # --- lives -----------------------------------------------------------------------------------------------

    def start(self, plan: MemberPlan) -> str:
        """Start a new incarnation of member `plan.number`. Returns its name when the process runs, before it joins: an
        earlier signal would find no handler.

        Raises:
            ClusterError: the process does not start, or the client does not support the plan.
        """
        name = self._new_name(plan)
        command = self._command(name, plan)
        teller = self._new_teller(name, plan)
        with self._told:  # its reader waits until it is in the map
            process = MemberProcess(name, command, self._directory / name, teller, lambda: self._hear(name))
            process.may_end = plan.number < 0  # it may be fenced before `expect_end` can be called
            self._processes[name] = process
        if not self.wait(lambda: process.teller.has_started or process.has_ended, START_LIMIT_S):
            raise ClusterError(f"{name} said nothing for {START_LIMIT_S:.0f} s; {process.last_words()}")
        if not process.teller.has_started:
            raise ClusterError(f"{name} does not start: {process.last_words()}")
        return name

    def close(self, name: str) -> None:
        """Close a member (SIGTERM). Returns when it has ended by itself or was killed."""
        process = self._processes[name]
        self._ask_to_close(process)
        process.wait(ENDS_WITHIN_S)

    def close_all(self) -> None:
        """Close all members at once; none is started again."""
        self._end_restarts()
        asked = [self._processes[name] for name in self.names()]
        for process in asked:
            self._ask_to_close(process)
        for process in asked:
            process.wait(ENDS_WITHIN_S)

    def kill(self, name: str) -> None:
        """Kill a member (SIGKILL). Returns when the process has ended."""
        process = self._processes[name]
        if process.has_ended:
            return
        with self._told:
            process.was_killed = True
        killed_at_ms = self._recorder.now_ms()
        process.order(GuardOrder.KILL)
        process.wait(ENDS_WITHIN_S)
        if process.teller.has_started and not process.teller.has_closed:  # it may have ended before
            process.teller.killed(killed_at_ms)

    def expect_end(self, name: str) -> None:
        """Allow a member to end by itself: another process gets its instance id. Members with negative numbers always
        may."""
        self._processes[name].may_end = True

    # --- faults ----------------------------------------------------------------------------------------------

    def freeze(self, name: str) -> None:
        """Stop the process (SIGSTOP). Returns when it has stopped."""
        process = self._processes[name]
        process.freeze()
        process.teller.froze(self._recorder.now_ms())

    def thaw(self, name: str) -> None:
        """Let the process go on (SIGCONT)."""
        process = self._processes[name]
        if process.is_frozen:
            process.teller.thawed(self._recorder.now_ms())
            process.thaw()

    def slow(self, name: str, each_ms: int) -> None:
        """Have the member take this time for each record from now on; 0 for none."""
        self._order_work(name, each_ms=each_ms, is_stuck=False)

    def stick(self, name: str) -> None:
        """Have the member never finish the records of its current or next poll."""
        self._order_work(name, each_ms=0, is_stuck=True)

    def unstick(self, name: str) -> None:
        self._order_work(name, each_ms=0, is_stuck=False)

    def shift_clock(self, name: str, step_ms: int) -> None:
        """Shift the wall clock of the member; 0 ends the shift. For plans with `clock_may_jump`."""
        self._processes[name].teller.trusts_its_clock = False
        write_shift(self._directory / name / "clock", step_ms)

    # --- state -----------------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """The names of the members that run, also of frozen ones, in the order in which they started."""
        with self._told:
            return tuple(name for name, process in self._processes.items() if not process.has_ended)

    def running(self, number: int) -> str | None:
        """The last incarnation of a member, if it runs."""
        of_number = (name for name in self.names() if self._plans[name].number == number)
        return max(of_number, key=list(self._plans).index, default=None)

    def has_ended(self, name: str) -> bool:
        return self._processes[name].has_ended

    def plan(self, name: str) -> MemberPlan:
        return self._plans[name]

    def pid(self, name: str) -> int | None:
        """The process id of the member; None if it has ended."""
        return self._processes[name].pid

    def owned(self, name: str) -> frozenset[TopicPartition]:
        """The partitions of the member, by its own lines."""
        return self._processes[name].teller.owned

    def is_at(self, name: str, moment: str) -> bool:
        """Whether the member is at one of the moments of catching up."""
        return self._processes[name].teller.moments.is_at(moment)

    def stderr(self, name: str) -> Path:
        """The file with the member's log."""
        return self._processes[name].stderr

    def memory(self) -> tuple[MemorySample, ...]:
        """The memory of each member, about every second."""
        return self._sampler.samples

    def wait_settled(self, partitions: Collection[TopicPartition], timeout_s: float) -> bool:
        """Wait until each of these has exactly one owner among the members that run and are not frozen. Returns whether
        that came in time."""
        wanted = sorted(partitions)
        return self.wait(lambda: self._owned_by_all() == wanted, timeout_s)

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition holds, which is checked after each line of any member. Returns whether it did in
        time."""
        with self._told:
            return self._told.wait_for(condition, timeout_s)

    # -----------------------------------------------------------------------------------------------------------

    def _new_name(self, plan: MemberPlan) -> str:
        kind, number = ("member", plan.number) if plan.number >= 0 else ("twin", -1 - plan.number)
        with self._told:
            self._incarnations[plan.number] += 1
            name = f"{kind}{number}.{self._incarnations[plan.number]}"
            self._plans[name] = plan
        return name

    def _command(self, name: str, plan: MemberPlan) -> list[str]:
        """The command of a member; writes the files that it names."""
        directory = self._directory / name
        directory.mkdir(parents=True)
        config, clock = directory / "member.properties", directory / "clock"
        settings = plan.file_settings(name)
        if self._truststore is not None:
            settings |= member_settings(plan.client, self._truststore)
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = plan.command(
            bootstrap_servers=self._bootstrap_servers,
            group_id=self._group_id,
            config=config,
            orders=directory / "orders.json",
        )
        if not plan.clock_may_jump:
            return command
        if self._faketime is None:
            raise ClusterError(f"shifting a member's clock needs libfaketime; {HOW_TO_INSTALL}")
        write_shift(clock, 0)
        return with_shifted_clock(command, self._faketime, clock)

    def _new_teller(self, name: str, plan: MemberPlan) -> Teller:
        def started(at_ms: float) -> Started:
            return Started(
                at_ms=at_ms,
                member=name,
                session_timeout_ms=float(plan.settings.session_timeout_ms),
                knows_session=False,  # some clients know it, but go on until a broker tells them, as Java's does
                commits_by_itself=plan.committing == "auto",
                catches_up_from=CATCHES_UP_FROM if plan.catches_up else 0,
            )

        return Teller(name, self._recorder, started, plan.closes_within_ms)

    def _ask_to_close(self, process: MemberProcess) -> None:
        with self._told:
            process.was_asked_to_close = True
        if process.is_frozen:  # the guard lets a stopped process go on before it ends it
            self.thaw(process.name)
        process.order(GuardOrder.TERMINATE)

    def _hear(self, name: str) -> None:
        """Called by a reader's thread after a line or the end of a process."""
        with self._told:
            process = self._processes[name]
        if process.has_ended:
            self._judge_end(process)
        with self._told:
            self._told.notify_all()

    def _judge_end(self, process: MemberProcess) -> None:
        """Record a violation if a process has ended in a wrong way. It has to have closed unless it was killed, and it
        has to have been asked to close, unless it may end by itself or is started again."""
        if process.was_killed or not process.teller.has_started:
            return
        if not process.teller.has_closed:
            process.teller.killed(self._recorder.now_ms())
            what = "did not close when asked to" if process.was_asked_to_close else "ended without a word"
            self._recorder.violate("ended", f"{process.name} {what}: {process.last_words()}")
        elif process.was_asked_to_close or process.may_end:
            return
        elif self._plans[process.name].comes_back:
            self._restart(process)
        else:
            self._recorder.violate("ended", f"{process.name} closed without being asked to: {process.last_words()}")

    def _restart(self, process: MemberProcess) -> None:
        """Record that a member has ended by an error, and start it again after a while."""
        words, plan = process.last_words(), self._plans[process.name]
        self._recorder.note(
            lambda at_ms: Raised(at_ms=at_ms, member=process.name, call="run", error="ended", message=words)
        )
        with self._told:
            if not self._is_closing:
                thread = threading.Thread(target=self._start_again, args=(plan,), name=f"restart of {process.name}")
                self._restarts.append(thread)
                thread.start()

    def _start_again(self, plan: MemberPlan) -> None:
        """Thread: start the member again, unless an injector has replaced it meanwhile."""
        if self.wait(lambda: self._is_closing, RESTART_PAUSE_S) or self.running(plan.number):
            return
        try:
            self.start(plan)
        except ClusterError as error:
            self._recorder.violate("ended", str(error))

    def _end_restarts(self) -> None:
        """Wait for members that are being started, so that they can be ended."""
        with self._told:
            self._is_closing = True
            self._told.notify_all()
        for thread in self._restarts:
            thread.join()

    def _owned_by_all(self) -> list[TopicPartition]:
        awake = (process for process in self._processes.values() if not (process.has_ended or process.is_frozen))
        return sorted(partition for process in awake for partition in process.teller.owned)

    def _order_work(self, name: str, *, each_ms: int, is_stuck: bool) -> None:
        """Write orders for the member. The file is replaced by a rename, so that the member never reads half of it."""
        part = self._directory / name / "orders.part"
        part.write_text(json.dumps({"each_ms": each_ms, "is_stuck": is_stuck}))
        part.rename(part.with_suffix(".json"))

    def _pids(self) -> dict[str, int]:
        found = {name: self._processes[name].pid for name in self.names()}
        return {name: pid for name, pid in found.items() if pid is not None}
