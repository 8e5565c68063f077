"""Records for `scripts/bench rebalance`: a few for every partition of the topics whose turn it is."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

RECORD_INTERVAL_S = 0.05
TIMEOUT_S = 30.0
SILENT = 0  # both outlive the broker for a moment, and complain of it


class Flow:
    """A context manager. Its methods may be called from several threads.

    Args:
        partitions: How many each topic has.
    """

    def __init__(self, bootstrap_servers: str, partitions: int) -> None:
        self._partitions = partitions
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": SILENT})
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "log_level": SILENT})
        self._topics: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush(TIMEOUT_S)

    def new_topic(self) -> str:
        topic = f"bench-{uuid4().hex[:8]}"
        self._admin.create_topics([NewTopic(topic, self._partitions, 1)])[topic].result(TIMEOUT_S)
        return topic

    @contextmanager
    def to(self, topic: str) -> Iterator[None]:
        """Keep records coming meanwhile."""
        with self._lock:
            self._topics |= {topic}
        try:
            yield
        finally:
            with self._lock:
                self._topics -= {topic}

    def _produce(self) -> None:
        while not self._over.wait(RECORD_INTERVAL_S):
            for topic in self._topics:
                for number in range(self._partitions):
                    self._producer.produce(topic, b"tick", partition=number)
            self._producer.poll(0)
