"""`ProcessorDescription`: all that `Processor.describe()` answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from kwire.description.consumer_description import ConsumerDescription
from kwire.description.page import cause_lines, duration
from kwire.description.values import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordInWork:
    """A record that a handler has in its hands, and how long, in seconds."""

    topic: str
    partition: int
    offset: int
    for_s: float
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDescription:
    """What a processor has buffered of one partition.

    Attributes:
        in_work: Records in work, or waiting for their next attempt.
        is_held: Whether nothing more is fetched, for there is enough of it.
    """

    topic: str
    partition: int
    in_work: int
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorDescription:
    """How a processor stands at one moment. `str()` of it is a page for a person.

    Attributes:
        waiting: Records that were polled and not begun.
        in_work: Records in a worker's hands, or waiting for their next attempt.
        retrying: Runs that wait for their next attempt.
        slow: The records that have been in a handler's hands for longest, a second at least.
        progress_s: Seconds since something was handled, or there was nothing to do.
    """

    is_running: bool
    waiting: int
    in_work: int
    retrying: int
    progress_s: float
    queues: tuple[QueueDescription, ...]
    slow: tuple[RecordInWork, ...]
    causes: tuple[Cause, ...]
    consumer: ConsumerDescription

    def as_dict(self) -> dict[str, object]:
        """The same as dictionaries, lists, strings and numbers, as JSON has them."""
        return asdict(self)

    def all_causes(self) -> Iterator[Cause]:
        """Those of the processor, then those of its consumer."""
        yield from self.causes
        yield from self.consumer.all_causes()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield (
            f"processor: {'running' if self.is_running else 'not running'}, {self.in_work} records in work, "
            f"{self.waiting} wait for a worker, {self.retrying} runs for their next attempt"
        )
        yield f"  progress {duration(self.progress_s)} ago"
        yield from (f"  {line}" for line in cause_lines(self.causes))
        for queue in self.queues:
            held = ", enough of it is here: nothing more is fetched" if queue.is_held else ""
            yield f"  {queue.topic}-{queue.partition}: {queue.in_work} in work{held}"
        yield str(self.consumer)
