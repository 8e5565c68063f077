"""Bugs to plant in kwire: each replaces one line, and a simulated world has to find it. Long, because it is a table.

`old` occurs exactly once in its file, and differs from `new` in one line; further lines only say where. A test checks
that, so the table cannot fall behind the code. Planted by `detect_cli.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """Args:
    name: what went wrong, in a few words with dashes.
    story: what users of it would see.
    file: below `kwire/`.
    """

    name: str
    story: str
    file: str
    old: str
    new: str


BUGS: tuple[Bug, ...] = (
    # --- commits ----------------------------------------------------------------------------------------------
    Bug(
        name="commits-the-fetch-position",
        story="what is buffered counts as delivered, and is lost with the member",
        file="subscription/subscription.py",
        old="            tp: partition.consumed\n",
        new="            tp: OffsetAndMetadata(partition.fetch_offset)\n",
    ),
    Bug(
        name="commits-on-handing-out",
        story="auto-commit covers records that the application is still busy with",
        file="consumer/core.py",
        old="        if chunks:\n            self.delivery.hand_out(delivered)\n",
        new="        if chunks:\n            self.mailbox.note(RecordsDelivered(delivered))\n",
    ),
    Bug(
        name="commits-one-too-many",
        story="the position behind a part of a fetch is one record too far",
        file="fetching/open_fetch.py",
        old="OffsetAndMetadata(int(rows.offsets[-1]) + 1,",
        new="OffsetAndMetadata(int(rows.offsets[-1]) + 2,",
    ),
    Bug(
        name="commit-answers-ignored",
        story="a commit that the broker refused is told as done",
        file="managers/offset_commit.py",
        old="return code is ErrorCode.NONE or (self.is_last and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)",
        new="return code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED",
    ),
    Bug(
        name="failed-commits-told-as-done",
        story="whoever waits for a commit never hears that it failed",
        file="managers/offset_commit.py",
        old="        commit.settled, commit.error = True, error\n",
        new="        commit.settled, commit.error = True, None\n",
    ),
    Bug(
        name="commits-as-nobody",
        story="commits carry no generation, so a group with members refuses them",
        file="managers/offset_commit.py",
        old="generation_id_or_member_epoch=identity.generation_id,",
        new="generation_id_or_member_epoch=-1,",
    ),
    Bug(
        name="auto-commit-stops-after-a-failure",
        story="an automatic commit that failed counts as under way for ever",
        file="managers/auto_commit.py",
        old="        self._under_way = False\n        self._again",
        new="        self._under_way = error is not None\n        self._again",
    ),
    Bug(
        name="revokes-without-commit",
        story="what was returned is not committed before partitions are given back",
        file="consumer/callbacks.py",
        old="if event.kind is CallbackKind.REVOKED and self._core.must_commit and self._core.is_member:",
        new="if event.kind is CallbackKind.LOST and self._core.must_commit and self._core.is_member:",
    ),
    Bug(
        name="closes-without-commit",
        story="what the last poll returned is read again after a clean close",
        file="consumer/callbacks.py",
        old="        if self._core.must_commit:\n            self._end_commit(",
        new="        if self._core.must_commit and self._core.assigned_by_hand:\n            self._end_commit(",
    ),
    Bug(
        name="last-commit-forgets-the-last-poll",
        story="the commit in front of a callback covers the poll before the last one only",
        file="consumer/callbacks.py",
        old="        self._core.note_delivered()\n        return self._calls.post",
        new="        self._core.delivery.interrupt()\n        return self._calls.post",
    ),
    Bug(
        name="events-taken-newest-first",
        story="a commit overtakes the note of what it is to cover",
        file="mailbox.py",
        old="events.append(self._to_network.popleft())",
        new="events.append(self._to_network.pop())",
    ),
    # --- positions --------------------------------------------------------------------------------------------
    Bug(
        name="resets-on-retriable-error",
        story="a look-up that has to wait is taken for nothing committed: everything is read again",
        file="managers/offset_fetch.py",
        old="            elif code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:\n",
        new="            else:\n",
    ),
    Bug(
        name="resets-on-refusal",
        story="a look-up that was refused is taken for nothing committed",
        file="managers/offset_fetch.py",
        old="if not error.retriable and not again:\n            lookup.on_failed(error)",
        new="if not error.retriable and not again:\n            lookup.on_found(dict.fromkeys(lookup.missing))",
    ),
    Bug(
        name="resets-on-stale-epoch",
        story="a member whose epoch moved on while it asked starts from the beginning",
        file="managers/offset_fetch.py",
        old="            self._retry(lookup, error, now_ms, again=identity.is_member and ",
        new="            lookup.on_found(dict.fromkeys(lookup.missing)), (identity.is_member and ",
    ),
    Bug(
        name="resets-to-the-end",
        story="auto_offset_reset=earliest goes to the latest record",
        file="managers/positions.py",
        old="                return EARLIEST_TIMESTAMP\n",
        new="                return LATEST_TIMESTAMP\n",
    ),
    Bug(
        name="error-taken-for-no-offset",
        story="a broker that does not lead a partition any more sends the reader to the end of it",
        file="managers/list_offsets.py",
        old="        if code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:\n",
        new="        if code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:\n",
    ),
    Bug(
        name="seek-clobbered-by-a-late-load",
        story="the committed offset arrives behind a seek, and wins",
        file="states/partition.py",
        old="Row(S.INITIALIZING, E.SEEK, S.FETCHING,",
        new="Row(S.INITIALIZING, E.SEEK, S.INITIALIZING,",
    ),
    Bug(
        name="seek-keeps-old-fetches",
        story="records fetched before a seek come after it",
        file="states/partition.py",
        old="Row(S.FETCHING, E.SEEK, S.FETCHING, (F.DROP_BUFFERED, F.SET_POSITION)),",
        new="Row(S.FETCHING, E.SEEK, S.FETCHING, (F.SET_POSITION,)),",
    ),
    Bug(
        name="truncation-unnoticed",
        story="a position beyond the new leader's log is believed",
        file="managers/offset_validation.py",
        old="        elif end.end_offset >= partition.fetch_offset:\n",
        new="        elif end.end_offset >= 0:\n",
    ),
    Bug(
        name="leader-epoch-ignored",
        story="a new leader's log is never compared with the position",
        file="managers/offset_validation.py",
        old="if partition.fetch_epoch is None or leader.epoch < 0:",
        new="if partition.fetch_epoch is None or leader.epoch >= 0:",
    ),
    # --- fetching ---------------------------------------------------------------------------------------------
    Bug(
        name="crc-unchecked",
        story="damaged records are returned as if nothing were wrong",
        file="consumer/core.py",
        old="check_crcs=config.check_crcs,",
        new="check_crcs=False,",
    ),
    Bug(
        name="damaged-batch-skipped",
        story="records behind a wrong checksum are stepped over without a word",
        file="fetching/open_fetch.py",
        old="        if self._error is not None:\n            raise CorruptPartitionError",
        new="        if self._error and self._end is self.position:\n            raise CorruptPartitionError",
    ),
    Bug(
        name="position-behind-damage",
        story="after an error the first good record is skipped",
        file="fetching/open_fetch.py",
        old="raise CorruptPartitionError(self.fetch.topic_partition, self._error, self.position)",
        new="raise CorruptPartitionError(self.fetch.topic_partition, self._error, self._end)",
    ),
    Bug(
        name="batches-from-their-beginning",
        story="a position inside a batch is rounded down",
        file="fetching/open_fetch.py",
        old=(
            "        self._row = int(offsets.searchsorted(position)) if len(offsets) and offsets[0] < position else 0\n"
        ),
        new="        self._row = 0\n",
    ),
    Bug(
        name="fetches-the-last-record-again",
        story="the next fetch begins at the last record of the one before",
        file="managers/fetch.py",
        old="        partition.fetch_offset = batch.next_offset\n",
        new="        partition.fetch_offset = batch.last_offset\n",
    ),
    Bug(
        name="assignment-epoch-unchecked",
        story="a fetch that was half returned goes on behind a seek",
        file="fetching/collector.py",
        old="        return view.epochs.get(tp) == fetch.epoch != self._damaged.get(tp)\n",
        new="        return tp in view.epochs and fetch.epoch != self._damaged.get(tp)\n",
    ),
    Bug(
        name="answers-to-old-fetches-taken",
        story="an answer to a fetch from before a seek is buffered as if asked for since",
        file="managers/fetch.py",
        old="if partition.epoch != spec.epoch or partition.fetch_offset != spec.offset or partition.withheld:",
        new="if partition.withheld:",
    ),
    Bug(
        name="paused-partition-dropped",
        story="what is left of a fetch is thrown away when its partition is paused",
        file="fetching/collector.py",
        old="self._open.fetch.topic_partition in view.withheld:\n                self._put_aside_open()",
        new="self._open.fetch.topic_partition in view.withheld:\n                self._close(self._open)",
    ),
    Bug(
        name="paused-partition-returned",
        story="what is buffered of a paused partition comes all the same",
        file="subscription/subscription.py",
        old="if p.withheld or p.paused or p.suspect),",
        new="if p.withheld or p.suspect),",
    ),
    Bug(
        name="resume-forgotten",
        story="a partition that was resumed is fetched again when metadata happens to come",
        file="subscription/subscription.py",
        old="                self.partitions[tp].paused = paused\n                self.touched.add(tp)\n",
        new="                self.partitions[tp].paused = paused\n                self.touched.discard(tp)\n",
    ),
    Bug(
        name="buffer-room-never-returned",
        story="what was collected counts towards fetch_buffer_bytes for ever",
        file="fetching/buffer.py",
        old='dropped after `take`."""\n        with self._lock:\n            self._add(fetch.topic_partition, -len(',
        new='dropped after `take`."""\n        with self._lock:\n            self._add(fetch.topic_partition, 0 * len(',
    ),
    Bug(
        name="drained-buffer-untold",
        story="a full buffer that was emptied is not filled again until something else happens",
        file="fetching/buffer.py",
        old="if self._wanted_below_bytes is None or self._size_bytes >= self._wanted_below_bytes:",
        new="if self._wanted_below_bytes is None or self._size_bytes >= 0:",
    ),
    Bug(
        name="session-epoch-not-bumped",
        story="the third fetch of each session is refused",
        file="fetching/session.py",
        old="else self._epoch + 1\n",
        new="else max(1, self._epoch)\n",
    ),
    Bug(
        name="session-never-forgets",
        story="brokers go on sending what was revoked",
        file="fetching/session.py",
        old="            if tp in self.sent and (tp not in specs or specs[tp].topic_id != self.sent[tp].topic_id)\n",
        new="            if tp in self.sent and (tp in specs and specs[tp].topic_id != self.sent[tp].topic_id)\n",
    ),
    Bug(
        name="blocked-partition-forgotten",
        story="a partition that met an error is not asked for again",
        file="managers/fetch.py",
        old="            del self._blocked[tp]\n            self._subscription.touched.add(tp)\n",
        new="            del self._blocked[tp]\n            self._subscription.touched.discard(tp)\n",
    ),
    Bug(
        name="aborted-records-returned",
        story="read_committed returns the first batch of an aborted transaction",
        file="fetching/transactions.py",
        old="        while starting and starting[0][1] <= batch.last_offset:\n",
        new="        while starting and starting[0][1] < batch.base_offset:\n",
    ),
    Bug(
        name="aborted-list-lost",
        story="read_committed returns what was aborted",
        file="managers/fetch.py",
        old="aborted=tuple((t.producer_id, t.first_offset) for t in data.aborted_transactions or ()),",
        new="aborted=(),",
    ),
    Bug(
        name="isolation-level-unsent",
        story="brokers are asked for uncommitted records by whoever wants committed ones",
        file="managers/fetch.py",
        old="isolation_level=self._config.isolation_level.value,",
        new="isolation_level=0,",
    ),
    Bug(
        name="position-stays-before-markers",
        story="a partition that ends with a marker always has a lag",
        file="consumer/core.py",
        old="            self.mailbox.note(RecordsDelivered(delivered))  # past records",
        new="            self.delivery.hand_out(())  # past records",
    ),
    # --- the classic protocol ---------------------------------------------------------------------------------
    Bug(
        name="heartbeats-forgotten",
        story="a stable member sends none, and is evicted",
        file="states/classic_group.py",
        old='    S.STABLE: Facts("a timer, or the broker to ask for a rejoin", True, True),\n',
        new='    S.STABLE: Facts("a timer, or the broker to ask for a rejoin", False, True),\n',
    ),
    Bug(
        name="rebalance-unheard",
        story="a member that is told of a rebalance goes on as if not",
        file="managers/classic_group.py",
        old="        if code is ErrorCode.REBALANCE_IN_PROGRESS:\n            self.on_group_rebalancing",
        new="        if code is ErrorCode.GROUP_MAX_SIZE_REACHED:\n            self.on_group_rebalancing",
    ),
    Bug(
        name="rejoins-without-end",
        story="each rebalance asks for the next one",
        file="managers/classic_group.py",
        old="        self._rejoin_wanted = False\n        self._request.sent()",
        new="        self._rejoin_wanted = True\n        self._request.sent()",
    ),
    Bug(
        name="stale-generation-used",
        story="a member goes on with the generation that it joined first",
        file="managers/classic_group.py",
        old="_replace(generation_id=answer.generation_id, member_id",
        new="_replace(generation_id=max(self._identity.generation_id, 1), member_id",
    ),
    Bug(
        name="follow-up-rebalance-forgotten",
        story="what a cooperative member gave up is nobody's",
        file="managers/classic_group.py",
        old="        self._rejoin_wanted = self._plan_follows = True\n",
        new="        self._plan_follows = True\n",
    ),
    Bug(
        name="claims-nothing",
        story="a cooperative member joins without saying what it keeps, so others get it at once",
        file="managers/classic_group.py",
        old="            owned=self._holdings.owned,\n",
        new="            owned=(),\n",
    ),
    Bug(
        name="zombie-keeps-partitions",
        story="a cooperative member that was thrown out keeps what it had",
        file="managers/classic_group.py",
        old="if self.state in _NOTHING_UNDER_WAY and not self._identity.is_member and self._holdings.owned:",
        new="if self.state is ClassicState.UNJOINED and not self._identity.is_member and self._holdings.owned:",
    ),
    Bug(
        name="revokes-without-drain",
        story="partitions that are being given back go on being returned",
        file="states/classic_group.py",
        old="_REVOKE = (F.STOP_FETCHING, F.CALL_REVOKED)\n",
        new="_REVOKE = (F.CALL_REVOKED,)\n",
    ),
    Bug(
        name="leaves-in-silence",
        story="a member that closes does not tell the group, which waits for its session to end",
        file="managers/classic_group.py",
        old="        if leave_group is not False:\n",
        new="        if leave_group is True:\n",
    ),
    Bug(
        name="growth-unnoticed",
        story="partitions that a topic gets later are nobody's",
        file="managers/classic_leader.py",
        old="return partition_counts(self._topics, self._metadata.cluster) != self._assigned_counts",
        new="return False",
    ),
    Bug(
        name="range-overlaps",
        story="two members are given the same partition",
        file="assignors/range.py",
        old="            del self._unassigned[number]\n",
        new="            self._unassigned.pop(number - 1, None)\n",
    ),
    Bug(
        name="coordinator-never-lost",
        story="a broker that says it is not the coordinator goes on being asked",
        file="managers/find_coordinator.py",
        old="COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})",
        new="COORDINATOR_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE})",
    ),
    # --- the consumer protocol --------------------------------------------------------------------------------
    Bug(
        name="heartbeats-stop-after-a-failure",
        story="one lost heartbeat is waited for for ever",
        file="managers/consumer_group.py",
        old="        self._schedule.failed(now_ms)\n        self._heartbeats.forget()\n",
        new="        self._schedule.hurry()\n        self._heartbeats.forget()\n",
    ),
    Bug(
        name="stale-epoch-used",
        story="a member goes on with the epoch that it joined with",
        file="managers/consumer_group.py",
        old="        self._set_epoch(answer.member_epoch)\n        self._take_target",
        new="        self._set_epoch(max(self._epoch, 1))\n        self._take_target",
    ),
    Bug(
        name="unknown-member-gives-up",
        story="a member that was thrown out while it slept never comes back",
        file="managers/consumer_heartbeat.py",
        old="        case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:\n",
        new="        case ErrorCode.FENCED_MEMBER_EPOCH:\n",
    ),
    Bug(
        name="lost-callback-skipped",
        story="a member that is fenced takes back what it gave out without telling the application",
        file="states/consumer_group.py",
        old="_LOSE = (F.FORGET_MEMBER, F.IGNORE_ANSWERS, F.STOP_FETCHING, F.CALL_LOST)\n",
        new="_LOSE = (F.FORGET_MEMBER, F.IGNORE_ANSWERS, F.STOP_FETCHING)\n",
    ),
    Bug(
        name="keeps-reading-while-giving-back",
        story="records come from partitions whose last commit is on its way",
        file="managers/consumer_reconciliation.py",
        old="            self._subscription.withhold(leaving)\n",
        new="            self._subscription.withhold(())\n",
    ),
    Bug(
        name="closes-without-farewell",
        story="the group keeps a closed member until its session ends",
        file="managers/consumer_group.py",
        old="        if leave_group is False and self._config.group_instance_id is None:\n",
        new="        if leave_group is not True and self._config.group_instance_id is None:\n",
    ),
    # --- the application's side -------------------------------------------------------------------------------
    Bug(
        name="revoked-twice",
        story="partitions that were revoked are revoked again at the end",
        file="consumer/core.py",
        old="        if event.kind is not CallbackKind.ASSIGNED:\n            self.assignment -=",
        new="        if event.kind is CallbackKind.LOST:\n            self.assignment -=",
    ),
    Bug(
        name="wake-up-missed",
        story="what happens between a look and the sleep behind it is slept over",
        file="mailbox.py",
        old="            if self._signal == seen:\n",
        new="            if self._signal >= seen:\n",
    ),
    Bug(
        name="network-not-woken",
        story="what the application asks for waits for the next heartbeat",
        file="mailbox.py",
        old="        self._to_network.append(event)\n        self.wake_network()\n",
        new="        self._to_network.append(event)\n        self.notify()\n",
    ),
    Bug(
        name="wake-up-during-a-turn-missed",
        story="what happens while the network side is busy waits for its next timer",
        file="network/loop.py",
        old="    def wake(self) -> None:\n        self._event.set()\n",
        new="    def wake(self) -> None:\n        _ = self._asleep is None or self._event.set()\n",
    ),
    # --- the network ------------------------------------------------------------------------------------------
    Bug(
        name="no-request-timeout",
        story="a connection that owes an answer is waited for for ever",
        file="network/client.py",
        old="            return connection.expires_at_ms\n",
        new="            return NEVER_MS\n",
    ),
    Bug(
        name="broken-connection-untold",
        story="whoever waits for an answer never hears that the connection is gone",
        file="network/connection.py",
        old="for unsent, _ in self._in_flight:\n            self._completed.append(partial(unsent.on_failure, error)",
        new="for unsent, _ in self._in_flight:\n            self._completed.append(partial(max, 0.0)",
    ),
    Bug(
        name="half-a-frame-sent",
        story="what does not fit into the socket's buffer is dropped",
        file="network/connection.py",
        old="            frame = frame[self._stream.send_now(frame) :]\n",
        new='            frame = b"" if self._stream.send_now(frame) else frame\n',
    ),
    Bug(
        name="frames-overtake",
        story="a request is written into the middle of another one",
        file="network/connection.py",
        old="        if not self._outgoing:\n            frame =",
        new="        if self._stream:\n            frame =",
    ),
    Bug(
        name="no-back-off",
        story="whatever fails is tried again at once, for as long as it fails",
        file="managers/base.py",
        old="        self.not_before_ms = now_ms + self._backoff.delay_ms(self.failures)\n",
        new="        self.not_before_ms = now_ms\n",
    ),
)
