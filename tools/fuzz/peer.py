"""`scripts/fuzz peer`: real consumers against a hostile peer, a great many times, and how each of them gets over it.

    scripts/fuzz peer --count 10000 --seed 7

Each case draws a misbehaviour, the API whose answers it is about, how often it happens, when it begins, and what the
consumer does: read an assigned partition, or a group by either protocol. The consumer polls; after a while the peer
behaves well again, and writes a record. That has to come in time, or poll() has to go on raising what is wrong. Nothing
but a KafkaError may be raised, and no InternalError, which says that the network thread has died of a bug; close() has
to return, and the process may not grow beyond its bound.

Prints a table by kind. Exit codes: 0 nothing found; 1 findings; 2 wrong usage. `--only KIND` runs that kind alone.
"""

from __future__ import annotations

import argparse
import gc
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kwire import Consumer
from kwire.errors import InternalError, KafkaError
from kwire.model import TopicPartition
from kwire.network import connection
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.fetch import FetchRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.leave_group import LeaveGroupRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.offset_commit import OffsetCommitRequest
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest
from tools.fuzz.memory import peak_bytes, start_over
from tools.fuzz.misbehaviours import KINDS
from tools.fuzz.peer_process import PeerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.model import Record
    from tools.fuzz.misbehaviours import Api

MISBEHAVES_S = 0.2
# A join that nobody answers is given up after 6 s, and the next may wait as long for the member that is none.
RECOVERY_S = 20.0
CLOSE_S = 1.0
CLOSE_MARGIN_S = 2.0
MAX_BYTES = 400 << 20
"""What a process may grow by: a message of 256 MiB in objects, and its frame."""

ERRORS_IN_A_ROW = 3
SHOWN_FINDINGS = 20
CHUNK = 50

SETTINGS: dict[str, object] = {
    "auto_offset_reset": "earliest",
    "request_timeout_ms": 400,
    "max_poll_interval_ms": 1_000,
    "fetch_max_wait_ms": 50,
    "metadata_max_age_ms": 100,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 50,
    "default_api_timeout_ms": 1_000,
    "auto_commit_interval_ms": 50,
    "socket_connection_setup_timeout_ms": 500,
}
CLASSIC: dict[str, object] = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 50}
THROTTLED_MS = 300  # instead of a minute, which no setting shortens

_ALWAYS: tuple[Api, ...] = (ApiVersionsRequest, MetadataRequest, FetchRequest, ListOffsetsRequest)
_GROUP: tuple[Api, ...] = (FindCoordinatorRequest, OffsetFetchRequest, OffsetCommitRequest)
_CLASSIC: tuple[Api, ...] = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest)
APIS: dict[str, tuple[Api, ...]] = {
    "assigned": (*_ALWAYS, FetchRequest, MetadataRequest),
    "classic": (*_ALWAYS, *_GROUP, *_CLASSIC),
    "consumer": (*_ALWAYS, *_GROUP, ConsumerGroupHeartbeatRequest),
}
RUNNING: tuple[Api, ...] = (
    *(MetadataRequest, FetchRequest, OffsetCommitRequest),
    *(HeartbeatRequest, ConsumerGroupHeartbeatRequest),
)
"""What a consumer that reads sends again and again."""

CLOSING: tuple[Api, ...] = (LeaveGroupRequest, OffsetCommitRequest, ConsumerGroupHeartbeatRequest, FetchRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What happens in one run. `times` is None for as long as the peer misbehaves."""

    number: str
    kind: str
    api: Api
    protocol: str
    phase: str
    times: int | None

    def __str__(self) -> str:
        often = "while it lasts" if self.times is None else f"{self.times} times"
        return f"{self.number} {self.kind} {self.api.__name__} {self.protocol} {self.phase} {often}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one run went. `finding` says what was not as it has to be."""

    case: Case
    end: str
    met: int = 0
    errors: tuple[str, ...] = ()
    seconds: float = 0.0
    grown_bytes: int = 0
    finding: str = ""

    def __str__(self) -> str:
        told = "; ".join(dict.fromkeys(self.errors)) or "no error"
        return (
            f"{self.case}: {self.finding or self.end}, {self.seconds:.1f} s, {self.grown_bytes >> 20} MiB: {told[:600]}"
        )


@dataclass(slots=True)
class Report:
    """What became of all cases."""

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def findings(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.finding]

    def lines(self) -> list[str]:
        counts = f"{'cases':>7}{'met':>7}{'got over':>10}{'told':>7}{'hangs':>7}"
        head = f"{'kind':20}{counts}{'longest':>10}{'most memory':>13}"
        kinds = sorted({outcome.case.kind for outcome in self.outcomes})
        rows = [self._row(kind, [one for one in self.outcomes if one.case.kind == kind]) for kind in kinds]
        errors = Counter(error.split(":")[0] for outcome in self.outcomes for error in outcome.errors)
        told = ", ".join(f"{name} {count}" for name, count in errors.most_common())
        return [head, *rows, self._row("all", self.outcomes), f"errors told: {told}"]

    @staticmethod
    def _row(name: str, outcomes: list[Outcome]) -> str:
        ends = Counter(outcome.end for outcome in outcomes)
        met = sum(outcome.met > 0 for outcome in outcomes)
        longest = max((outcome.seconds for outcome in outcomes), default=0.0)
        most = max((outcome.grown_bytes for outcome in outcomes), default=0) >> 20
        counts = f"{len(outcomes):>7}{met:>7}{ends['got over']:>10}{ends['told']:>7}{ends['hang']:>7}"
        return f"{name:20}{counts}{longest:>8.1f} s{most:>9} MiB"


def draw(number: str, only: Sequence[str] = ()) -> Case:
    """The case of that number, which decides everything random."""
    rng = random.Random(number)
    while True:
        protocol = rng.choice(tuple(APIS))
        phase = rng.choice(("starting", "starting", "running", "closing"))
        apis: Sequence[Api] = APIS[protocol]
        if phase != "starting":
            apis = [api for api in (RUNNING if phase == "running" else CLOSING) if api in (*apis, LeaveGroupRequest)]
        api, kind = rng.choice(apis), KINDS[rng.choice(tuple(only or KINDS))]
        if kind.apis is None or api in kind.apis:
            times = rng.choice((1, 1, 2, 5, None))
            return Case(number=number, kind=kind.name, api=api, protocol=protocol, phase=phase, times=times)


class Run:
    """One case under way."""

    def __init__(self, peer: PeerProcess, case: Case, settings: dict[str, object]) -> None:
        self._peer = peer
        self._case = case
        self._topic = f"t-{case.number.replace('/', '-')}"
        self._errors: list[str] = []
        self._in_a_row = 0
        self._met = 0
        self._settings = settings

    def run(self) -> Outcome:
        self._peer.order("begin", self._topic)
        start_over()
        before_bytes, started = peak_bytes(), time.monotonic()
        try:
            end, finding = self._live()
        except Exception as error:  # noqa: BLE001 - which class it is, is the question
            end, finding = "crash", f"{type(error).__name__}: {error}"
        seconds, grown_bytes = time.monotonic() - started, peak_bytes() - before_bytes
        self._peer.order("end", self._topic)
        if not finding and grown_bytes > MAX_BYTES:
            finding = "too much memory"
        return Outcome(
            case=self._case,
            end=end,
            met=self._met,
            errors=tuple(self._errors),
            seconds=seconds,
            grown_bytes=grown_bytes,
            finding=finding,
        )

    def _live(self) -> tuple[str, str]:
        if self._case.phase == "starting":
            self._arm()
        consumer = self._consumer()
        try:
            end = self._read(consumer)
        finally:
            closing = time.monotonic()
            self._guarded(partial(consumer.close, timeout=CLOSE_S))
            took_s = time.monotonic() - closing
            if self._case.phase == "closing":
                self._calm()
        if took_s > CLOSE_S + CLOSE_MARGIN_S:
            return end, f"close took {took_s:.1f} s"
        return end, "hang" if end == "hang" else ""

    def _consumer(self) -> Consumer[bytes, bytes]:
        settings = dict(self._settings)
        if self._case.protocol != "assigned":
            settings |= {"group_id": self._topic, "group_protocol": self._case.protocol}
        if self._case.protocol == "classic":
            settings |= CLASSIC
        consumer: Consumer[bytes, bytes] = Consumer(config=settings)
        if self._case.protocol == "assigned":
            consumer.assign([TopicPartition(self._topic, 0)])
        else:
            consumer.subscribe([self._topic])
        return consumer

    def _read(self, consumer: Consumer[bytes, bytes]) -> str:
        if self._case.phase != "starting":
            if not self._until(consumer, b"first"):
                return "hang"
            self._arm()
        if self._case.phase == "closing":
            return "got over"
        until = time.monotonic() + MISBEHAVES_S
        while time.monotonic() < until:
            self._guarded(lambda: consumer.poll(0.02))
        self._calm()
        self._in_a_row = 0
        if self._until(consumer, b"last"):
            return "got over"
        return "told" if self._in_a_row >= ERRORS_IN_A_ROW else "hang"

    def _until(self, consumer: Consumer[bytes, bytes], value: bytes) -> bool:
        """Poll until that record comes, or errors come one after the other."""
        deadline = time.monotonic() + RECOVERY_S
        while time.monotonic() < deadline and self._in_a_row < ERRORS_IN_A_ROW:
            records = self._guarded(lambda: consumer.poll(0.2))
            if records is not None and value in [record.value for record in records]:
                return True
        return False

    def _guarded(self, call: Callable[[], object]) -> list[Record[bytes, bytes]] | None:
        try:
            found = call()
        except InternalError:
            raise
        except KafkaError as error:
            self._errors.append(f"{type(error).__name__}: {error}")
            self._in_a_row += 1
            return None
        self._in_a_row = 0 if found else self._in_a_row
        return list(found) if found else None  # type: ignore[call-overload]

    def _arm(self) -> None:
        case = self._case
        self._peer.order("arm", case.kind, case.api, case.times, case.number)

    def _calm(self) -> None:
        self._met = cast("int", self._peer.order("calm", self._topic, KINDS[self._case.kind].is_a_lie))


def fuzz(numbers: Sequence[str], only: Sequence[str] = (), *, tls: bool = False) -> list[Outcome]:
    """Run the cases of these numbers against one peer."""
    logging.disable(logging.CRITICAL)
    before_ms, connection.MAX_THROTTLED_MS = connection.MAX_THROTTLED_MS, THROTTLED_MS
    try:
        with tempfile.TemporaryDirectory() as folder, PeerProcess(_certificate(folder) if tls else None) as peer:
            settings = {**SETTINGS, "bootstrap_servers": peer.order("where")}
            if tls:
                settings |= {"security_protocol": "SSL", "ssl_truststore_location": f"{folder}/ca.pem"}
            outcomes = []
            for number in numbers:
                outcomes.append(Run(peer, draw(number, only), settings).run())
                gc.collect()
            return outcomes
    finally:
        connection.MAX_THROTTLED_MS = before_ms
        logging.disable(logging.NOTSET)


def _certificate(folder: str) -> str:
    """Makes a certificate for the peer, and one of who has signed it for the consumers."""
    trustme = import_module("trustme")  # only TLS needs it

    authority = trustme.CA()
    authority.cert_pem.write_to_path(f"{folder}/ca.pem")
    path = Path(folder) / "peer.pem"
    authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(path)
    return str(path)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz peer", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000, help="cases (1,000)")
    parser.add_argument("--seed", type=int, default=1, help="decides everything random (1)")
    parser.add_argument("--case", help="run the one case of this number, such as 1/17, that a finding names")
    parser.add_argument(
        "--only", action="append", default=[], choices=sorted(KINDS), help="this kind alone; repeatable"
    )
    parser.add_argument("--processes", type=int, default=2, help="so many at a time (2)")
    parser.add_argument("--tls", action="store_true", help="speak TLS")
    chosen = parser.parse_args(arguments)
    if chosen.count < 1 or chosen.processes < 1:
        parser.error("--count and --processes must be at least 1")
    numbers = [chosen.case] if chosen.case else [f"{chosen.seed}/{number}" for number in range(chosen.count)]
    started = time.monotonic()
    report = Report()
    processes = min(chosen.processes, len(numbers))
    with suppress(KeyboardInterrupt):  # Ctrl-C: what has been found so far
        for outcomes in run_all(numbers, chosen.only, tls=chosen.tls, processes=processes):
            report.outcomes += outcomes
            print(*(f"FOUND {outcome}\n" for outcome in outcomes if outcome.finding), file=sys.stderr, end="")
            print(f"{len(report.outcomes)} of {len(numbers)}, {len(report.findings)} findings", file=sys.stderr)
    print("\n".join(report.lines()))
    for outcome in report.findings[:SHOWN_FINDINGS]:
        print(f"FOUND {outcome}")
    seconds = time.monotonic() - started
    print(f"{len(report.outcomes)} cases, {len(report.findings)} findings, {seconds:.0f} s, seed {chosen.seed}")
    return 1 if report.findings else 0


def run_all(numbers: Sequence[str], only: Sequence[str], *, tls: bool, processes: int) -> Iterator[list[Outcome]]:
    """Some at a time, in processes of their own; those of a chunk share a peer."""
    chunks = [numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK)]
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        for done in as_completed([pool.submit(fuzz, chunk, only, tls=tls) for chunk in chunks]):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    sys.exit(main())
