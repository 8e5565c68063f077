"""A verifiable consumer that is broken on purpose: a few times it skips a record, which has to be seen."""

from __future__ import annotations

import sys
from datetime import timedelta

from kwire.consumer.sync import Consumer
from kwire.fetching.columns import Records
from kwire.verifiable_consumer import command

MOST_SKIPPED = 3


class SkippingConsumer(Consumer[bytes, bytes]):
    skipped = 0

    def poll(self, timeout: float | timedelta = 1.0) -> Records[bytes, bytes]:
        records = super().poll(timeout)
        if len(records) and self.skipped < MOST_SKIPPED:
            partition = next(chunk.topic_partition for chunk in records.chunks() if len(chunk))
            after_next = self.position(partition) + 1
            if after_next < self.end_offsets([partition])[partition]:  # behind the end there would be nothing to skip
                self.seek(partition, after_next)
                self.skipped += 1
        return records


if __name__ == "__main__":
    vars(command)["Consumer"] = SkippingConsumer
    sys.exit(command.main(sys.argv[1:]))
