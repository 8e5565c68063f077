"""Threads handle partitions at the same time, each partition in order; a handler may take as long as it likes.

The processor polls while handlers work, so the group does not wait for them. Every five seconds it commits the records
that are done. When it has to give back a partition, it finishes the record in work and commits first. A handler that
fails is called again until it succeeds, however long the other system is away; only its own partition waits.
"""

from __future__ import annotations

import random
import sys
import time

from arguments import parse

from kwire import Consumer, Record
from kwire.processing import Processor, Retry


def handle(record: Record[bytes, bytes]) -> None:
    """What would write to another system, which takes a moment, and is not always there."""
    time.sleep(random.uniform(0.0, 0.005))
    if random.random() < 0.01:
        raise ConnectionError("the other system is away")
    sys.stdout.write(f"{record.topic_partition}@{record.offset}: {record.value!r}\n")  # in one piece: all print


def main(argv: list[str] | None = None) -> None:
    wanted = parse("Records of each partition in order, on eight threads.", argv)
    consumer: Consumer[bytes, bytes] = Consumer(
        wanted.topic,
        bootstrap_servers=wanted.bootstrap_servers,
        group_id=wanted.group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,  # the processor commits: what is done, and not what was polled
    )
    retry = Retry(backoff=0.1, backoff_max=30.0)
    with consumer, Processor(consumer, handle, workers=8, commit_interval=5.0, retry=retry) as processor:
        quiet_since_s, handled = time.monotonic(), 0
        while time.monotonic() - quiet_since_s < wanted.idle_seconds:
            time.sleep(0.1)
            if handled != (handled := processor.status().handled):
                quiet_since_s = time.monotonic()
    print(f"{processor.status().handled} records handled")


if __name__ == "__main__":
    main()
