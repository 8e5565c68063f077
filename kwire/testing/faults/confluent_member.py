"""A verifiable consumer with confluent-kafka: its flags and lines are those of Kafka's own VerifiableConsumer.

Started by path, as a program of its own. It imports nothing of kwire, so its start and its memory are librdkafka's.
Each poll collects the records that are there; a revocation first reports the collected records. With `--orders` it is
slow, or stuck, as the file says; `kwire.verifiable_consumer.orders` has the same format. SIGTERM closes it in order.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from confluent_kafka import Message

MAX_RECORDS = 500  # of one poll, unless the file of settings says otherwise: Java's max.poll.records
POLL_S = 0.1  # a signal is seen between two polls
LOOK_EVERY_S = 0.05  # at the orders, while at work

Gathered = dict[tuple[str, int], list[tuple[int, str | None]]]


class ConfluentMember:
    """A consumer, with the records that it has collected and not reported yet."""

    def __init__(self, flags: argparse.Namespace, settings: dict[str, str | int | float | bool]) -> None:
        self._topics = flags.topic.split(",")
        self._is_verbose: bool = flags.verbose
        self._commits: bool = not flags.enable_autocommit
        self._orders: Path | None = flags.orders
        self._most_records = int(settings.pop("max.poll.records", MAX_RECORDS))
        self._consumer = Consumer(settings)
        self._gathered: Gathered = {}
        self._stopping = threading.Event()

    def stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping.set()

    def run(self) -> None:
        say("startup_complete")
        self._consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            while not self._stopping.is_set():
                self._gather()
                self._flush(self._work)
        except KafkaException as error:
            sys.stderr.write(f"ends by {error}\n")
        say("shutdown_requested")
        if self._orders is not None:
            say("closing")
        self._consumer.close()
        say("shutdown_complete")

    def _gather(self) -> None:
        message = self._consumer.poll(POLL_S)
        count = 0
        while message is not None:
            self._take(message)
            count += 1
            message = self._consumer.poll(0) if count < self._most_records else None

    def _take(self, message: Message[bytes, bytes]) -> None:
        error, topic, partition, offset = message.error(), message.topic(), message.partition(), message.offset()
        if error is not None:
            if self._orders is not None:
                say("poll_failed", error=error.name(), message=error.str())
            if error.fatal():
                raise KafkaException(error)
        elif topic is not None and partition is not None and offset is not None:
            value = message.value()
            text = None if value is None else value.decode(errors="replace")
            self._gathered.setdefault((topic, partition), []).append((offset, text))

    def _flush(self, work: Callable[[int], None]) -> None:
        """Report the collected records, process them, and commit."""
        gathered, self._gathered = self._gathered, {}
        if not gathered:
            return
        if self._is_verbose:
            tell_records(gathered)
        rows = [
            {**named(*tp), "count": len(found), "minOffset": found[0][0], "maxOffset": found[-1][0]}
            for tp, found in gathered.items()
        ]
        count = sum(map(len, gathered.values()))
        say("records_consumed", count=count, partitions=rows)
        work(count)
        if self._commits:
            self._commit({tp: found[-1][0] + 1 for tp, found in gathered.items()})

    def _work(self, count: int) -> None:
        """Process this many records."""
        worked_s = 0.0
        while not self._stopping.is_set():
            each_ms, is_stuck = self._read_orders()
            left_s = each_ms / 1000 * count - worked_s
            if left_s <= 0 and not is_stuck:
                return
            slice_s = LOOK_EVERY_S if is_stuck else min(LOOK_EVERY_S, left_s)
            time.sleep(slice_s)
            worked_s += slice_s

    def _read_orders(self) -> tuple[float, bool]:
        if self._orders is None or not self._orders.exists():
            return 0.0, False
        orders = json.loads(self._orders.read_text())
        return float(orders["each_ms"]), bool(orders["is_stuck"])

    def _commit(self, offsets: dict[tuple[str, int], int]) -> None:
        wanted = [TopicPartition(*tp, offset) for tp, offset in offsets.items()]
        rows = [{**named(*tp), "offset": offset} for tp, offset in offsets.items()]
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
        say_partitions("partitions_assigned", partitions)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._flush(lambda _count: None)
        say_partitions("partitions_revoked", partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Somebody else has them: what was gathered is theirs to return."""
        self._gathered.clear()
        say_partitions("partitions_lost" if self._orders is not None else "partitions_revoked", partitions)


def tell_records(gathered: Gathered) -> None:
    for tp, found in gathered.items():
        for offset, value in found:
            say("record_data", key=None, value=value, **named(*tp), offset=offset)


def say_partitions(name: str, partitions: list[TopicPartition]) -> None:
    say(name, partitions=[named(tp.topic, tp.partition) for tp in partitions])


def named(topic: str, partition: int) -> dict[str, str | int]:
    return {"topic": topic, "partition": partition}


def say(name: str, **fields: object) -> None:
    line = json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}, separators=(",", ":"))
    sys.stdout.write(line + "\n")
    if name != "record_data":  # the line that sums them up comes at once
        sys.stdout.flush()


def read_settings(flags: argparse.Namespace) -> dict[str, str | int | float | bool]:
    """The file's settings are librdkafka's, but for max.poll.records, which it does not have."""
    settings: dict[str, str | int | float | bool] = {}
    for line in flags.config.read_text().splitlines():
        name, _, value = line.strip().partition("=")
        settings[name] = value
    settings |= {
        "bootstrap.servers": flags.bootstrap_server,
        "group.id": flags.group_id,
        "group.protocol": flags.group_protocol,
        "auto.offset.reset": flags.reset_policy,
        "enable.auto.commit": flags.enable_autocommit,
    }
    if flags.group_protocol == "classic":
        settings["partition.assignment.strategy"] = flags.assignment_strategy
        settings["session.timeout.ms"] = flags.session_timeout
    elif flags.group_remote_assignor:
        settings["group.remote.assignor"] = flags.group_remote_assignor
    if flags.group_instance_id:
        settings["group.instance.id"] = flags.group_instance_id
    return settings


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="confluent_member.py")
    for flag in ("--bootstrap-server", "--topic", "--group-id"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--group-protocol", default="classic")
    parser.add_argument("--assignment-strategy", default="range")
    parser.add_argument("--group-remote-assignor")
    parser.add_argument("--group-instance-id")
    parser.add_argument("--session-timeout", type=int, default=30_000)
    parser.add_argument("--reset-policy", default="earliest")
    parser.add_argument("--enable-autocommit", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--orders", type=Path)
    parser.add_argument("--command-config", dest="config", type=Path, required=True)
    flags = parser.parse_args(arguments)
    # A buffer, even with PYTHONUNBUFFERED: otherwise a process could be frozen in the middle of a line.
    sys.stdout = open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False)  # noqa: SIM115  until the process ends
    member = ConfluentMember(flags, read_settings(flags))
    signal.signal(signal.SIGTERM, member.stop)
    member.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
