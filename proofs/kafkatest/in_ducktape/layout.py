"""Where ducktape's tests find Kafka's programs: not below /opt, which belongs to the machine."""

from __future__ import annotations

import os

from kafkatest.directory_layout.kafka_path import KafkaSystemTestPathResolver
from kafkatest.version import DEV_BRANCH, KafkaVersion


class InstalledKafka(KafkaSystemTestPathResolver):  # type: ignore[misc]
    """One folder for each version, below the global `kafka-installations`."""

    def home(self, node_or_version: object = DEV_BRANCH, project: str | None = None) -> str:
        version: KafkaVersion = self._version(node_or_version)
        return os.path.join(self.context.globals["kafka-installations"], f"{project or self.project}-{version}")
