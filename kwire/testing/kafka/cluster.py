"""KafkaCluster: a real Kafka cluster for tests and demos. Its brokers (KRaft) start in seconds and are always stopped.

    with KafkaCluster(brokers=3) as kafka:
        connect(kafka.bootstrap_servers)
        kafka.kill_broker(2)

Each cluster has a directory, ports and ids of its own, so any number of them may run at once. Brokers end with the
process that started them, even if it is killed.

With `advertised`, clients reach the brokers through proxies, which the caller starts:

    ports = free_ports(3)
    with KafkaCluster(3, advertised=[(HOST, port) for port in ports]) as kafka:
        for port, upstream in zip(ports, kafka.client_addresses, strict=True):
            start_proxy(port, upstream)
        connect(kafka.bootstrap_servers)  # the proxies'; around them: kafka.direct_servers
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.kafka.addresses import HOST, choose_addresses
from kwire.testing.kafka.guard import GuardOrder
from kwire.testing.kafka.jars import ClusterError, ensure_kafka, format_storage
from kwire.testing.kafka.node import JVM_OPTIONS, KafkaNode, new_id, node_settings
from kwire.testing.kafka.security import SECURED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from kwire.testing.certificates import CertificateAuthority
    from kwire.testing.kafka.jars import Checkpoint, Kafka
    from kwire.testing.kafka.security import Security

PORT_CLASH = "Address already in use"
START_ATTEMPTS = 3
START_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.02


class PortClashError(ClusterError):
    """Somebody took a port between choosing it and listening on it."""


class KafkaCluster:
    """A cluster of brokers, whose ids begin at 0. Use as a context manager, or call `start` and `stop`.

    The first broker is also a controller; with three or more brokers the first three are, so that any of them may die.

    Args:
        brokers: the number of brokers.
        directory: where data and logs go, kept after `stop` and emptied by `start`; by default a temporary one,
            removed by `stop`.
        version: the version of Kafka; by default that of `jars.kafka_version`.
        settings: broker settings, which are added to those of `node.node_settings` and take precedence over them.
        jvm_options: options of the brokers' JVMs.
        class_path: directories of classes that the settings name, such as plug-ins.
        advertised: the host and port of a proxy for each broker, which clients are told instead of the broker's own. By
            default there are no proxies.
        security: listeners with TLS and SASL beside the plain one, and their users; needs kwire[testing].
        storage_of: the release that formats the storage, which brokers of that release and of later ones can read: an
            older release if brokers are to change to it (`change_release`). By default `version`.

    Raises:
        ClusterError: there is no broker, or the numbers of proxies and brokers differ.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        directory: Path | None = None,
        version: str | None = None,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = JVM_OPTIONS,
        class_path: Sequence[Path] = (),
        advertised: Sequence[tuple[str, int]] = (),
        storage_of: str | None = None,
        security: Security | None = None,
    ) -> None:
        if brokers < 1:
            raise ClusterError(f"a cluster needs at least one broker, not {brokers}")
        if advertised and len(advertised) != brokers:
            raise ClusterError(f"each broker is advertised: {brokers} addresses, not {len(advertised)}")
        self._size = brokers
        self._wanted_directory = directory
        self._version = version
        self._settings = dict(settings or {})
        self._jvm_options = tuple(jvm_options)
        self._class_path = tuple(class_path)
        self._advertised = tuple(advertised)
        self._storage_of = storage_of
        self._security = security
        self._certificates: CertificateAuthority | None = None
        self._keystore = Path()
        self._nodes: list[KafkaNode] = []

    def __enter__(self) -> KafkaCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- the whole cluster -----------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The advertised addresses of all brokers, running or not: `host:port,host:port`."""
        return ",".join(node.address.advertised for node in self._nodes)

    def bootstrap(self, security_protocol: str) -> str:
        """The addresses of all brokers for a security protocol; those for PLAINTEXT are `bootstrap_servers`.

        Raises:
            ClusterError: the brokers have no listener with this protocol.
        """
        if security_protocol == "PLAINTEXT":
            return self.bootstrap_servers
        if self._security is None or security_protocol not in SECURED:
            known = ("PLAINTEXT", *(SECURED if self._security is not None else ()))
            raise ClusterError(f"the brokers speak {', '.join(known)}, not {security_protocol}; see `security`")
        return ",".join(f"{HOST}:{node.address.secured[security_protocol]}" for node in self._nodes)

    @property
    def certificates(self) -> CertificateAuthority:
        """The authority of the brokers' certificates, which issues certificates for clients.

        Raises:
            ClusterError: the cluster has none, or is not started.
        """
        if self._certificates is None:
            raise ClusterError("only a running cluster with `security` has certificates")
        return self._certificates

    def renew_certificate(self) -> None:
        """Replaces the brokers' certificate. A broker uses the new one after a restart.

        Raises:
            ClusterError: the cluster has none, or is not started.
        """
        new = self._issue_for_brokers()
        new.replace(self._keystore)

    @property
    def direct_servers(self) -> str:
        """The brokers' own addresses. A client that bootstraps from these bypasses the proxies."""
        return ",".join(str(node.address) for node in self._nodes)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The host and port of each broker: its own, as in `direct_servers`."""
        return tuple((HOST, node.address.broker_port) for node in self._nodes)

    @property
    def client_addresses(self) -> tuple[tuple[str, int], ...]:
        """The address at which each broker accepts clients: where a proxy connects to. Without proxies, as
        `addresses`."""
        return tuple((HOST, node.address.client_port) for node in self._nodes)

    @property
    def directory(self) -> Path:
        """The directory of the cluster: it has a directory for each broker, with its `broker.log`."""
        return self._nodes[0].directory.parent

    def start(self) -> None:
        """Starts all brokers and waits until each answers and knows all others.

        Raises:
            ClusterError: it cannot start; the message holds the end of the log. Nothing is left running.
        """
        kafka = ensure_kafka(self._version)
        for attempt in range(START_ATTEMPTS):
            try:
                self._start_once(kafka)
                return
            except PortClashError:
                self.stop()
                if attempt == START_ATTEMPTS - 1:
                    raise
            except BaseException:
                self.stop()
                raise

    def _start_once(self, kafka: Kafka) -> None:
        secured = SECURED if self._security is not None else ()
        proxied = self._security.proxied if self._security is not None else "PLAINTEXT"
        addresses = choose_addresses(self._size, self._advertised, secured, proxied)
        temporary = self._wanted_directory is None
        directory = self._wanted_directory or Path(tempfile.mkdtemp(prefix="kwire-kafka-"))
        self._nodes = [
            KafkaNode(
                directory / f"broker-{i}",
                at,
                kafka,
                jvm_options=self._jvm_options,
                is_temporary=temporary,
                class_path=self._class_path,
            )
            for i, at in enumerate(addresses)
        ]
        cluster_id, storage = new_id(), ensure_kafka(self._storage_of) if self._storage_of else kafka
        settings, checkpoint = {**self._secure(), **self._settings}, self._checkpoint(storage)
        for i, node in enumerate(self._nodes):
            node.format(i, cluster_id, node_settings(i, addresses, settings), checkpoint)
            node.start()
        self.wait_ready()

    def _secure(self) -> Mapping[str, str]:
        """Makes the certificates. Returns the brokers' settings of security."""
        if self._security is None:
            return {}
        from kwire.testing.certificates import CertificateAuthority

        self._certificates = CertificateAuthority()
        self._keystore = self._issue_for_brokers()
        return self._security.settings(keystore=self._keystore, truststore=self._certificates.path)

    def _issue_for_brokers(self) -> Path:
        hosts = self._security.hosts if self._security is not None else ()
        return self.certificates.issue("localhost", HOST, *hosts).path

    def _checkpoint(self, storage: Kafka) -> Checkpoint:
        """The checkpoint that each node's storage begins with: the release's own, or one with users."""
        if self._security is None or not self._security.users:
            return storage.checkpoint
        with tempfile.TemporaryDirectory(prefix="kwire-format-") as directory:
            return format_storage(storage.java, storage.libs, Path(directory), self._security.scram_options)

    def stop(self) -> None:
        """Stops every broker and removes a temporary directory. Does nothing when there is nothing to stop."""
        temporary = self._wanted_directory is None
        for node in self._nodes:
            node.order(
                GuardOrder.KILL if temporary else GuardOrder.TERMINATE
            )  # the data is deleted, so a clean shutdown is not needed
        for node in self._nodes:
            node.wait()
        if temporary and self._nodes:
            shutil.rmtree(self.directory, ignore_errors=True)
        self._nodes = []
        if self._certificates is not None:
            self._certificates.close()
            self._certificates = None

    def detach(self) -> None:
        """Leaves the brokers running when this process ends; see `node.stop_detached`."""
        for node in self._nodes:
            node.detach()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Waits until every broker that runs and is not paused answers and knows all such brokers.

        Raises:
            ClusterError: a broker has ended, or the time is over.
        """
        deadline_s = time.monotonic() + timeout_s
        wanted = {i: node for i, node in enumerate(self._nodes) if node.is_running and not node.is_paused}
        for i, node in wanted.items():
            while not node.known_brokers() >= wanted.keys():
                self._check_running(wanted)
                if time.monotonic() > deadline_s:
                    raise ClusterError(f"broker {i} is not ready after {timeout_s:.0f} s; {node.log_end()}")
                time.sleep(POLL_INTERVAL_S)

    def _check_running(self, wanted: Mapping[int, KafkaNode]) -> None:
        for i, node in wanted.items():
            if not node.is_running:
                problem = PortClashError if node.has_logged(PORT_CLASH) else ClusterError
                raise problem(f"broker {i} ended while starting; {node.log_end()}")

    # --- one broker ------------------------------------------------------------------------------------------

    def is_running(self, broker: int) -> bool:
        """Whether the broker runs; a paused one counts as running."""
        return self._nodes[broker].is_running

    def start_broker(self, broker: int) -> None:
        """Starts a stopped or killed broker again, with its data and at its old address, and waits until it answers."""
        node = self._nodes[broker]
        if node.is_running:
            raise ClusterError(f"broker {broker} is running already")
        node.start()
        self.wait_ready()

    def stop_broker(self, broker: int) -> None:
        """Shuts a broker down cleanly: leaders move away first."""
        self._end(broker, GuardOrder.TERMINATE)

    def kill_broker(self, broker: int) -> None:
        """Kills a broker, as a power failure would."""
        self._end(broker, GuardOrder.KILL)

    def restart_broker(self, broker: int) -> None:
        """`stop_broker`, then `start_broker`."""
        self.stop_broker(broker)
        self.start_broker(broker)

    def move_broker(self, broker: int, port: int) -> None:
        """Stops a broker and starts it again, with its data, at another port. The advertised address stays the same."""
        self.stop_broker(broker)
        self._nodes[broker].move(port)
        self.start_broker(broker)

    def change_release(self, broker: int, version: str | None = None) -> None:
        """Sets the release that a stopped broker has from its next start on; None for the cluster's.

        Raises:
            ClusterError: the broker runs, or the release cannot be downloaded.
        """
        if self.is_running(broker):
            raise ClusterError(f"broker {broker} runs: its release changes while it does not")
        self._nodes[broker].become(ensure_kafka(version or self._version))

    def pause_broker(self, broker: int) -> None:
        """Pauses a broker (SIGSTOP): its connections stay open, and it answers nothing."""
        self._nodes[broker].pause()

    def resume_broker(self, broker: int) -> None:
        """Ends `pause_broker`."""
        self._nodes[broker].resume()

    def _end(self, broker: int, order: GuardOrder) -> None:
        self._nodes[broker].order(order)
        self._nodes[broker].wait()
