"""Connections of commands to a cluster: settings, a client, and a message if no broker answers for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kwire.cli.admin.cluster import ClusterView
from kwire.cli.exits import clean_exits
from kwire.cli.options import settings_of
from kwire.cli.patience import said_when_slow
from kwire.cli.settings import of_connection
from kwire.config import ConsumerConfig
from kwire.network.broker_client import BrokerClient

TIMEOUT_S = 30.0
"""How long a step to a broker, or an answer, may take, unless `default_api_timeout_ms` is shorter."""


@contextmanager
def cluster_view(bootstrap: str | None, properties: Sequence[str] | None, config: Path | None) -> Iterator[ClusterView]:
    """A view of the cluster that the options name; errors end the command as in `exits`."""
    with clean_exits():
        settings = ConsumerConfig.of(of_connection(settings_of(bootstrap, properties, config, {})))
        with BrokerClient(settings, min(TIMEOUT_S, settings.default_api_timeout_ms / 1000)) as client:
            with said_when_slow(settings.bootstrap_servers):
                client.first_reachable()
            yield ClusterView(client)
