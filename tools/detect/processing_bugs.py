"""Bugs to plant in `kwire.processing`: worlds whose members run a `Processor` have to find them.

Two are not among them, though each breaks a promise. Where the next user of a consumer begins
(`CompletionTracker.begins_at`) is wrong only if a processor ends just where a map begins, or if the log of a partition
that is quiet is cut between two processors and grows beyond its old end before the first fetch. No world draws these
moments; stories tell them, in `tests/processing/test_processor_lives.py`.
"""

from __future__ import annotations

from tools.detect.bug import Bug

PROCESSING_BUGS: tuple[Bug, ...] = (
    # --- what may be committed --------------------------------------------------------------------------------
    Bug(
        name="state-clean-on-send",
        story="a commit counts as done when it is sent: one that fails is never made again",
        file="processing/tracker.py",
        old="        self._offered = None if offer == self._acknowledged else offer\n",
        new="        self._offered, self._acknowledged = None if offer == self._acknowledged else offer, offer\n",
    ),
    Bug(
        name="commits-the-position",
        story="what is in work counts as done, and is lost with the process",
        file="processing/tracker.py",
        old="        return next(offset for offset in self._deliveries[0] if offset in self._unfinished)\n",
        new="        return self._position\n",
    ),
    Bug(
        name="map-base-read-twice",
        story="the map is laid from twice the committed offset on: it speaks of other records",
        file="processing/offset_map.py",
        old="    edges = accumulate(runs, initial=base)\n",
        new="    edges = accumulate(runs, initial=base + base)\n",
    ),
    Bug(
        name="map-not-read",
        story="what an earlier life finished out of order is done again",
        file="processing/completion_tracker.py",
        old="                progress.take_over(at)\n",
        new="                pass\n",
    ),
    Bug(
        name="gives-up-without-commit",
        story="what was done since the last commit is done again by the next owner",
        file="processing/commits.py",
        old="        offers = self._completion.offers(partitions)\n        if not offers:\n            return\n",
        new="        offers = self._completion.offers(partitions)\n        if offers:\n            return\n",
    ),
    Bug(
        name="commits-end-with-a-failure",
        story="a commit that failed counts as under way for ever",
        file="processing/commits.py",
        old="        self._is_under_way = False\n        self._error = error",
        new="        self._is_under_way = error is not None\n        self._error = error",
    ),
    # --- order ------------------------------------------------------------------------------------------------
    Bug(
        name="key-queue-freed-too-soon",
        story="two workers have records of one key at the same time",
        file="processing/partition_queues.py",
        old="        self._closed.update(keys)\n        self._closed.discard(None)\n        return taken, keys\n",
        new="        self._closed.update(())\n        self._closed.discard(None)\n        return taken, keys\n",
    ),
    Bug(
        name="partition-queue-freed-too-soon",
        story="two workers have records of one partition at the same time",
        file="processing/partition_queues.py",
        old="        self._is_open = False\n        taken = self._next(",
        new="        self._is_open = True\n        taken = self._next(",
    ),
    Bug(
        name="failed-counts-as-done",
        story="a record whose handler failed is never tried again",
        file="processing/dispatcher.py",
        old="            run.put_back()\n",
        new="            run.error = None\n",
    ),
    # --- what comes and goes ----------------------------------------------------------------------------------
    Bug(
        name="all-paused-for-one",
        story="one slow partition keeps all others from being fetched",
        file="processing/backpressure.py",
        old="            self._hold(cursor, (closed & held | self._full(cursor, len(assigned))) & assigned)\n",
        new="            self._hold(cursor, assigned if self._full(cursor, len(assigned)) else closed & held)\n",
    ),
    Bug(
        name="paused-for-ever",
        story="what was paused is never resumed",
        file="processing/backpressure.py",
        old="            self._positions.set_backpressure(end, cursor, is_on=False)\n",
        new="            self._positions.set_backpressure(end, cursor, is_on=True)\n",
    ),
    Bug(
        name="counter-leak",
        story="records that are dropped when a partition goes are counted as buffered for ever",
        file="processing/dispatcher.py",
        old="            self.usage.remove(source, self._queues.drop((source,)))\n",
        new="            self._queues.drop((source,))\n",
    ),
    Bug(
        name="counter-leak-in-queues",
        story="status says for ever that records wait",
        file="processing/ordered_queues.py",
        old="        self.waiting -= len(gone)\n        return gone\n",
        new="        self.waiting -= 0\n        return gone\n",
    ),
    Bug(
        name="drops-what-it-keeps",
        story="records of partitions that stay are forgotten when others go",
        file="processing/processor_loop.py",
        old='end, commit, and forget the partitions."""\n        self.dispatcher.drop(partitions)\n',
        new='end, commit, and forget the partitions."""\n        self.dispatcher.drop_all()\n',
    ),
    Bug(
        name="gives-up-what-is-in-work",
        story="a partition goes to its next owner while its records are being worked on",
        file="processing/processor_loop.py",
        old="        while (busy := self.dispatcher.busy_with(partitions)) and not (until := deadline()).expired:\n",
        new="        while (busy := self.dispatcher.busy_with(partitions)) and (until := deadline()).expired:\n",
    ),
    Bug(
        name="workers-end-unheard",
        story="nobody is woken when a worker has ended: the next record waits for the poll to be over",
        file="processing/processor_loop.py",
        old="        self.dispatcher.ended.put(run)\n        self._wake_poll()\n",
        new="        self.dispatcher.ended.put(run)\n        _wake_nobody()\n",
    ),
)
