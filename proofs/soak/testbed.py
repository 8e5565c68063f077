"""Brokers behind proxies, which want TLS, a certificate and a login; and a topic that keeps ten minutes."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from kwire.testing.faults.proxies.chain import ProxiedBrokers
from kwire.testing.faults.secured import PASSWORD, USER, member_settings
from kwire.testing.kafka import KafkaCluster, Security
from kwire.testing.kafka.jars import cache_dir
from proofs.group import make_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKERS = 3
PARTITIONS = 8
SESSION_MS = 10_000
LOGIN_MS = 60_000
"""How long a login is good for."""
KEPT_MS = 10 * 60_000
"""What is older is deleted, so that hours fit on the disk."""

SECURITY = Security(users={USER: PASSWORD}, proxied="SASL_SSL", client_auth="required")
BROKER_SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "listener.name.client.scram-sha-256.connections.max.reauth.ms": str(LOGIN_MS),
}
TOPIC_SETTINGS = {
    "min.insync.replicas": "2",
    "retention.ms": str(KEPT_MS),
    "segment.ms": str(KEPT_MS // 5),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """The testbed of a soak.

    Args:
        certificate: the file of the clients' certificate and its key.
    """

    cluster: KafkaCluster
    proxies: ProxiedBrokers
    topic: str
    directory: Path
    certificate: Path

    def settings(self, client: str, group: str, protocol: str) -> dict[str, str]:
        """Of a consumer, under the names that its client has for them."""
        secured = member_settings(client, self.cluster.certificates.path)
        if client == "confluent":
            own = {"ssl.certificate.location": str(self.certificate), "ssl.key.location": str(self.certificate)}
        else:
            own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.certificate)}
        session = {} if protocol == "consumer" else {"session.timeout.ms": str(SESSION_MS)}
        return {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            **session,
            **secured,
            **own,
        }

    def renew_client_certificate(self) -> None:
        """Connections that are made from now on show another one."""
        issued = self.cluster.certificates.issue(common_name=f"member-{uuid4().hex[:8]}")
        new = self.certificate.with_suffix(".new")
        new.write_text(issued.path.read_text())
        os.replace(new, self.certificate)


@contextmanager
def prepared_testbed() -> Iterator[Testbed]:
    with (
        tempfile.TemporaryDirectory(prefix="kwire-soak-") as folder,
        ProxiedBrokers(BROKERS, cache=cache_dir(), is_encrypted=True) as proxies,
        KafkaCluster(BROKERS, advertised=proxies.addresses, settings=BROKER_SETTINGS, security=SECURITY) as cluster,
    ):
        proxies.lead_to(cluster.client_addresses)
        topic = f"soak-{uuid4().hex[:8]}"
        make_topic(cluster.direct_servers, topic, PARTITIONS, BROKERS, TOPIC_SETTINGS)
        made = Testbed(
            cluster=cluster,
            proxies=proxies,
            topic=topic,
            directory=Path(folder),
            certificate=Path(folder, "client.pem"),
        )
        made.renew_client_certificate()
        yield made
