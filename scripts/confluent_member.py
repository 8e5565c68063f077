"""confluent-kafka as a verifiable consumer: flags and lines are those of Kafka's own VerifiableConsumer.

`group_members` starts it, so that librdkafka takes part in groups of verifiable consumers. SIGTERM closes it in order.
Each poll gathers what is there; a revocation flushes what has been gathered before it is announced.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from confluent_kafka import Message

MOST_RECORDS = 500  # of one poll: Java's max.poll.records
POLL_S = 0.1  # a signal is seen between two polls


class ConfluentMember:
    """One consumer, and what it has gathered but not yet announced."""

    def __init__(self, topic: str, settings: dict[str, str | int | float | bool]) -> None:
        self._topic = topic
        self._consumer = Consumer(settings)
        self._gathered: dict[int, list[int]] = {}
        self._stopping = threading.Event()

    def stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping.set()

    def run(self) -> None:
        say("startup_complete")
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        while not self._stopping.is_set():
            self._gather()
            self._flush()
        say("shutdown_requested")
        self._consumer.close()
        say("shutdown_complete")

    def _gather(self) -> None:
        message = self._consumer.poll(POLL_S)
        count = 0
        while message is not None:
            self._take(message)
            count += 1
            message = self._consumer.poll(0) if count < MOST_RECORDS else None

    def _take(self, message: Message[bytes, bytes]) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            print(f"poll: {error}", file=sys.stderr, flush=True)
            return
        self._gathered.setdefault(partition, []).append(offset)

    def _flush(self) -> None:
        """Announce what was gathered, and commit it."""
        gathered, self._gathered = self._gathered, {}
        if not gathered:
            return
        rows = [
            {**self._named(partition), "count": len(offsets), "minOffset": offsets[0], "maxOffset": offsets[-1]}
            for partition, offsets in gathered.items()
        ]
        say("records_consumed", count=sum(map(len, gathered.values())), partitions=rows)
        self._commit({partition: offsets[-1] + 1 for partition, offsets in gathered.items()})

    def _commit(self, offsets: dict[int, int]) -> None:
        wanted = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        rows = [{**self._named(partition), "offset": offset} for partition, offset in offsets.items()]
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False) or []
        except KafkaException as error:
            say("offsets_committed", offsets=rows, error=str(error), success=False)
            return
        errors = [str(answer.error) for answer in answers if answer.error is not None]
        if errors:
            say("offsets_committed", offsets=rows, error=errors[0], success=False)
        else:
            say("offsets_committed", offsets=rows, success=True)

    # --- rebalances, inside poll and close --------------------------------------------------------------------

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        say("partitions_assigned", partitions=[self._named(tp.partition) for tp in partitions])

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._flush()
        say("partitions_revoked", partitions=[self._named(tp.partition) for tp in partitions])

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Somebody else has them: what was gathered is theirs to return."""
        self._gathered.clear()
        say("partitions_revoked", partitions=[self._named(tp.partition) for tp in partitions])

    def _named(self, partition: int) -> dict[str, str | int]:
        return {"topic": self._topic, "partition": partition}


def say(name: str, **fields: object) -> None:
    line = json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}, separators=(",", ":"))
    print(line, flush=True)


def read_settings(arguments: argparse.Namespace) -> dict[str, str | int | float | bool]:
    """librdkafka's settings have Java's names, as far as they are used here."""
    settings: dict[str, str | int | float | bool] = {}
    with open(arguments.config) as file:
        for line in file:
            name, _, value = line.strip().partition("=")
            settings[name] = value
    settings |= {
        "bootstrap.servers": arguments.bootstrap_server,
        "group.id": arguments.group_id,
        "group.protocol": arguments.group_protocol,
        "auto.offset.reset": arguments.reset_policy,
        "enable.auto.commit": False,
    }
    if arguments.group_protocol == "classic":
        settings["partition.assignment.strategy"] = arguments.assignment_strategy
        settings["session.timeout.ms"] = arguments.session_timeout
    return settings


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="confluent_member.py")
    for flag in ("--bootstrap-server", "--topic", "--group-id"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--group-protocol", default="classic")
    parser.add_argument("--assignment-strategy", default="range")
    parser.add_argument("--session-timeout", type=int, default=30_000)
    parser.add_argument("--reset-policy", default="earliest")
    parser.add_argument("--command-config", dest="config", required=True)
    chosen = parser.parse_args(arguments)
    member = ConfluentMember(chosen.topic, read_settings(chosen))
    signal.signal(signal.SIGTERM, member.stop)
    member.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
