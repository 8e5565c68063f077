"""A scripted world: a story told in code, on the virtual clock, against the cluster in memory.

    def story(script: Script) -> None:
        script.cluster.create_topic("orders", 1, 3)
        consumer = script.consumer("orders")
        script.read(consumer, script.send("orders", 3))
        script.cluster.kill_broker(script.cluster.leader("orders", 0))
        script.recovers(2_000, lambda: script.read(consumer, script.send("orders", 1)))

    play(story)

The story is blocking code, as a user would write it, and its consumers are the very ones that users have. Where a
seed draws a world (`world.py`), a script does one thing at one moment and says what has to come of it. Called by tests.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import trio

from kwire.consumer.host import host_with
from kwire.consumer.sync import Consumer
from kwire.model import Record
from kwire.protocol.schema import Message, Request
from kwire.testing.cluster.batches import build_batch
from kwire.testing.cluster.control import Rule
from kwire.testing.cluster.releases import LATEST, release_named
from kwire.testing.cluster.request_context import RequestContext
from kwire.testing.cluster.settings import BrokerSettings
from kwire.testing.cluster.state import EPOCH_MS, ClusterState
from kwire.testing.simulation.blocking import run_blocking, sleep, wait_for
from kwire.testing.simulation.host import Process, Processes
from kwire.testing.simulation.listening import Serve, listener_at
from kwire.testing.simulation.scheduler import BOOTED_SECONDS_AGO, VirtualTime, run_deterministically
from kwire.testing.simulation.tampering import DiallingTransport, TamperedStream
from kwire.testing.simulation.transport import ClientTransport, Network

R = TypeVar("R", bound=Message)
BytesConsumer: TypeAlias = Consumer[bytes, bytes]

PORT = 9092
BROKER_SETTINGS: Mapping[str, object] = {
    "auto_create_topics_enable": False,
    "group_consumer_session_timeout_ms": 10_000,
    "group_consumer_heartbeat_interval_ms": 1_000,
}
# Shorter than the defaults, so that a story is not mostly waiting; metadata grows old as slowly as it does for users.
CONSUMER_SETTINGS: Mapping[str, object] = {
    "group_id": "scripted",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "max_poll_interval_ms": 15_000,
    "request_timeout_ms": 8_000,
    "default_api_timeout_ms": 15_000,
    "close_timeout_ms": 5_000,
}
CLASSIC_SETTINGS: Mapping[str, object] = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000}
# A look at what a condition says, and how long sockets may take to be gone when all is over.
LOOK_SECONDS = 0.005
SETTLING_SECONDS = 1.0
CLOSE_GRACE_MS = 150.0


class TimeToRecover(NamedTuple):
    """How long it took until all was well, and how long it may."""

    took_ms: float
    within_ms: float


class Script:
    """The operations of a story. Made by `play`.

    Attributes:
        dial_error: Raised by every dialling client while it is set: the machine has no sockets left.
        dials: The number of connection attempts.
        aliases: Further names of brokers' hosts, as DNS may have them.
        tamper: Makes other bytes of each frame that a broker sends. If they are fewer, the connection ends behind them.
    """

    network: Network
    _nursery: trio.Nursery

    def __init__(self, time: VirtualTime, cluster: ClusterState, seed: int) -> None:
        self.time = time
        self.cluster = cluster
        self.rng = random.Random(f"script {seed}")
        self.dial_error: OSError | None = None
        self.dials = 0
        self.aliases: dict[str, str] = {}
        self.tamper: Callable[[bytes], bytes] | None = None
        self.recoveries: list[TimeToRecover] = []
        self._processes = Processes()
        self._made: list[Process] = []
        self._consumers: list[tuple[Process, BytesConsumer]] = []
        self._endings: list[Callable[[], None]] = []
        self._problems: list[str] = []
        self._sent = 0

    # --- time -----------------------------------------------------------------------------------------------

    def now_ms(self) -> float:
        """The time since the story began."""
        return self.time.now_ms()

    def sleep(self, duration_ms: float) -> None:
        sleep(duration_ms / 1000.0)

    def until(self, condition: Callable[[], object], within_ms: float = 60_000.0) -> None:
        """Wait until the condition is true. Raises: AssertionError, if it is not in time."""
        deadline_ms = self.now_ms() + within_ms
        while not condition():
            assert self.now_ms() < deadline_ms, f"not within {within_ms:.0f} ms"
            sleep(LOOK_SECONDS)

    def took_ms(self, action: Callable[[], object]) -> float:
        """Perform an action. Returns how long it takes, in ms."""
        before_ms = self.now_ms()
        action()
        return self.now_ms() - before_ms

    def recovers(self, within_ms: float, action: Callable[[], object]) -> None:
        """The action, which is over when all is well again, takes no longer than that. Kept in `recoveries`."""
        recovery = TimeToRecover(self.took_ms(action), within_ms)
        self.recoveries.append(recovery)
        assert recovery.took_ms <= within_ms, f"took {recovery.took_ms:.1f} ms, may take {within_ms:.0f}"

    # --- clients --------------------------------------------------------------------------------------------

    def process(self) -> Process:
        """A client process that does nothing yet."""
        made = Process(f"client{len(self._made)}", self._on_death)
        made.transport = DiallingTransport(self, ClientTransport(self.network, made.name, made.while_frozen))
        self._made.append(made)
        self._processes.add(made)
        return made

    def start(self, process: Process, main: Callable[[], None]) -> None:
        """Run blocking code in it, beside the story. What it raises fails the story in the end."""
        self._nursery.start_soon(self._run, process, main)
        self.until(lambda: hasattr(process, "nursery"))

    async def _run(self, process: Process, main: Callable[[], None]) -> None:
        try:
            await process.run(main)
        except Exception as error:  # noqa: BLE001  told with all else that went wrong
            self._problems.append(f"{process.name} raised {_told(error)}")
            process.has_ended = True

    def consumer(self, *topics: str, **settings: object) -> BytesConsumer:
        """A consumer for the story, which need not close it; `settings` go above those for scripts."""
        process = self.process()
        self.start(process, partial(wait_for, trio.sleep_forever))
        made = self.consumer_in(process, *topics, **settings)
        self.at_end(partial(self._close, process, made))
        return made

    def consumer_in(self, process: Process, *topics: str, **settings: object) -> BytesConsumer:
        """The same for what runs in that process, and has to close it."""
        given = {**CONSUMER_SETTINGS, "bootstrap_servers": self.bootstrap_servers, **settings}
        if given.get("group_protocol") != "consumer":
            given = {**CLASSIC_SETTINGS, **given}
        made: BytesConsumer = Consumer(*topics, config={**given, "client_id": process.name})
        self._consumers.append((process, made))
        return made

    def process_of(self, consumer: BytesConsumer) -> Process:
        return next(process for process, each in self._consumers if each is consumer)

    def kill(self, process: Process) -> None:
        """Kill the process, as SIGKILL does."""
        process.kill()
        self._abandon(process)
        self.network.end(process.name)

    def _abandon(self, process: Process) -> None:
        for owner, consumer in self._consumers:
            if owner is process:
                consumer._session.unclosed.detach()  # no finalizer of a dead process runs

    # --- records --------------------------------------------------------------------------------------------

    def send(self, topic: str, count: int = 1, partition: int = 0, *, codec: int = 0) -> list[bytes]:
        """Write this many records with unique values, as one batch. Returns the values."""
        values = [b"value%d" % number for number in range(self._sent, self._sent + count)]
        self._sent += count
        self.append(topic, partition, build_batch(values, timestamp_ms=self.cluster.wall_clock_ms(), codec=codec))
        return values

    def append(self, topic: str, partition: int, batch: bytes) -> None:
        """Write a batch of one's own."""
        found = self.cluster.partition(topic, partition)
        assert found is not None
        found.log.append(batch, found.leader_epoch, self.cluster.wall_clock_ms())
        self.cluster.changed.notify(found.key)

    def read(
        self, consumer: BytesConsumer, values: Sequence[bytes], within_ms: float = 60_000.0
    ) -> list[Record[bytes, bytes]]:
        """Poll until all of these have come, each once, and nothing else. Raises: AssertionError; what poll raises."""
        wanted, records = Counter(values), list[Record[bytes, bytes]]()
        deadline_ms = self.now_ms() + within_ms
        while wanted:
            left_ms = deadline_ms - self.now_ms()
            assert left_ms > 0, f"{sorted(wanted)[:5]} did not come within {within_ms:.0f} ms"
            for record in consumer.poll(min(left_ms, 1_000.0) / 1000.0):
                value = record.value or b""
                assert value in wanted, f"{value!r} at {record.topic_partition}@{record.offset} came"
                wanted -= Counter((value,))
                records.append(record)
        return records

    # --- answers --------------------------------------------------------------------------------------------

    def edit(
        self,
        request: type[Request[R]],
        change: Callable[[R], None],
        *,
        times: int | None = None,
        where: Callable[[Request[R], RequestContext], bool] | None = None,
    ) -> Rule:
        """Let brokers do what they are asked, and answer with what `change` makes of their answer."""
        return self.cluster.control.on(request, times=times, where=where).edit(change)  # type: ignore[arg-type]  # it is what such a request is answered with

    # --- the beginning and the end --------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.cluster.brokers.values())

    def at_end(self, ending: Callable[[], None]) -> None:
        """Call it when the story has been told."""
        self._endings.append(ending)

    async def live(self, story: Callable[[Script], None]) -> None:
        """Tell the story, end what it began, and judge. Called by `play`.

        Raises:
            AssertionError: Something is left behind, or has broken; and whatever the story raises.
        """
        before, failure = host_with(self._processes.host()), None
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.network = Network(self.rng, nursery, self._accept)
                nursery.start_soon(self.cluster.run)
                try:
                    await run_blocking(partial(self._tell, story))
                except Exception as error:  # noqa: BLE001  raised below, without the nursery's wrapping
                    failure = error
                nursery.cancel_scope.cancel()
        finally:
            host_with(before)
            for process in self._made:
                self._abandon(process)
        if failure is not None:
            failure.add_note(f"at {self.now_ms():.1f} ms; {'; '.join(self._problems) or 'nothing else was wrong'}")
            raise failure

    def _tell(self, story: Callable[[Script], None]) -> None:
        story(self)
        for ending in self._endings:
            ending()
        sleep(SETTLING_SECONDS)
        self._judge()

    def _judge(self) -> None:
        problems = list(self._problems)
        problems += [f"the cluster failed: {error!r}" for error in self.cluster.failures]
        for process in self._made:
            problems += [f"{process.name}: {name} asked to be polled at once" for name in process.impatient()]
        if self.network.open_connections:
            problems.append(f"{self.network.open_connections} connections were left open")
        assert not problems, "; ".join(problems)

    def _close(self, process: Process, consumer: BytesConsumer) -> None:
        if process.is_killed:
            return
        took_ms = self.took_ms(consumer.close)
        if took_ms > consumer.config.close_timeout_ms + CLOSE_GRACE_MS:
            self._problems.append(f"{process.name} took {took_ms:.0f} ms to close")

    def _on_death(self, process: Process, error: BaseException) -> None:
        self._problems.append(f"the network side of {process.name} died: {_told(error)}")

    def _accept(self, host: str, port: int) -> Serve | None:
        return listener_at(self.cluster, self.aliases.get(host, host), port, partial(TamperedStream, self))


def play(
    story: Callable[[Script], None],
    *,
    brokers: int = 3,
    settings: Mapping[str, object] | None = None,
    release: str = LATEST.name,
    racks: Sequence[str] = (),
    seed: int = 1,
) -> Script:
    """Tell a story in a world of its own, end it, and judge it; the script, for what it has measured.

    Args:
        settings: Broker settings, above those for scripts.

    Raises:
        AssertionError: A connection is left open, a network side died, a loop was impatient, the cluster has failed, or
            close took too long; and whatever the story raises.
    """
    told: list[Script] = []

    async def live(time: VirtualTime) -> None:
        cluster = ClusterState(
            brokers,
            settings=BrokerSettings.of({**BROKER_SETTINGS, **(settings or {})}),
            release=release_named(release),
            racks=racks,
            seed=seed,
            epoch_ms=EPOCH_MS - BOOTED_SECONDS_AGO * 1000.0,
        )
        for broker in cluster.brokers.values():
            broker.host, broker.port = f"broker{broker.node_id}", PORT
        told.append(Script(time, cluster, seed))
        await told[0].live(story)

    run_deterministically(seed, live)
    return told[0]


def _told(error: BaseException) -> str:
    """An error, out of the groups that nurseries put around it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return repr(error)
