"""A member of a group for `scripts/bench rebalance`: `member.py kwire|librdkafka TOPIC NAME=VALUE ...`.

Lines in: "open GROUP", then "close NANOSECONDS" (when; any time in the past is at once), and so on; the end of stdin
ends the process, whatever it is doing. Lines out:
"KIND NANOSECONDS PARTITIONS", KIND being subscribing (the client is made, and unused), assigned, revoked (or lost),
progress (of a poll that returned records), closing, closed. The clock is the machine's monotonic one, which all
processes share. `rebalance_member.java` is the same program with Kafka's own client.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Protocol

import confluent_kafka

from kwire import Consumer, RebalanceConsumer, RebalanceListener, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

POLL_S = 0.1
LOG_VARIABLE = "BENCH_REBALANCE_LOG"


class Client(Protocol):
    """A consumer of one library."""

    def subscribe(self) -> None: ...
    def poll(self, timeout_s: float) -> set[int]:
        """The partitions that records came from."""
        ...

    def close(self) -> None: ...


def say(kind: str, partitions: Iterable[int] = ()) -> None:
    now_ns = time.monotonic_ns()
    sys.stdout.write(f"{kind} {now_ns} {','.join(map(str, partitions))}\n")
    sys.stdout.flush()


class Told(RebalanceListener):
    def on_partitions_assigned(self, _: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        say("assigned", (tp.partition for tp in partitions))

    def on_partitions_revoked(self, _: RebalanceConsumer, partitions: frozenset[TopicPartition]) -> None:
        say("revoked", (tp.partition for tp in partitions))


class Kwire:
    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        self._topic = topic
        self._consumer: Consumer[bytes, bytes] = Consumer(config=settings)

    def subscribe(self) -> None:
        self._consumer.subscribe([self._topic], listener=Told())

    def poll(self, timeout_s: float) -> set[int]:
        return {tp.partition for tp in self._consumer.poll(timeout_s).partitions()}

    def close(self) -> None:
        self._consumer.close()


class Librdkafka:
    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        self._topic = topic
        self._consumer = confluent_kafka.Consumer(dict(settings))

    def subscribe(self) -> None:
        def assigned(_: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
            say("assigned", (tp.partition for tp in partitions))

        def revoked(_: confluent_kafka.Consumer, partitions: list[confluent_kafka.TopicPartition]) -> None:
            say("revoked", (tp.partition for tp in partitions))

        self._consumer.subscribe([self._topic], on_assign=assigned, on_revoke=revoked)

    def poll(self, timeout_s: float) -> set[int]:
        message = self._consumer.poll(timeout_s)
        partition = None if message is None or message.error() else message.partition()
        return set() if partition is None else {partition}

    def close(self) -> None:
        self._consumer.close()


CLIENTS: dict[str, Callable[[str, Mapping[str, str]], Client]] = {"kwire": Kwire, "librdkafka": Librdkafka}


def consume(client: Client, commands: queue.SimpleQueue[str]) -> None:
    """From subscribing to the moment that the next command names, which can only be to close."""
    say("subscribing")
    client.subscribe()
    closing_ns: int | None = None
    while closing_ns is None or time.monotonic_ns() < closing_ns:
        if partitions := client.poll(poll_s(closing_ns)):
            say("progress", sorted(partitions))
        if closing_ns is None and not commands.empty():
            closing_ns = int(commands.get().split()[1])
    say("closing")
    client.close()
    say("closed")


def poll_s(closing_ns: int | None) -> float:
    if closing_ns is None:
        return POLL_S
    return min(POLL_S, max(0, closing_ns - time.monotonic_ns()) / 1e9)


def read_commands(commands: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        commands.put(line)
    os._exit(0)


def main() -> None:
    library, topic, *settings = sys.argv[1:]
    config = dict(setting.split("=", 1) for setting in settings)
    if os.environ.get(LOG_VARIABLE):
        logging.basicConfig(level=logging.DEBUG, format="%(relativeCreated)d %(threadName)s %(name)s %(message)s")
    commands: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=read_commands, args=(commands,), daemon=True).start()
    while True:
        _, group_id = commands.get().split()
        consume(CLIENTS[library](topic, {**config, "group.id": group_id}), commands)


if __name__ == "__main__":
    main()
