"""A verifiable consumer where a test asks for the console's, which other clients cannot take the place of."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafkatest.services.verifiable_consumer import VerifiableConsumer as KafkasVerifiableConsumer

PAUSE_S = 0.5


class VerifiableConsumer(KafkasVerifiableConsumer):  # type: ignore[misc]
    """It has the name of the other one: other clients are chosen by that.

    Args:
        consumer_timeout_ms: when nothing has come for so long, it has read all.
        message_validator: makes of a value what is compared with what was produced.
    """

    # ducktape looks for the templates of a service beside its module.
    __module__ = KafkasVerifiableConsumer.__module__
    from_beginning = True

    def __init__(
        self,
        context: object,
        num_nodes: int,
        kafka: object,
        topic: str,
        *,
        consumer_timeout_ms: int,
        message_validator: Callable[[str], object],
    ) -> None:
        super().__init__(
            context,
            num_nodes,
            kafka,
            topic,
            group_id="reading",
            on_record_consumed=self._keep,
            group_protocol="classic",
        )
        self.messages_consumed: dict[int, list[object]] = {1: []}
        self._timeout_s = consumer_timeout_ms / 1000
        self._validate = message_validator

    def _keep(self, record: dict[str, str], _node: object) -> None:
        value = self._validate(record["value"])
        if value is not None:
            self.messages_consumed[1].append(value)

    def alive(self, node: object) -> bool:
        return bool(self.pids(node))

    def wait(self, timeout_sec: float = 600) -> None:
        """Until it has read all; then it ends."""
        deadline_s = time.monotonic() + timeout_sec
        seen, seen_at_s = -1, time.monotonic()
        while time.monotonic() < min(deadline_s, seen_at_s + self._timeout_s):
            if (total := len(self.messages_consumed[1])) != seen:
                seen, seen_at_s = total, time.monotonic()
            time.sleep(PAUSE_S)
        self.stop_all()
