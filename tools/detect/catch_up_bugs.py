"""Bugs to plant in parallel rebalance: each replaces one line, and a world of crash orders has to find it.

As `bugs.py`.
"""

from __future__ import annotations

from tools.detect.bug import Bug

CATCH_UP_BUGS: tuple[Bug, ...] = (
    # --- the token, and what is made of it --------------------------------------------------------------------
    Bug(
        name="token-lost",
        story="the group's log says nothing of ranges, so all behind its offset is read again",
        file="parallel_rebalance/state.py",
        old="        return OffsetAndMetadata(low, encode(token), self._epochs.get(low))\n",
        new="        return OffsetAndMetadata(low, self._metadata, self._epochs.get(low))\n",
        in_catch_up=True,
    ),
    Bug(
        name="token-without-first-range",
        story="a successor skips the range that was to be caught up first",
        file="parallel_rebalance/state.py",
        old="            self.incarnation, self.topic_id, self.undone, ",
        new="            self.incarnation, self.topic_id, self.undone[1:], ",
        in_catch_up=True,
    ),
    Bug(
        name="ranges-forgotten-at-recovery",
        story="a successor goes on at the head, and nobody catches up with what was left",
        file="parallel_rebalance/recovery.py",
        old="    return Recovered(low, undone, position)\n",
        new="    return Recovered(low, NOTHING, position)\n",
        in_catch_up=True,
    ),
    Bug(
        name="head-log-not-read",
        story="what a former owner had committed of the head alone comes again",
        file="parallel_rebalance/recovery.py",
        old="    if head is not None and head.offset > position.offset and _is_of(token, head, topic_id):\n",
        new="    if False:\n",
        in_catch_up=True,
    ),
    Bug(
        name="head-log-of-any-incarnation",
        story="a head from before the log was cut is believed, and what is new in front of it is skipped",
        file="parallel_rebalance/recovery.py",
        old="    return mark is not None and mark.incarnation == token.incarnation and _same(",
        new="    return mark is not None and _same(",
        in_catch_up=True,
    ),
    # --- what counts as done ----------------------------------------------------------------------------------
    Bug(
        name="committed-ahead-of-the-child",
        story="the group's offset is the head's, so a client that knows nothing of ranges skips them",
        file="parallel_rebalance/state.py",
        old="        low = self.undone[0].start\n",
        new="        low = self.head.offset\n",
        in_catch_up=True,
    ),
    Bug(
        name="commit-ends-all-ranges",
        story="a commit counts all that was to be caught up as done",
        file="parallel_rebalance/state.py",
        old="        self.undone -= self.delivered\n",
        new="        self.undone -= self.undone\n",
        in_catch_up=True,
    ),
    Bug(
        name="buffered-counts-as-given",
        story="what a child has fetched is committed, and lost with the process",
        file="parallel_rebalance/lag_positions.py",
        old="        position = self.subscription.partitions[tp].consumed\n",
        new="        position = OffsetAndMetadata(self.subscription.partitions[tp].fetch_offset)\n",
        in_catch_up=True,
    ),
    Bug(
        name="part-counts-as-given",
        story="with a child's first records all of its part counts as given",
        file="parallel_rebalance/catch_up.py",
        old="            state.note_delivered(range(part.start, part.stop), position)\n",
        new="            state.note_delivered(range(part.start, part.stop), OffsetAndMetadata(part.stop))\n",
        in_catch_up=True,
    ),
    Bug(
        name="commit-of-a-part-counts-for-all",
        story="a commit of what one cursor was given counts for what others have not been given yet",
        file="parallel_rebalance/state.py",
        old="        done = self.delivered.within(range(found.start, position.offset))\n",
        new="        done = self.undone\n",
        in_catch_up=True,
    ),
    # --- who reads what ---------------------------------------------------------------------------------------
    Bug(
        name="ranges-overlap",
        story="the main cursor stays where it was, and reads what its child reads",
        file="parallel_rebalance/catch_up.py",
        old="            self._main.fire(tp, PartitionEvent.SEEK, position=end)",
        new="            self._main.fire(tp, PartitionEvent.SEEK, position=position if position else end)",
        in_catch_up=True,
    ),
    Bug(
        name="child-end-ignored",
        story="a child reads on behind its part, where the main cursor reads",
        file="parallel_rebalance/lag_positions.py",
        old="        self.subscription.partitions[tp].stop_offset = part.stop\n",
        new="        self.subscription.partitions[tp].stop_offset = None\n",
        in_catch_up=True,
    ),
)
