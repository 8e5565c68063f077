"""What a turn of the network thread does first when there is one piece of news, and whether it may end there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kwire.events import ApplicationEvent, Commit, CommitAsync, RecordsDelivered
from kwire.managers.cursor import AnyCursor
from kwire.managers.offset_commit import OffsetCommitManager
from kwire.managers.registry import RequestManagers
from kwire.managers.unsent import AnyUnsentRequest, PollResult
from kwire.network.client import NetworkClient

# After a short turn. What it changes concerns few of the others, and none of them in a hurry.
OTHERS_WAIT_MS = 50.0
COMMITS = frozenset({Commit, CommitAsync})
CONCERN_NO_OTHERS = COMMITS | {RecordsDelivered}
"""Events that tell the managers of the group, of positions and of metadata nothing."""


class ShortTurns:
    """Makes turns short in which an answer has brought records and nothing else, or which are only about commits.

    While records flow, or each of them is committed, most turns are like that. To poll all managers takes longer than
    what there is to do, and tells none of them anything. So

    * after records, the next fetches go out first, at once and without the writer's task (`Connection.send`): they
      depend at most on the validation of positions then (`FetchManager.may_poll_early`). New records wait at the
      broker for them. Then the application is woken: any sooner it would wake up while the network thread holds the
      interpreter, sleep again, and have to be woken twice;
    * a commit is sent as soon as its event is here, and its answer needs nobody but the application that waits for it;
    * if that was all there was, the turn is over, and the other managers are polled when the loop wakes, at most 50 ms
      later. Not where a lag is caught up with: what is done about it depends on how far the records are.

    The loop takes such a turn in the task that has the news (`NetworkLoop.turn_now`), which saves a step of trio's
    scheduler.

    Args:
        notify: makes the application look for records.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._has_records = False
        self._has_commits = False
        self._concerns_others = False

    def note_records(self) -> None:
        """Records are in the buffer: the application is to be woken in this turn."""
        self._has_records = True

    def note_events(self, events: Sequence[ApplicationEvent]) -> None:
        """The managers are told of these in this turn."""
        kinds = {type(event) for event in events}
        self._has_commits = not kinds.isdisjoint(COMMITS)
        self._concerns_others |= not kinds <= CONCERN_NO_OTHERS

    def begin(self, managers: RequestManagers, client: NetworkClient, answers: int, now_ms: float) -> float | None:
        """Begin a turn, after the handlers of this many answers.

        Returns:
            When the next turn is due, if this one may end here.
        """
        fetch, commits = managers.main.fetch, self._commits_alone(managers, answers)
        requests: Sequence[AnyUnsentRequest] = ()
        is_all, wake_at_ms = False, now_ms + OTHERS_WAIT_MS
        if fetch.may_poll_early:
            requests, fetch_at_ms = _poll_fetches(managers.main, now_ms)
            wake_at_ms = min(wake_at_ms, fetch_at_ms)
            is_all = bool(requests) and answers == 1
        elif commits is not None:
            requests, commits_at_ms = commits.poll(now_ms)
            wake_at_ms = min(wake_at_ms, commits_at_ms)
            is_all = not commits.needs_others
        if requests:
            client.send(requests, now_ms)
            wake_at_ms = min(wake_at_ms, client.poll(now_ms))
        self._announce()
        return wake_at_ms if is_all and len(managers.cursors) == 1 else None

    def end(self) -> None:
        """This turn is no short one: all managers are polled."""
        self._concerns_others = False

    def _commits_alone(self, managers: RequestManagers, answers: int) -> OffsetCommitManager | None:
        """The manager of commits, if all news are its own: new commits, or the answer to one."""
        has_commits, self._has_commits = self._has_commits, False
        commits = managers.offset_commit
        if self._concerns_others or not isinstance(commits, OffsetCommitManager):
            return None
        is_news = commits.has_settled if answers == 1 else has_commits and not answers
        return commits if is_news else None

    def _announce(self) -> None:
        if self._has_records:
            self._has_records = False
            self._notify()


def _poll_fetches(cursor: AnyCursor, now_ms: float) -> PollResult:
    """The next fetches. Where a position is to be validated, that comes first, as in each turn: until it is, nothing
    is fetched there."""
    if not cursor.validation.has_news:
        return cursor.fetch.poll(now_ms)
    validation, fetches = cursor.validation.poll(now_ms), cursor.fetch.poll(now_ms)
    wake_at_ms = min(validation.wake_at_ms, fetches.wake_at_ms)
    return PollResult([*validation.requests, *fetches.requests], wake_at_ms)
