"""What parallel rebalance reads from and writes to its two commit logs: recovery of a partition, claims, and commits.

The group's log is read and written as a member, `<group>.head` as nobody in particular: it is a group without members,
with a coordinator of its own. A new owner claims a partition first: it writes a token of its incarnation to the group's
log, which the coordinator takes from members of this generation alone. What a former owner still writes to the head's
log is of another incarnation, and nobody believes it. A claim holds back neither records nor the child's commits.
"""

from __future__ import annotations

from kwire.clock import NEVER_MS
from kwire.commit_metadata import users_metadata
from kwire.errors import KafkaError
from kwire.events import BackgroundEvent, Commit, CommitAsync, CommitCompleted, Reply, ReplyPart
from kwire.logs import part_logger
from kwire.managers.base import RequestState
from kwire.managers.find_coordinator import FindCoordinatorManager
from kwire.managers.lag_policy import LagContext, LagPolicy
from kwire.managers.membership import NoMembership
from kwire.managers.offset_commit import OffsetCommitManager
from kwire.managers.offset_fetch import Committed, OffsetFetchManager
from kwire.managers.unsent import AnyUnsentRequest, PollResult
from kwire.model import OffsetAndMetadata, TopicPartition
from kwire.parallel_rebalance.catch_up import CatchUpManager
from kwire.parallel_rebalance.commit_logs import CommitSplitter, HeadLog, LowWaterLog, Split
from kwire.parallel_rebalance.joint_commits import JointCallback, JointReply
from kwire.parallel_rebalance.recovery import recover
from kwire.parallel_rebalance.token import decode, head_group

log = part_logger("catch_up")


class TwoLogCommits:
    """Commits to the group's log and the head's, and the look-up of what both have."""

    def __init__(self, context: LagContext, catch_up: CatchUpManager) -> None:
        shared = context.cursors
        config, metadata, deliver, backoff = shared.config, shared.metadata, shared.deliver, shared.backoff
        assert config.group_id is not None
        group_id = head_group(config.group_id)
        self._main = main = context.main
        self._catch_up = catch_up
        self._deliver = deliver
        self._offset_fetch = context.offset_fetch
        self._splitter = CommitSplitter(main, catch_up)
        self.head_coordinator = FindCoordinatorManager(group_id, backoff, deliver)
        no_membership = NoMembership(group_id, lambda: context.member.blocks_coordinator)
        self._head_fetch = OffsetFetchManager(group_id, self.head_coordinator, no_membership, backoff)
        low_log = LowWaterLog(config.group_id, main, self._splitter)
        self._low_commit = OffsetCommitManager(
            config, main, metadata, context.coordinator, context.member, self._on_part_done, backoff, low_log
        )
        head_log = HeadLog(group_id, self._splitter)
        self._head_commit = OffsetCommitManager(
            config, main, metadata, self.head_coordinator, no_membership, self._on_part_done, backoff, head_log
        )
        self._claim: Reply[None] | None = None
        self._claiming = RequestState(backoff)

    # --- recovery -------------------------------------------------------------------------------------------

    def look_up(self, partitions: frozenset[TopicPartition], reply: Reply[Committed]) -> None:
        """Ask the group's log, then the head's for partitions that have a token; answer where the head goes on."""

        def on_group() -> None:
            if of_group.fails_whole():
                return
            found = of_group.result()
            tokens = frozenset(tp for tp, each in found.items() if each is not None and decode(each.metadata))
            if tokens:
                self._head_fetch.look_up(tokens, of_head)
            else:
                reply.succeed(self._recover(found, {}))

        def on_head() -> None:
            if not of_head.fails_whole():
                reply.succeed(self._recover(of_group.result(), of_head.result()))

        of_group, of_head = ReplyPart[Committed](reply, on_group), ReplyPart[Committed](reply, on_head)
        self._offset_fetch.look_up(partitions, of_group)

    def _recover(self, committed: Committed, heads: Committed) -> Committed:
        positions: Committed = {}
        for tp, found in committed.items():
            positions[tp] = found
            if found is not None and tp in self._main.initializing:
                recovered = recover(found, heads.get(tp), self._catch_up.topic_id(tp))
                positions[tp] = recovered.head
                self._catch_up.recovered(tp, recovered)
        return positions

    # --- commits --------------------------------------------------------------------------------------------

    def commit(self, event: Commit) -> None:
        """As `OffsetCommitManager.commit`."""
        low, head = self._split(event)
        joint = JointReply(event.reply, 2)
        self._low_commit.commit(Commit(low, joint.parts[0], event.is_last))
        self._head_commit.commit(Commit(head, joint.parts[1], event.is_last))

    def commit_async(self, event: CommitAsync, now_ms: float) -> None:
        """As `OffsetCommitManager.commit_async`."""
        low, head = self._split(event)
        callback = None
        if event.callback is not None:
            shown = {tp: _shown(position) for tp, position in low.items()} if event.offsets is None else event.offsets
            callback = JointCallback(self._deliver, event.callback, shown, 2).part_done
        self._low_commit.commit_async(CommitAsync(low, callback), now_ms)
        self._head_commit.commit_async(CommitAsync(head, callback), now_ms)

    def auto_commit(self, now_ms: float) -> None:
        """As `OffsetCommitManager.auto_commit`. Their timers are apart as well."""
        self._low_commit.auto_commit(now_ms)
        self._head_commit.auto_commit(now_ms)

    def _split(self, event: Commit | CommitAsync) -> Split:
        if event.processed is not None:
            return self._splitter.processed(event.processed)
        return self._splitter.delivered() if event.offsets is None else self._splitter.asked(event.offsets)

    def _on_part_done(self, event: BackgroundEvent) -> None:
        """A part of an asynchronous commit has its outcome; its callback is one of ours."""
        assert isinstance(event, CommitCompleted)
        event.callback(event.offsets, event.error)

    @property
    def idle(self) -> bool:
        return self._low_commit.idle and self._head_commit.idle

    def close(self) -> None:
        self._low_commit.close()
        self._head_commit.close()
        self.head_coordinator.close()

    # --- claims ---------------------------------------------------------------------------------------------

    def _look_after_claim(self, now_ms: float) -> float:
        """Claim what is not claimed; when to look again."""
        if self._claim is not None and self._claim.done:
            self._end_claim(self._claim, now_ms)
        if self._claim is not None or not self._catch_up.unclaimed:
            return NEVER_MS
        if not self._claiming.ready(now_ms):
            return self._claiming.wake_at_ms
        self._catch_up.refresh()
        states = self._catch_up.states
        offsets = {tp: states[tp].low_water() for tp in sorted(self._catch_up.unclaimed) if states[tp].undone}
        if offsets:
            self._claim = Reply()
            self._claiming.sent()
            self._low_commit.commit(Commit(offsets, self._claim))
        return NEVER_MS

    def _end_claim(self, claim: Reply[None], now_ms: float) -> None:
        self._claim = None
        try:
            claim.result()
        except KafkaError as error:
            log.info("the claim of what is to be caught up has to be repeated: %s", error)
            self._claiming.failed(now_ms)
        else:
            if self._catch_up.unclaimed:
                self._claiming.again(now_ms)  # of another incarnation by now, or of other partitions
            else:
                self._claiming.succeeded()

    # --- the loop -------------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> PollResult:
        claim_at_ms = self._look_after_claim(now_ms)
        requests: list[AnyUnsentRequest] = []
        wake_at_ms = claim_at_ms
        for manager in (self._low_commit, self._head_commit, self._head_fetch, self.head_coordinator):
            result = manager.poll(now_ms)
            requests += result.requests
            wake_at_ms = min(wake_at_ms, result.wake_at_ms)
        return PollResult(requests, wake_at_ms)


def parallel_rebalance(context: LagContext) -> LagPolicy:
    """The policy with which lags are caught up with beside what is new."""
    catch_up = CatchUpManager(context)
    catch_up.commits = catch_up.committed = TwoLogCommits(context, catch_up)
    return catch_up


def _shown(position: OffsetAndMetadata) -> OffsetAndMetadata:
    return OffsetAndMetadata(position.offset, users_metadata(position.metadata), position.leader_epoch)
