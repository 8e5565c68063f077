"""A small run with members, traffic and a judgement, for tests: on a cluster in this process, or on a real one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kwire.model import TopicPartition
from kwire.testing.faults.bounds import RunSettings
from kwire.testing.faults.broker_log import read_logs
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.member_plan import MemberPlan
from kwire.testing.faults.members import Members
from kwire.testing.faults.reconciliation import reconcile
from kwire.testing.faults.tally import Tally
from kwire.testing.faults.traffic import Traffic
from kwire.testing.invariants import check
from kwire.testing.invariants.ledger import Committed, Ended, FaultBegan, Polled, Quiet

TOPIC = "orders"
PARTITIONS = 4
ALL = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
SESSION_TIMEOUT_MS = 4_000  # a busy machine must not expel anybody
SETTINGS = RunSettings(session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=100, max_poll_interval_ms=5_000)
DEADLINE_S = 30.0
POLL_INTERVAL_S = 0.005


def until(condition: Callable[[], bool]) -> None:
    """Returns when it holds. Fails after a while."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(POLL_INTERVAL_S)


class Run:
    """Traffic, and the members that read it."""

    def __init__(self, bootstrap_servers: str, directory: Path) -> None:
        self.servers = bootstrap_servers
        self.recorder = Recorder()
        self.tally = Tally()
        self.recorder.listen(self.tally.take)
        self.members = Members(self.recorder, directory, self.servers)
        self.traffic = Traffic(self.recorder, self.servers, {TOPIC: PARTITIONS}, rate_per_second=400)

    def polled_by(self, name: str) -> int:
        return sum(len(event.offsets) for event in self.recorder.ledger.of(Polled) if event.member == name)

    def read_by(self, name: str) -> set[TopicPartition]:
        """The partitions that it has got records of."""
        return {event.partition for event in self.recorder.ledger.of(Polled) if event.member == name}

    def has_committed(self, name: str) -> bool:
        return any(event.member == name for event in self.recorder.ledger.of(Committed))

    def kill(self, name: str) -> None:
        """And say that something is wrong from now on."""
        self.recorder.note(lambda at_ms: FaultBegan(at_ms=at_ms, fault="consumer-kill", detail=name))
        self.members.kill(name)

    def end(self) -> list[str]:
        """Drained and judged: which rules were broken."""
        assert self.traffic.stop() == 0
        self.recorder.note(lambda at_ms: Quiet(at_ms=at_ms))
        logs = read_logs(self.servers, {TOPIC: PARTITIONS})
        assert reconcile(self.recorder, logs, unplaced=self.traffic.unplaced).lost_by_brokers == {}
        assert self.tally.wait_drained(DEADLINE_S)
        self.members.close_all()
        self.recorder.note(lambda at_ms: Ended(at_ms=at_ms))
        found = [*self.recorder.violations, *check(self.recorder.ledger)]
        return [str(violation) for violation in found]


def plan(client: str, protocol: str, number: int = 0) -> MemberPlan:
    return MemberPlan(
        number=number,
        client=client,
        protocol="classic" if protocol == "classic" else "consumer",
        topics=(TOPIC,),
        may_be_slow=True,
        settings=SETTINGS,
    )
