"""The poll loop of KIP-983: threads handle records, and a partition is given back after its records are done.

There is one loop and no listener. Each poll says which partitions the next poll gives back. While records of these
partitions are in work, the loop asks for a delay and polls again. All other partitions go on at full speed.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor

from arguments import parse

from kwire import Consumer, OffsetAndMetadata, Record, TopicPartition

POLL_S = 0.1


def work(records: list[Record[bytes, bytes]]) -> None:
    """Slow work on records."""
    for record in records:
        time.sleep(0.001)
        sys.stdout.write(f"{record.topic_partition}@{record.offset}: {record.value!r}\n")  # in one piece: all print


class InWork:
    """Records in work, on one thread for each partition, and the offsets that may be committed."""

    def __init__(self) -> None:
        self._threads: dict[TopicPartition, ThreadPoolExecutor] = {}
        self._work: dict[TopicPartition, list[tuple[Future[None], OffsetAndMetadata]]] = {}

    def begin(self, tp: TopicPartition, records: list[Record[bytes, bytes]], after: OffsetAndMetadata) -> None:
        thread = self._threads.setdefault(tp, ThreadPoolExecutor(1))
        self._work.setdefault(tp, []).append((thread.submit(work, records), after))

    def done(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit: after the records that are done, in order. Raises the exception of the work."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, pending in self._work.items():
            while pending and pending[0][0].done():
                future, offsets[tp] = pending.pop(0)
                future.result()
        self._work = {tp: pending for tp, pending in self._work.items() if pending}
        return offsets

    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._work)

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are lost: their records must not be committed any more."""
        for tp in partitions:
            self._work.pop(tp, None)


def main(argv: list[str] | None = None) -> None:
    wanted = parse("The poll loop of KIP-983.", argv)
    consumer: Consumer[bytes, bytes] = Consumer(
        wanted.topic,
        bootstrap_servers=wanted.bootstrap_servers,
        group_id=wanted.group_id,
        auto_offset_reset="earliest",
        partition_assignment_strategy="cooperative-sticky",
        enable_auto_commit=False,
        enable_async_revocation=True,
    )
    with consumer:
        in_work, quiet_since_s = InWork(), time.monotonic()
        while time.monotonic() - quiet_since_s < wanted.idle_seconds:
            records = consumer.poll(POLL_S)
            in_work.forget(consumer.lost_partitions())
            for tp in records.partitions():
                in_work.begin(tp, list(records[tp]), records.next_offsets()[tp])
            if offsets := in_work.done():
                consumer.commit_sync(offsets)
            if busy := consumer.to_be_revoked_partitions() & in_work.partitions():
                consumer.delay_revoke(busy)
            if records or in_work.partitions():
                quiet_since_s = time.monotonic()


if __name__ == "__main__":
    main()
