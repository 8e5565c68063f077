"""One Kafka node of a test cluster: its settings, its directory, its process.

`cluster` makes and controls the nodes. Each runs below a guard process (see `guard`), so that none outlives the program
that started it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.kafka.addresses import HOST
from kwire.testing.kafka.guard import GuardOrder, guarded
from kwire.testing.kafka.jars import ClusterError
from kwire.testing.kafka.probe import known_brokers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kwire.testing.kafka.addresses import Address
    from kwire.testing.kafka.jars import Checkpoint, Kafka

GRACE_S = 10.0  # a node without work stops in 0.3 s; one that has lost its quorum waits in vain
JVM_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1")  # the quick compiler alone: starts in 1.8 s instead of 2.4
LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    # These two classes log every setting at start, which would be most of a log.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
)


def node_settings(node_id: int, addresses: Sequence[Address], extra: Mapping[str, str]) -> dict[str, str]:
    """The settings in a node's properties file. `extra` takes precedence."""
    own = addresses[node_id]
    voters = [(i, peer.controller_port) for i, peer in enumerate(addresses) if peer.controller_port is not None]
    copies = str(min(len(addresses), 3))
    return {
        "node.id": str(node_id),
        "broker.rack": f"rack-{node_id}",
        "process.roles": "broker" if own.controller_port is None else "broker,controller",
        "controller.quorum.voters": ",".join(f"{i}@{HOST}:{port}" for i, port in voters),
        **listener_settings(own),
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "data",  # relative to the node's directory, where it is started
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "share.coordinator.state.topic.replication.factor": copies,
        # One replica may be missing, as in tests of a dead broker.
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # Kafka's default of 50 each is for large clusters; creating and loading them slows the first group down.
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.num.partitions": "5",
        # A killed broker's place is free again, and its partitions led by others, after 3 s instead of 9.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # A group starts at once, not after 3 s of waiting for more members.
        "group.initial.rebalance.delay.ms": "0",
        # Tests of dead members choose short session timeouts; Kafka refuses less than 6 s.
        "group.min.session.timeout.ms": "500",
        # The same for groups of the consumer protocol, where the broker decides: it wants 45 s at least, and a member
        # hears of a rebalance with its next heartbeat, every 5 s. Tests set a group's session timeout themselves.
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "500",
        "auto.create.topics.enable": "true",
        "log.retention.ms": "-1",
        # The default of 128 MB is a quarter of the heap given here.
        "log.cleaner.dedupe.buffer.size": "4194304",
        **extra,
    }


def listener_settings(own: Address) -> dict[str, str]:
    """The settings of listeners and advertised addresses."""
    listeners, advertised = [f"BROKER://{own}"], [f"BROKER://{own}"]
    if own.proxied is not None:
        listeners.append(f"CLIENT://{HOST}:{own.proxied.port}")
        advertised.append(f"CLIENT://{own.advertised}")
    client = "PLAINTEXT" if own.proxied is None else own.proxied.protocol
    first = ("BROKER:PLAINTEXT", f"CLIENT:{client}", "CONTROLLER:PLAINTEXT")
    for protocol, port in own.secured.items():
        listeners.append(f"{protocol}://{HOST}:{port}")
        advertised.append(f"{protocol}://{HOST}:{port}")
    if own.controller_port is not None:
        listeners.append(f"CONTROLLER://{HOST}:{own.controller_port}")
    return {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join([*first, *(f"{name}:{name}" for name in own.secured)]),
    }


def render_properties(settings: Mapping[str, str]) -> str:
    """A Java properties file."""
    for name, value in settings.items():
        if "\n" in name + value:
            raise ClusterError(f"a broker setting cannot hold a line break: {name}")
    return "".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items())


def new_id() -> str:
    """A Kafka uuid: 16 random bytes in URL-safe base64, not starting with a dash, which its tools take for a flag."""
    while (text := urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")).startswith("-"):
        pass
    return text


class KafkaNode:
    """A node: its directory and its process."""

    def __init__(
        self,
        directory: Path,
        address: Address,
        kafka: Kafka,
        *,
        jvm_options: Sequence[str],
        is_temporary: bool,
        class_path: Sequence[Path] = (),
    ) -> None:
        self.address = address
        self.directory = directory
        self.log = directory / "broker.log"
        self.is_paused = False
        self._kafka = kafka
        self._jvm_options = jvm_options
        self._class_path = tuple(class_path)
        self._is_temporary = is_temporary
        self._guard: subprocess.Popen[bytes] | None = None

    def format(self, node_id: int, cluster_id: str, settings: Mapping[str, str], checkpoint: Checkpoint) -> None:
        """Formats the storage of an empty node, as the format tool that has written this checkpoint would."""
        shutil.rmtree(self.directory, ignore_errors=True)
        data = self.directory / "data"
        data.mkdir(parents=True)
        checkpoint.write_to(data)
        meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": new_id()}
        (data / "meta.properties").write_text(render_properties(meta))
        (self.directory / "server.properties").write_text(render_properties(settings))

    def move(self, broker_port: int) -> None:
        """Gives a stopped node another port for clients; its port as a controller stays."""
        moved = replace(self.address, broker_port=broker_port)
        properties = self.directory / "server.properties"
        properties.write_text(properties.read_text().replace(f"BROKER://{self.address}", f"BROKER://{moved}"))
        self.address = moved

    def become(self, kafka: Kafka) -> None:
        """Sets the release that a stopped node has from its next start on."""
        self._kafka = kafka

    def start(self) -> None:
        """Starts the process; does not wait until it serves."""
        self.is_paused = False
        class_path = ":".join([*map(str, self._class_path), f"{self._kafka.libs}/*"])
        java = [str(self._kafka.java), *self._jvm_options, *LOG_OPTIONS, "-cp", class_path]
        remove = self.directory if self._is_temporary else None
        broker = [*java, "kafka.Kafka", "server.properties"]
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C in the terminal reaches only this process, which decides about brokers.
            self._guard = subprocess.Popen(
                guarded(broker, lock=Path("lock"), grace_s=GRACE_S, remove=remove),
                cwd=self.directory,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def known_brokers(self) -> frozenset[int]:
        """The brokers that the node names at each of its plain listeners; none while one of these does not answer."""
        proxied = self.address.proxied
        is_plain = proxied is None or proxied.protocol == "PLAINTEXT"
        ports = {self.address.broker_port, self.address.client_port if is_plain else self.address.broker_port}
        return frozenset.intersection(*(known_brokers(HOST, port) for port in ports))

    def order(self, order: GuardOrder) -> None:
        """Gives the guard an order. A guard that has ended ignores it."""
        if self._guard is None or self._guard.stdin is None or self._guard.stdin.closed:
            return
        try:
            os.write(self._guard.stdin.fileno(), order.value)
        except BrokenPipeError:
            return

    def pause(self) -> None:
        """Pauses the process, and waits until it has stopped: the guard may have to wait for a processor, and until
        then the broker would answer."""
        self.is_paused = True
        self.order(GuardOrder.PAUSE)
        deadline_s = time.monotonic() + GRACE_S
        while (running := running_processes(self.directory)) is not None and not is_stopped(running.broker):
            if time.monotonic() > deadline_s:
                raise ClusterError(f"the broker in {self.directory} does not stop; its guard is {running.guard}")
            time.sleep(0.001)

    def resume(self) -> None:
        """Ends `pause`."""
        self.is_paused = False
        self.order(GuardOrder.RESUME)

    def wait(self) -> None:
        """Waits until the process has ended. The guard kills one that does not end by itself."""
        if self._guard is None:
            return
        self._guard.wait(GRACE_S + 5)
        self._close()

    def detach(self) -> None:
        """Leaves the process running for good; `stop_detached` ends it."""
        self.order(GuardOrder.DETACH)
        self._close()
        if self._guard is not None:
            self._guard.returncode = 0  # or the garbage collector would warn that it still runs
        self._guard = None

    def _close(self) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()

    def has_logged(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def log_end(self) -> str:
        """The end of the log, for an error message."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(["its log ends:", *lines[-12:]])


@dataclass(frozen=True, slots=True)
class NodeProcesses:
    """Process ids of a running node."""

    guard: int
    broker: int


def running_processes(directory: Path) -> NodeProcesses | None:
    """The processes that run in a node's directory; None if its lock is free, which means that none does."""
    lock = directory / "lock"
    while is_locked(lock):
        text = lock.read_text()
        if text.endswith("\n"):  # else the guard is just starting: it is about to write the line, or to end
            guard, broker = text.split()
            return NodeProcesses(int(guard), int(broker))
        time.sleep(0.001)
    return None


def is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def is_stopped(pid: int) -> bool:
    """Whether SIGSTOP has reached the process; assumed where the system cannot tell."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "T"


def stop_detached(directories: Sequence[Path]) -> None:
    """Ends nodes that another process left running, by signals to their guards.

    All get the signal before one is waited for: a node that shuts down needs the others.
    """
    for directory in directories:
        # The lock was held a moment ago, so the process id has not been reused.
        if (running := running_processes(directory)) is not None:
            os.kill(running.guard, signal.SIGTERM)
    deadline_s = time.monotonic() + GRACE_S + 5
    for directory in directories:
        while (running := running_processes(directory)) is not None:
            if time.monotonic() > deadline_s:
                raise ClusterError(f"the broker in {directory} does not end; its guard is process {running.guard}")
            time.sleep(0.02)
