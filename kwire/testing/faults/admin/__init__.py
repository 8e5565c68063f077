"""Administration of a cluster: topics, leaders, logs, the group, quotas, permissions. Needs confluent-kafka.

Requests go directly to the brokers, without the proxies, and are retried for a time: brokers are down and leaders move
while faults are active. Called by the injectors, from any thread, and by the harness.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import AdminClient

from kwire.testing.faults.admin.group import GroupAdmin
from kwire.testing.faults.admin.leaders import Leaders
from kwire.testing.faults.admin.logs import Logs
from kwire.testing.faults.admin.patience import CLIENT_ID
from kwire.testing.faults.admin.permissions import Permissions
from kwire.testing.faults.admin.quotas import Quotas
from kwire.testing.faults.admin.topics import Topics
from kwire.testing.faults.admin.wire import Brokers


class Admin:
    """The administration of a cluster for fault injection.

    Args:
        direct_servers: the brokers' own addresses, as a client takes them.
        addresses: the same, by number.
        group_id: the group that faults strike.
    """

    def __init__(self, direct_servers: str, addresses: Sequence[tuple[str, int]], group_id: str) -> None:
        client = AdminClient({"bootstrap.servers": direct_servers, "client.id": CLIENT_ID, "log_level": 2})
        brokers = Brokers(addresses)
        self.topics = Topics(client, brokers)
        self.leaders = Leaders(client, self.topics, brokers)
        self.logs = Logs(client)
        self.group = GroupAdmin(client, self.topics, brokers, group_id)
        self.quotas = Quotas(brokers)
        self.permissions = Permissions(client)
