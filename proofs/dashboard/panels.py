"""The queries of the dashboard in docs/grafana.json, and a Prometheus that answers them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kwire.testing.kafka import ClusterError
from kwire.testing.kafka.addresses import HOST, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"
SCRAPE_S = 1
VARIABLES = {"$__rate_interval": "5s", "$client_id": ".*", "$topic": ".*"}
PATIENCE_S = 30.0
HOW_TO_GET_IT = (
    "there is no Prometheus: install it (apt-get install prometheus), or unpack it (apt-get download prometheus; "
    "dpkg -x prometheus_*.deb DIRECTORY) and have KWIRE_PROMETHEUS name the program"
)


class Query(NamedTuple):
    """A query of a panel, which may have several."""

    expression: str
    legend: str


class Panel(NamedTuple):
    title: str
    unit: str
    queries: tuple[Query, ...]


class Series(NamedTuple):
    """One line of a panel: seconds since 1970, and numbers."""

    name: str
    points: tuple[tuple[float, float], ...]


def panels() -> list[Panel]:
    """As the dashboard has them, with its variables filled in as Grafana would, for all clients and topics."""
    return [
        Panel(
            each["title"],
            each["fieldConfig"]["defaults"].get("unit", "short"),
            tuple(Query(filled_in(target["expr"]), target["legendFormat"]) for target in each["targets"]),
        )
        for each in json.loads(DASHBOARD.read_text())["panels"]
    ]


def filled_in(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def named(legend: str, labels: dict[str, str]) -> str:
    """As Grafana fills in a legend."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)


class Prometheus:
    """One that runs.

    Args:
        address: host:port.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, query: Query, start_s: float, end_s: float) -> list[Series]:
        """What it says of this time, second by second."""
        asked = {"query": query.expression, "start": start_s, "end": end_s, "step": SCRAPE_S}
        answer = self._get(f"api/v1/query_range?{urllib.parse.urlencode(asked)}")
        result = json.loads(answer)["data"]["result"]
        return [
            Series(named(query.legend, each["metric"]), tuple((at, float(value)) for at, value in each["values"]))
            for each in result
        ]

    def wait(self) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._get("-/ready")
            except OSError as error:
                if time.monotonic() > deadline_s:
                    raise ClusterError(f"Prometheus did not start: {error}") from None
                time.sleep(0.1)
            else:
                return

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://{self._address}/{path}", timeout=PATIENCE_S) as answer:
            found: bytes = answer.read()
            return found


@contextmanager
def prometheus(target_port: int) -> Iterator[Prometheus]:
    """One that scrapes this port each second, until the block ends."""
    address = f"{HOST}:{free_ports(1)[0]}"
    with tempfile.TemporaryDirectory(prefix="kwire-prometheus-") as directory:
        config = Path(directory) / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: {SCRAPE_S}s}}\n"
            f"scrape_configs: [{{job_name: kwire, static_configs: [{{targets: ['127.0.0.1:{target_port}']}}]}}]\n"
        )
        flags = [f"--config.file={config}", f"--storage.tsdb.path={directory}/data", f"--web.listen-address={address}"]
        with (Path(directory) / "log").open("wb") as log:
            process = subprocess.Popen([program(), *flags], stdout=log, stderr=log)
        try:
            running = Prometheus(address)
            running.wait()
            yield running
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def program() -> str:
    """Raises ClusterError with the way to get it."""
    found = os.environ.get("KWIRE_PROMETHEUS") or shutil.which("prometheus")
    if found is None:
        raise ClusterError(HOW_TO_GET_IT)
    return found
