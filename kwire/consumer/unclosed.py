"""What becomes of a consumer that nobody closes: one that is collected, or still open when the interpreter ends.

Its member must not stay in the group until the session times out. It commits the records that the application has
polled on from; those it was handed last may never have been processed. The garbage collector runs anywhere, also inside
a lock of kwire's own, so a collected consumer is not waited for, and nothing locked is touched. At the end of the
interpreter all open consumers leave their groups side by side, for no longer than `EXIT_MS`. Those that have begun to
leave are waited for as well: consumers that were collected, as the variables of `main()` are when it returns, and those
whose `close()` was interrupted.
"""

from __future__ import annotations

import atexit
import inspect
import warnings
import weakref
from typing import NamedTuple

from kwire.clock import Deadline, monotonic_ms
from kwire.consumer.forks import look_for_fork
from kwire.consumer.live import Live
from kwire.consumer.network_link import NetworkLink
from kwire.events import CommitAsync
from kwire.logs import client_fields, logged_as, part_logger
from kwire.network.thread import NetworkSide, NetworkThread

log = part_logger("group")

# One thread may poll several consumers in turns: one that was polled within this time is in use.
IDLE_MS = 1_000.0
# A few round trips to a coordinator that is there; one that is not must not keep a program from ending.
EXIT_MS = 2_000.0


class Origin(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Unclosed:
    """Ends a network thread, unless `detach` or `note_end` is called first. Held by what it belongs to, `holder`.

    The network thread must know nothing of the holder, so that it can be collected.

    Attributes:
        origin: The line that made the consumer.
        polled_by: The thread that polled it last.
    """

    polled_by: int | None = None

    def __init__(self, holder: object, link: NetworkLink) -> None:
        self.origin = line_of_user()
        self._link = link
        self._told = False
        self._finalizer = weakref.finalize(holder, _end_collected, link, self.origin)
        self._finalizer.atexit = False  # `_end_all` does more
        _open.add(self)

    def tell_of_rival(self) -> None:
        """A poll of a member without partitions begins. Warns once if another open consumer of this group, last polled
        by this thread, holds the partitions. This happens when a notebook cell is interrupted and run again: the
        traceback still holds the first consumer."""
        if self._told:
            return
        now_ms = monotonic_ms()
        rival = next((each for each in _open.all() if self._is_kept_waiting_by(each, now_ms)), None)
        if rival is not None:
            self._told = True
            with logged_as(client_fields(self._link.client_id, self._link.config.group_id)):
                log.warning(
                    "%s, made at %s, gets no partitions while %s, made at %s, is open in the same group and not "
                    "polled; close() that one, or poll it",
                    *(self._link.client_id, self.origin, rival._link.client_id, rival.origin),
                )

    def _is_kept_waiting_by(self, other: Unclosed, now_ms: float) -> bool:
        mine, its = self._link, other._link
        instance_id = mine.config.group_instance_id
        return (
            other is not self
            and (instance_id is None or instance_id != its.config.group_instance_id)  # else one fences the other
            and other.polled_by == self.polled_by
            and (its.config.group_id, its.config.bootstrap_servers)
            == (mine.config.group_id, mine.config.bootstrap_servers)
            and bool(its.mailbox.view.epochs)
            and now_ms - its.mailbox.polled_at_ms > IDLE_MS
        )

    def detach(self) -> None:
        """Do not end the network thread: it is another process's, or has not begun."""
        self._finalizer.detach()
        _open.discard(self)
        _ending.discard(self._link.thread)

    def note_end(self) -> None:
        """The network thread was told to end, and may still be at it."""
        self.detach()
        _note_end(self._link)

    def end(self) -> None:
        """The interpreter ends: begin to end the network thread as well."""
        _post_end(self._link, EXIT_MS)
        self.note_end()

    def warn(self) -> None:
        """Say that somebody should have closed it."""
        _warn(self._link, self.origin)


_open: Live[Unclosed] = Live()
# Held by themselves, as long as they run.
_ending: Live[NetworkSide] = Live()


def line_of_user() -> Origin:
    """The line outside of kwire that led here."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("kwire", "typing"):
        frame = frame.f_back
    return Origin("unknown", 0) if frame is None else Origin(frame.f_code.co_filename, frame.f_lineno)


def _end_collected(link: NetworkLink, origin: Origin) -> None:
    _post_end(link, float(link.config.close_timeout_ms))
    _note_end(link)
    _warn(link, origin)


def _post_end(link: NetworkLink, timeout_ms: float) -> None:
    if link.config.enable_auto_commit and link.config.group_id is not None:
        link.mailbox.post(CommitAsync(None, None))
    link.post_close(monotonic_ms() + min(timeout_ms, link.config.close_timeout_ms))


def _note_end(link: NetworkLink) -> None:
    if link.mailbox.is_attached:
        _ending.add(link.thread)


def _warn(link: NetworkLink, origin: Origin) -> None:
    """The line that is named is the user's: that is where a `with` is missing."""
    text = f"unclosed consumer {link.identity}, made at {origin}: close() it, or use `with` (`async with`)"
    warnings.warn_explicit(text, ResourceWarning, origin.file, origin.line)


@atexit.register
def _end_all() -> None:
    look_for_fork()
    deadline = Deadline.after(EXIT_MS)
    unclosed = _open.all()
    for each in unclosed:
        each.end()
    for side in _ending.all():
        if isinstance(side, NetworkThread):
            side.join(deadline)
    for each in unclosed:
        each.warn()
