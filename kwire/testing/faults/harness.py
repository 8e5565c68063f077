"""The harness: it runs a schedule's faults against a real Kafka behind proxies, with a group of consumers and traffic;
then it heals all faults, has the group drain the topics, and judges the run.

    outcome = run(Order(schedule=parse(text), name="kwire"))
    print(verdict(summarize(outcome.run)))

Command line and tests call `run`. Everything that it has started is stopped when it returns or raises; if this process
is killed, guards stop it.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from kwire.errors import KafkaError
from kwire.model import TopicPartition
from kwire.testing.faults import report
from kwire.testing.faults.admin import Admin
from kwire.testing.faults.broker_log import read_logs
from kwire.testing.faults.catalogue import KINDS
from kwire.testing.faults.clock_shift import HOW_TO_INSTALL, find_faketime
from kwire.testing.faults.events import Recorder
from kwire.testing.faults.expectations import unmet
from kwire.testing.faults.kind import Need
from kwire.testing.faults.machine import Load
from kwire.testing.faults.member_plan import MemberPlan
from kwire.testing.faults.members import Members
from kwire.testing.faults.order import Progress, RunOrder, RunOutcome, expected
from kwire.testing.faults.proxies import toxiproxy_server
from kwire.testing.faults.proxies.chain import ProxiedBrokers
from kwire.testing.faults.reconciliation import reconcile
from kwire.testing.faults.rules import check as check_schedule
from kwire.testing.faults.schedule_text import render
from kwire.testing.faults.secured import SECURITY, unreadable
from kwire.testing.faults.tally import Tally
from kwire.testing.faults.testbed import GROUP_ID, Testbed
from kwire.testing.faults.timetable import Timetable
from kwire.testing.faults.topic_settings import REPLICAS, TOPIC_SETTINGS, broker_settings, storage_of
from kwire.testing.faults.traffic import Traffic
from kwire.testing.invariants import check
from kwire.testing.invariants.ledger import Ended, Event, FaultBegan, FaultEnded, Quiet
from kwire.testing.invariants.recovery import RECOVERY_MS
from kwire.testing.kafka import KafkaCluster
from kwire.testing.kafka.jars import KAFKA_VERSION, cache_dir
from kwire.version import __version__

TICK_S = 0.25
# A group that is not complete by then is judged as it is.
SETTLING_S = 30.0
# As is one that has not read by then the records that were sent meanwhile.
CATCHING_UP_S = 15.0
# How long schedules give the group before their first fault; if it takes longer, the faults come later.
ALLOWED_TO_SETTLE_MS = 5_000.0
STARTING_AT_ONCE = 4
RECORD_BYTES = 100


class FaultsError(KafkaError):
    """The run could not be carried out, which says nothing about the consumers."""


Watch = Callable[[Progress], None]


def run(order: RunOrder, watch: Watch = lambda _progress: None) -> RunOutcome:
    """Carry out a run and judge it. `watch` is called with its progress, a few times a second.

    Raises:
        ScheduleError: the schedule is invalid.
        FaultsError: the run cannot be carried out on this machine, or a fault could not be injected.
        ClusterError: Kafka, a proxy or a member cannot be started.
    """
    check_schedule(order.schedule)
    _refuse_what_cannot_be(order)
    logs = Path(tempfile.mkdtemp(prefix="kwire-faults-"))
    try:
        with ExitStack() as stack:
            performance = _Performance(order, watch, stack.enter_context(_testbed(order, logs, watch)))
            return performance.give(logs)
    except BaseException:
        shutil.rmtree(logs, ignore_errors=True)
        raise


def _refuse_what_cannot_be(order: RunOrder) -> None:
    """Raises: FaultsError, for faults that are not possible on this machine, or over TLS."""
    if Need.LIBFAKETIME in order.schedule.needs and find_faketime() is None:
        raise FaultsError(f"this schedule needs {Need.LIBFAKETIME.value}; {HOW_TO_INSTALL}")
    if order.secured and (kinds := unreadable(order.schedule)):
        raise FaultsError(
            f"a secured run cannot have {', '.join(kinds)}: proxies cannot read answers that are encrypted; "
            "leave these out, or run it without security"
        )


@contextmanager
def _testbed(order: RunOrder, logs: Path, watch: Watch) -> Iterator[Testbed]:
    """The testbed, running, without members and traffic."""
    schedule = order.schedule
    watch(Progress(phase="starting Kafka"))
    with (
        ProxiedBrokers(schedule.brokers, cache=cache_dir(), is_encrypted=order.secured) as proxies,
        KafkaCluster(
            schedule.brokers,
            advertised=proxies.addresses,
            settings=broker_settings(schedule, secured=order.secured),
            security=SECURITY if order.secured else None,
            storage_of=storage_of(schedule),
        ) as cluster,
    ):
        proxies.lead_to(cluster.client_addresses)
        admin = Admin(cluster.direct_servers, cluster.addresses, GROUP_ID)
        topics = {topic.name: topic.partitions for topic in schedule.topics}
        for name, partitions in topics.items():
            admin.topics.create(name, partitions, replicas=min(REPLICAS, schedule.brokers), settings=TOPIC_SETTINGS)
        admin.group.coordinator()  # creates __consumer_offsets, for which the first member would wait
        recorder = Recorder()
        with (
            Members(
                recorder,
                logs,
                cluster.bootstrap_servers,
                group_id=GROUP_ID,
                truststore=cluster.certificates.path if order.secured else None,
            ) as members,
            Traffic(
                recorder,
                cluster.direct_servers,
                topics,
                rate_per_second=schedule.rate_per_second,
                size_bytes=RECORD_BYTES,
            ) as traffic,
        ):
            yield Testbed(
                schedule=schedule,
                recorder=recorder,
                cluster=cluster,
                proxies=proxies,
                admin=admin,
                members=members,
                traffic=traffic,
                topics=topics,
            )


class _AtWork:
    """The faults that are active now, without momentary ones; a listener of the recorder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[str] = []

    @property
    def faults(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._faults)

    def take(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, FaultBegan) and KINDS[event.fault].lasting is not None:
                self._faults.append(event.fault)
            elif isinstance(event, FaultEnded) and event.fault in self._faults:
                self._faults.remove(event.fault)


class _Performance:
    """One run on a testbed, from the start of the first member to the judgement."""

    def __init__(self, order: RunOrder, watch: Watch, testbed: Testbed) -> None:
        self._order = order
        self._watch = watch
        self._testbed = testbed
        self._load = Load()
        self._tally = Tally()
        self._at_work = _AtWork()
        testbed.recorder.listen(self._tally.take)
        testbed.recorder.listen(self._at_work.take)

    def give(self, logs: Path) -> RunOutcome:
        self._gather()
        self._strike()
        notes = self._drain()
        self._end()
        return RunOutcome(run=self._judge(), notes=notes, logs=logs)

    def _gather(self) -> None:
        """Wait until the group is complete and reads: only then can a recovery be measured."""
        testbed = self._testbed
        plans = [MemberPlan.of(number, testbed.schedule) for number in range(testbed.schedule.member_count)]
        self._tell("starting members")
        with ThreadPoolExecutor(STARTING_AT_ONCE) as pool:
            list(pool.map(testbed.members.start, plans))
        testbed.traffic.start()
        self._tell("joining")
        partitions = [
            TopicPartition(topic, number) for topic, count in testbed.topics.items() for number in range(count)
        ]
        if testbed.members.wait_settled(partitions, SETTLING_S):
            self._tell("catching up")
            self._tally.wait_reached(self._tally.marks(), CATCHING_UP_S)

    def _strike(self) -> None:
        """Carry out the schedule, until all of its faults are healed."""
        late_ms = max(0.0, self._testbed.recorder.now_ms() - ALLOWED_TO_SETTLE_MS)
        timetable = Timetable(self._testbed, late_ms=late_ms)
        timetable.start()
        try:
            ends_ms = self._testbed.schedule.end_ms + late_ms
            while self._testbed.recorder.now_ms() < ends_ms or not timetable.is_over:
                self._tell("running")
                self._load.look()
                time.sleep(TICK_S)
                if timetable.failures:
                    raise FaultsError("; ".join(timetable.failures))
        finally:
            timetable.stop()
        if timetable.failures:
            raise FaultsError("; ".join(timetable.failures))

    def _drain(self) -> tuple[str, ...]:
        """Wait until every record in a log is polled: no fault is left, and sending has ended."""
        testbed, recorder = self._testbed, self._testbed.recorder
        testbed.proxies.heal()
        unacknowledged = testbed.traffic.stop()
        recorder.note(lambda at_ms: Quiet(at_ms=at_ms))
        quiet_ms = recorder.now_ms()
        self._tell("reading the brokers' logs")
        is_careful = any(members.read_committed for members in testbed.schedule.members)
        found = read_logs(testbed.cluster.direct_servers, testbed.topics, read_committed=is_careful)
        reconciled = reconcile(recorder, found, compacted=testbed.compacted, unplaced=testbed.traffic.unplaced)
        patience_ms = testbed.schedule.settings.session_timeout_ms + RECOVERY_MS
        while not self._tally.is_drained and recorder.now_ms() < quiet_ms + patience_ms:
            self._tell("draining")
            self._tally.wait_drained(TICK_S)
        told = [f"{unacknowledged} records were never acknowledged"] if unacknowledged else []
        return (*self._load.notes, *told, *reconciled.notes)

    def _end(self) -> None:
        self._tell("closing")
        self._testbed.members.close_all()
        self._testbed.recorder.note(lambda at_ms: Ended(at_ms=at_ms))

    def _judge(self) -> report.FaultRun:
        order, recorder = self._order, self._testbed.recorder
        ledger = recorder.ledger
        found = [*check(ledger), *recorder.violations, *unmet(ledger, order.expects)]
        return report.FaultRun(
            name=order.name,
            title=order.schedule.title,
            ledger=ledger,
            violations=tuple(sorted(found, key=lambda violation: violation.at_ms)),
            expected=expected(order),
            memory=tuple(self._testbed.members.memory()),
            schedule=render(order.schedule),
            replay=order.replay,
            versions=versions(),
        )

    def _tell(self, phase: str) -> None:
        self._watch(
            Progress(
                phase=phase,
                at_ms=self._testbed.recorder.now_ms(),
                sent=self._tally.sent,
                polled=self._tally.polled,
                unread=sum(self._tally.unread().values()),
                members=len(self._testbed.members.names()),
                faults=self._at_work.faults,
            )
        )


def versions() -> Mapping[str, str]:
    """The versions of all software that takes part."""
    return {
        "kwire": __version__,
        "confluent-kafka": version("confluent-kafka"),
        "Kafka": KAFKA_VERSION,
        "toxiproxy": toxiproxy_server.VERSION,
        "Python": python_version(),
    }
