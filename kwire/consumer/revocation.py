"""Which partitions are asked back, which of them wait another poll, and which were lost: the three lists of KIP-983.

Contract: pure, and used by the application thread alone. `callbacks.py` tells it what happens, in the order in which a
poll goes; the consumer's methods and `Records` show it.

A poll that raises has told nobody anything. So the one after it completes no revoke, and forgets no loss, unless the
application has looked at the lists meanwhile.
"""

from __future__ import annotations

from kwire.model import Partitions

NONE: Partitions = frozenset()


class Revocation:
    """The partitions that are to be given back, that wait another poll, and that were lost. One for each consumer."""

    __slots__ = ("_is_told", "has_news", "lost", "revoke_next", "revoke_thereafter")

    def __init__(self) -> None:
        self.revoke_next = NONE
        """These are given up when the next poll begins."""
        self.revoke_thereafter = NONE
        """Delayed: they come onto the first list with the next poll."""
        self.lost = NONE
        """What was lost in the last poll."""
        self.has_news = False
        """Whether there is something new since the poll began, so that it should return."""
        self._is_told = True

    # --- what the application does --------------------------------------------------------------------------

    def look(self) -> Partitions:
        """The revoke-next list. A caller that asks knows of it, even if the poll raised."""
        self._is_told = True
        return self.revoke_next

    def delay(self, partitions: Partitions) -> bool:
        """Move these from the first list to the second. False when some of them were lost; the others are delayed all
        the same: that one partition is lost must not cost another the records that are in work."""
        moved = self.look() & partitions
        self.revoke_next -= moved
        self.revoke_thereafter |= moved
        return not partitions & self.lost

    # --- what happens in a poll -----------------------------------------------------------------------------

    @property
    def due(self) -> Partitions:
        """The partitions whose revoke the next poll completes when it begins."""
        return self.revoke_next if self._is_told else NONE

    @property
    def is_quiet(self) -> bool:
        """Whether a poll has nothing to do with the lists, for they are empty, and has nothing to tell."""
        return not (self.revoke_next or self.revoke_thereafter or self.lost or self.has_news)

    def begin_poll(self) -> Partitions:
        """Take what is due off the list, and return it; what was delayed moves to the first list."""
        due = self.due
        self.has_news = self.has_news and not self._is_told
        if self._is_told:
            self._is_told = False
            self.revoke_next = self.revoke_thereafter
            self.revoke_thereafter = self.lost = NONE
        return due

    def end_poll(self) -> None:
        """The poll returns, and with it what there is to tell."""
        self._is_told = True

    def undo_poll(self) -> None:
        """The poll has raised after all: a signal handler raised while it was about to return."""
        self._is_told = False

    def request(self, partitions: Partitions) -> None:
        """The group wants these back."""
        self.revoke_next |= partitions
        self.has_news = self.has_news or bool(partitions)

    def lose(self, partitions: Partitions) -> None:
        """These are lost: the group may have given them away, or the time to give them back is over."""
        self.revoke_next -= partitions
        self.revoke_thereafter -= partitions
        self.lost |= partitions
        self.has_news = self.has_news or bool(partitions)

    def clear(self) -> None:
        """The application gives up everything by itself."""
        self.revoke_next = self.revoke_thereafter = NONE

    @property
    def pending(self) -> Partitions:
        """What is asked back and not yet given up, delayed or not."""
        return self.revoke_next | self.revoke_thereafter
