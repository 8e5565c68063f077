"""`EventDispatcher`: calls the user's `on_event` in a thread of its own, so that a slow one holds up nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kwire.clock import wall_clock_ms
from kwire.config import ConsumerConfig
from kwire.consumer.host import Host, Queue
from kwire.consumer_events import ConsumerEvent, OnEvent
from kwire.errors import NoThreadError
from kwire.logs import client_fields, logged_as, part_logger
from kwire.unfinished import unfinished

log = part_logger("events")

# More than this many waiting events are dropped.
MAX_WAITING: Final = 1_000


class EventDispatcher:
    """A `consumer_events.EventSink` with a thread behind it, which ends with the network thread.

    Args:
        on_event: The user's. What it raises is logged, and the next event is told all the same.
    """

    def __init__(self, on_event: OnEvent, config: ConsumerConfig, client_id: str, host: Host) -> None:
        self._on_event = on_event
        self._client_id = client_id
        self._host = host
        self._group_id = config.group_id
        self._queue: Queue[ConsumerEvent | None] = host.new_queue()
        self._put = self._taken = self._dropped = 0  # each written by one thread

    def start(self) -> None:
        """Start the thread, which takes what was told before as well. Raises: NoThreadError."""
        try:
            self._host.start_thread(self._run, f"kwire-events {self._client_id}")
        except RuntimeError as error:
            raise NoThreadError(
                f"the thread that calls on_event cannot be started: {error}; raise the limit of threads (ulimit -u, a "
                "container's pids limit)"
            ) from error

    def tell(self, event: ConsumerEvent) -> None:
        """On the network thread."""
        if self._put - self._taken >= MAX_WAITING:
            self._dropped += 1
            return
        self._put += 1
        stamped = replace(event, at_ms=wall_clock_ms(), client_id=self._client_id, group_id=self._group_id)
        self._queue.put(stamped)

    def end(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        with logged_as(client_fields(self._client_id, self._group_id)):
            self._tell_all()

    def _tell_all(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                if problem := unfinished(self._on_event(event)):
                    log.error("on_event has done nothing: %s", problem)
            except BaseException:  # nobody else can report it, and sys.exit() must not end this thread
                log.exception("on_event raised over %r", event)
            self._taken += 1
        if self._dropped:
            log.warning("on_event was too slow: %d events were dropped", self._dropped)
