"""What a turn of the network thread does first when records have come, and whether it may end there."""

from __future__ import annotations

from collections.abc import Callable

from kwire.managers.registry import RequestManagers
from kwire.network.client import NetworkClient

# After a short turn. What it changes concerns few of the others, and none of them in a hurry.
OTHERS_WAIT_MS = 50.0


class ShortTurns:
    """Makes turns short in which an answer has brought records and nothing else. While records flow, most have.

    New records wait at the broker for the next fetch, and the application waits for those that came. To poll all
    managers takes longer than both, and tells none of them anything. So

    * the next fetches go out first, at once and without the writer's task (`Connection.send`): they depend on nobody
      then (`FetchManager.may_poll_early`);
    * then the application is woken: any sooner it would wake up while the network thread holds the interpreter, sleep
      again, and have to be woken twice;
    * if that answer was all there was, the turn is over, and the other managers are polled when the loop wakes, at most
      50 ms later. Not where a lag is caught up with: what is done about it depends on how far the records are.

    The loop takes such a turn in the task that has read the answer (`NetworkLoop.on_answers`), which saves a step of
    trio's scheduler.

    Args:
        notify: makes the application look for records.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._has_records = False

    def note_records(self) -> None:
        """Records are in the buffer: the application is to be woken in this turn."""
        self._has_records = True

    def begin(self, managers: RequestManagers, client: NetworkClient, answers: int, now_ms: float) -> float | None:
        """Begin a turn, after the handlers of so many answers.

        Returns:
            When the next turn is due, if this one may end here.
        """
        fetch = managers.main.fetch
        requests = fetch.poll(now_ms).requests if fetch.may_poll_early else []
        client_at_ms = now_ms + OTHERS_WAIT_MS
        if requests:
            client.send(requests, now_ms)
            client_at_ms = min(client_at_ms, client.poll(now_ms))
        self._announce()
        may_end = bool(requests) and answers == 1 and len(managers.cursors) == 1
        return client_at_ms if may_end else None

    def _announce(self) -> None:
        if self._has_records:
            self._has_records = False
            self._notify()
