"""Real Kafka clusters for tests, the demo and trying things out: N brokers (KRaft), up in seconds, always stopped.

    with KafkaCluster(brokers=3) as kafka:
        connect(kafka.bootstrap_servers)
        kafka.kill_broker(2)

Everything a cluster has is its own (directory, ports, ids), so any number run side by side. Its brokers end with the
process that started them, even when that is killed.

With `advertised`, clients reach the brokers by way of proxies, which the caller puts in between:

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
    """N brokers, numbered from 0. Use as a context manager, or call `start` and `stop`.

    The first is a controller too; with three or more brokers the first three are, so that any one of them may die.

    Args:
        brokers: how many.
        directory: where data and logs go, kept after `stop` and made anew by `start`; by default a temporary one,
            removed by `stop`.
        version: Kafka's; default as in `jars`.
        settings: broker settings that are added to, or win over, those of `node.node_settings`.
        jvm_options: options of the brokers' JVMs.
        class_path: directories of classes that the settings name, such as plug-ins.
        advertised: host and port of a proxy for each broker, which clients are told instead of the broker's own. By
            default there are none.
        security: listeners with TLS and SASL beside the plain one, and who gets in there; needs kwire[testing].
        storage_of: the release that lays out the storage, which brokers of that one and of later ones can read: an
            older one where brokers are to become that (`change_release`). By default `version`.

    Raises:
        ClusterError: fewer brokers than one, or not as many proxies as brokers.
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
        """All brokers as clients are told of them, running or not: `host:port,host:port`."""
        return ",".join(node.address.advertised for node in self._nodes)

    def bootstrap(self, security_protocol: str) -> str:
        """All brokers where they speak that security protocol; PLAINTEXT is `bootstrap_servers`.

        Raises:
            ClusterError: they do not.
        """
        if security_protocol == "PLAINTEXT":
            return self.bootstrap_servers
        if self._security is None or security_protocol not in SECURED:
            known = ("PLAINTEXT", *(SECURED if self._security is not None else ()))
            raise ClusterError(f"the brokers speak {', '.join(known)}, not {security_protocol}; see `security`")
        return ",".join(f"{HOST}:{node.address.secured[security_protocol]}" for node in self._nodes)

    @property
    def certificates(self) -> CertificateAuthority:
        """Who vouches for the brokers, and issues certificates for clients.

        Raises:
            ClusterError: the cluster has none, or is not started.
        """
        if self._certificates is None:
            raise ClusterError("only a running cluster with `security` has certificates")
        return self._certificates

    def renew_certificate(self) -> None:
        """Replaces the brokers' certificate by another one. Each shows it once it is started again.

        Raises:
            ClusterError: the cluster has none, or is not started.
        """
        new = self._issue_for_brokers()
        new.replace(self._keystore)

    @property
    def direct_servers(self) -> str:
        """All brokers' own addresses. A client that begins with these is led past any proxies."""
        return ",".join(str(node.address) for node in self._nodes)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each broker: its own, as in `direct_servers`."""
        return tuple((HOST, node.address.broker_port) for node in self._nodes)

    @property
    def client_addresses(self) -> tuple[tuple[str, int], ...]:
        """Where each broker takes in its clients: what a proxy leads to. Without proxies, the same as `addresses`."""
        return tuple((HOST, node.address.client_port) for node in self._nodes)

    @property
    def directory(self) -> Path:
        """Holds one directory per broker, with its `broker.log`."""
        return self._nodes[0].directory.parent

    def start(self) -> None:
        """Starts all brokers and waits until each serves and knows all others.

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
        """Makes the certificates; what the brokers are told about security."""
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
        """What each node's storage begins with: the release's own, or one that holds users as well."""
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
            )  # what is thrown away need not be in order
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
        """Waits until every running broker that is not paused serves and knows all others of them.

        Raises:
            ClusterError: one ended, or the time is over.
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
        """False once it was stopped, killed, or has died; a paused one is running."""
        return self._nodes[broker].is_running

    def start_broker(self, broker: int) -> None:
        """Starts a stopped or killed broker again, with its data and at its old address, and waits until it serves."""
        node = self._nodes[broker]
        if node.is_running:
            raise ClusterError(f"broker {broker} is running already")
        node.start()
        self.wait_ready()

    def stop_broker(self, broker: int) -> None:
        """Shuts a broker down in order: leaders move away first."""
        self._end(broker, GuardOrder.TERMINATE)

    def kill_broker(self, broker: int) -> None:
        """Kills a broker, as a power failure would."""
        self._end(broker, GuardOrder.KILL)

    def restart_broker(self, broker: int) -> None:
        """`stop_broker`, then `start_broker`."""
        self.stop_broker(broker)
        self.start_broker(broker)

    def move_broker(self, broker: int, port: int) -> None:
        """Stops a broker and starts it again, with its data, at another port of its own. What is advertised stays."""
        self.stop_broker(broker)
        self._nodes[broker].move(port)
        self.start_broker(broker)

    def change_release(self, broker: int, version: str | None = None) -> None:
        """Makes a broker that does not run one of another release, from its next start on; None for the cluster's.

        Raises:
            ClusterError: it runs, or that release cannot be had.
        """
        if self.is_running(broker):
            raise ClusterError(f"broker {broker} runs: its release changes while it does not")
        self._nodes[broker].become(ensure_kafka(version or self._version))

    def pause_broker(self, broker: int) -> None:
        """Freezes a broker: its connections stay open, and nothing answers."""
        self._nodes[broker].pause()

    def resume_broker(self, broker: int) -> None:
        """Ends `pause_broker`."""
        self._nodes[broker].resume()

    def _end(self, broker: int, order: GuardOrder) -> None:
        self._nodes[broker].order(order)
        self._nodes[broker].wait()
