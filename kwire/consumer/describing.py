"""What `Consumer.describe()` does: asks the network thread, for a moment, and adds what the application's side knows.

Any thread may ask, at any time; nothing here is changed. Facades that do not block drive the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kwire.clock import NEVER_MS, Deadline, monotonic_ms
from kwire.config import ConsumerConfig
from kwire.consumer.arguments import checked_max_lag
from kwire.consumer.network_link import NetworkLink
from kwire.consumer.state import ConsumerState, RegistryWait
from kwire.consumer.steps import Steps, Wait
from kwire.description.consumer_description import ConsumerDescription
from kwire.description.health import Bounds, Health, health_of
from kwire.description.values import (
    Cause,
    CauseKind,
    GroupDescription,
    PartitionDescription,
    SubscriptionDescription,
    age_s,
)
from kwire.events import AssignmentView, Describe
from kwire.holds import HOLD_FACTS, Hold
from kwire.model import K, TopicPartition, V

# The network thread answers in its next turn, which is a matter of microseconds where it is let run.
ANSWER_MS = 1_000.0


def describe(state: ConsumerState[K, V]) -> Steps[ConsumerDescription]:
    """How the consumer stands."""
    known = yield from _ask(state.link)
    if known is None:
        known = _without_network_thread(state)
    now_ms, polled_at_ms = monotonic_ms(), state.link.mailbox.polled_at_ms
    return replace(
        known,
        client_id=state.link.client_id,
        last_poll_s=age_s(polled_at_ms, now_ms) if state.link.metrics.polls.has_begun else None,
        is_polling=polled_at_ms == NEVER_MS,
        causes=(*_application_causes(state, known, now_ms), *known.causes),
    )


def health(state: ConsumerState[K, V], max_lag: int | None) -> Steps[Health]:
    """Whether it is alive."""
    bounds = Bounds(
        session_timeout_s=state.config.session_timeout_ms / 1000.0,
        max_poll_interval_s=state.config.max_poll_interval_ms / 1000.0,
        max_lag=checked_max_lag(max_lag),
    )
    return health_of((yield from describe(state)), bounds)


def _ask(link: NetworkLink) -> Steps[ConsumerDescription | None]:
    """None, if there is no answer in time."""
    if _is_gone(link):
        return None
    reply = link.post(Describe)
    deadline = Deadline.after(ANSWER_MS)
    while True:
        seen = link.mailbox.signal()
        if reply.done:
            return reply.result()
        if deadline.expired or _is_gone(link):
            reply.abandon()
            return None
        yield Wait(seen, deadline, reply=reply)


def _is_gone(link: NetworkLink) -> bool:
    return link.mailbox.failure is not None or not link.mailbox.is_attached


def _application_causes(state: ConsumerState[K, V], known: ConsumerDescription, now_ms: float) -> Iterator[Cause]:
    if (callback := state.callback) is not None:
        kind, since_ms = callback
        yield Cause(
            kind=CauseKind.CALLBACK_RUNS,
            text=f"on_partitions_{kind.name.lower()} of the rebalance listener runs, and polls wait for it",
            for_s=age_s(since_ms, now_ms),
        )
    for tp, wait in _registry_waits(state, known):
        yield Cause(
            kind=CauseKind.REGISTRY_DOWN,
            text=f"the next record of {tp} waits for the schema registry",
            error=wait.error,
            for_s=age_s(wait.since_ms, now_ms),
        )
    if known.subscription is None and not state.closed:
        yield Cause(kind=CauseKind.NOT_SUBSCRIBED, text="no topic is subscribed, and no partition assigned")


def _registry_waits(
    state: ConsumerState[K, V], known: ConsumerDescription
) -> Iterator[tuple[TopicPartition, RegistryWait]]:
    """Those that polls meet again: nothing waits of what is paused, given up or sought past."""
    if state.closed:
        return
    view = state.view
    positions = {(each.topic, each.partition): each.position for each in known.partitions}
    for tp, wait in sorted(state.registry_waits.copy().items()):
        position = positions.get((tp.topic, tp.partition))
        is_polled = tp in state.assignment and tp in view.epochs and tp not in view.paused
        if is_polled and (position is None or position <= wait.offset):
            yield tp, wait


# --- what is known without the network thread ----------------------------------------------------------------


def _without_network_thread(state: ConsumerState[K, V]) -> ConsumerDescription:
    view, config = state.view, state.config
    return ConsumerDescription(
        client_id=state.link.client_id,
        group=_group(config, view),
        subscription=SubscriptionDescription(topics=tuple(sorted(view.topics)), is_by_hand=not view.is_group)
        if view.subscribed
        else None,
        causes=(_why_unanswered(state),),
        partitions=tuple(_partitions(view)),
    )


def _why_unanswered(state: ConsumerState[K, V]) -> Cause:
    mailbox = state.link.mailbox
    if state.closed:
        return Cause(kind=CauseKind.CLOSED, text="the consumer is closed")
    if _is_gone(state.link):
        error = None if mailbox.failure is None else str(mailbox.failure)
        return Cause(kind=CauseKind.NETWORK_THREAD_DEAD, text="there is no network thread any more", error=error)
    text = "the network thread has not answered within a second, so only a part is known: is another thread computing?"
    return Cause(kind=CauseKind.NETWORK_THREAD_BUSY, text=text)


def _group(config: ConsumerConfig, view: AssignmentView) -> GroupDescription | None:
    if config.group_id is None:
        return None
    member = view.group
    return GroupDescription(
        group_id=config.group_id,
        protocol=config.group_protocol.value,
        member_id="" if member is None else member.member_id,
        group_instance_id=config.group_instance_id,
        generation=member.generation_id if member is not None and member.generation_id >= 0 else None,
    )


def _partitions(view: AssignmentView) -> Iterator[PartitionDescription]:
    paused = Cause(kind=CauseKind.USER_PAUSED, text=HOLD_FACTS[Hold.USER_PAUSED].reason)
    for tp in sorted(view.epochs):
        causes = (paused,) if tp in view.paused else ()
        yield PartitionDescription(topic=tp.topic, partition=tp.partition, causes=causes)
