"""What stands on stdout is what Java's program would have written, and nothing of it is torn."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kwire.errors import CommitFailedError
from kwire.model import OffsetAndMetadata, Record, TimestampType, TopicPartition
from kwire.verifiable_consumer.events import EventLog

if TYPE_CHECKING:
    from tests.verifiable_consumer.verifiable_lines import LinesInMemory
else:
    from verifiable_lines import LinesInMemory

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(key: bytes | None, value: bytes | None) -> Record[bytes, bytes]:
    return Record("t", 2, 0, 0, TimestampType.CREATE_TIME, key, value, (), None, -1, -1)


# As Kafka 4.3.1's own VerifiableConsumer writes them, with which the integration tests compare; T stands for the time.
JAVA: list[tuple[Callable[[EventLog], None], str]] = [
    (EventLog.startup_complete, '{"timestamp":T,"name":"startup_complete"}'),
    (
        lambda log: log.partitions_assigned(frozenset((T1, T0))),
        (
            '{"timestamp":T,"name":"partitions_assigned","partitions":[{"topic":"t","partition":0},'
            '{"topic":"t","partition":1}]}'
        ),
    ),
    (
        lambda log: log.record_data([record(b"k", b"v\xff\xe4\xb8\x96"), record(None, None)]),
        (
            '{"timestamp":T,"name":"record_data","key":"k","value":"v\ufffd\u4e16","topic":"t","partition":2,"offset":0}\n'
            '{"timestamp":T,"name":"record_data","key":null,"value":null,"topic":"t","partition":2,"offset":0}'
        ),
    ),
    (
        lambda log: log.records_consumed(
            500, [{"topic": "t", "partition": 1, "count": 200, "minOffset": 0, "maxOffset": 199}]
        ),
        (
            '{"timestamp":T,"name":"records_consumed","count":500,"partitions":[{"topic":"t","partition":1,"count":200,'
            '"minOffset":0,"maxOffset":199}]}'
        ),
    ),
    (
        lambda log: log.offsets_committed({T1: OffsetAndMetadata(200), T0: OffsetAndMetadata(300)}),
        (
            '{"timestamp":T,"name":"offsets_committed","offsets":[{"topic":"t","partition":1,"offset":200},'
            '{"topic":"t","partition":0,"offset":300}],"success":true}'
        ),
    ),
    (
        lambda log: log.offsets_committed({T0: OffsetAndMetadata(7)}, CommitFailedError("not a member")),
        (
            '{"timestamp":T,"name":"offsets_committed","offsets":[{"topic":"t","partition":0,"offset":7}],'
            '"error":"not a member","success":false}'
        ),
    ),
    (
        lambda log: log.partitions_revoked(frozenset((T0,))),
        '{"timestamp":T,"name":"partitions_revoked","partitions":[{"topic":"t","partition":0}]}',
    ),
    (EventLog.shutdown_requested, '{"timestamp":T,"name":"shutdown_requested"}'),
    (EventLog.shutdown_complete, '{"timestamp":T,"name":"shutdown_complete"}'),
]


@pytest.mark.parametrize(("tell", "java"), JAVA, ids=[re.findall(r'"name":"(\w+)"', java)[0] for _, java in JAVA])
def test_a_line_is_the_one_that_java_writes(tell: Callable[[EventLog], None], java: str) -> None:
    lines = LinesInMemory()
    tell(EventLog(lines))
    (written,) = lines.written
    assert re.sub(r'(?<="timestamp":)\d{13}(?=,)', "T", written.decode()) == java + "\n"


def test_a_signal_in_the_middle_of_a_write_does_not_tear_the_line() -> None:
    """The handler runs while the line is half out: on a pipe that is full, say, where a write takes its time."""
    told: list[bytes] = []

    class Interrupted:
        def write(self, data: bytes, /) -> None:
            if not told:
                told.append(data[:5])
                log.shutdown_requested()
                told.append(data[5:])
            else:
                told.append(data)

    log = EventLog(Interrupted())
    log.startup_complete()
    first, second = b"".join(told).decode().splitlines()
    assert first.endswith('"startup_complete"}')
    assert second.endswith('"shutdown_requested"}')


def test_a_write_that_failed_does_not_silence_the_next() -> None:
    lines = LinesInMemory()

    class FailsOnce:
        def __init__(self) -> None:
            self.failed = False

        def write(self, data: bytes, /) -> None:
            if not self.failed:
                self.failed = True
                raise BrokenPipeError
            lines.write(data)

    log = EventLog(FailsOnce())
    with pytest.raises(BrokenPipeError):
        log.startup_complete()
    log.shutdown_complete()
    assert lines.events() == [{"name": "shutdown_complete"}]
