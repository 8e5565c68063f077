"""The three lists of KIP-983: rule by rule, and against a model that is written as the proposal is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import TopicPartition
from kwire.consumer.revocation import Revocation

if TYPE_CHECKING:
    from collections.abc import Collection

A, B, C, D = (TopicPartition("orders", number) for number in range(4))

Operation: TypeAlias = tuple[str, frozenset[TopicPartition]]


def of(*partitions: TopicPartition) -> frozenset[TopicPartition]:
    return frozenset(partitions)


@pytest.fixture
def revocation() -> Revocation:
    return Revocation()


def poll(revocation: Revocation) -> frozenset[TopicPartition]:
    """One in which nothing happens: what it completes."""
    due = revocation.begin_poll()
    revocation.end_poll()
    return due


# --- the rules, by name ------------------------------------------------------------------------------------------


def test_a_revoke_requested_in_one_poll_is_completed_at_the_start_of_the_next(revocation: Revocation) -> None:
    assert revocation.begin_poll() == of()
    revocation.request(of(A, B))
    revocation.end_poll()
    assert revocation.look() == of(A, B)
    assert poll(revocation) == of(A, B)
    assert revocation.look() == of() == revocation.pending
    assert poll(revocation) == of()


def test_a_delayed_revoke_is_completed_one_poll_later(revocation: Revocation) -> None:
    revocation.request(of(A, B))
    assert revocation.delay(of(A))
    assert revocation.look() == of(B)
    assert poll(revocation) == of(B)
    assert revocation.look() == of(A)
    assert poll(revocation) == of(A)


def test_a_revoke_can_be_delayed_again_and_again(revocation: Revocation) -> None:
    revocation.request(of(A))
    for _ in range(100):
        assert revocation.delay(of(A))
        assert poll(revocation) == of()
    assert poll(revocation) == of(A)


def test_a_lost_partition_leaves_both_lists_and_shows_until_the_next_poll(revocation: Revocation) -> None:
    revocation.request(of(A, B, C))
    revocation.delay(of(A))
    revocation.lose(of(A, B))
    assert (revocation.look(), revocation.pending, revocation.lost) == (of(C), of(C), of(A, B))
    assert poll(revocation) == of(C)
    assert revocation.lost == of()


def test_a_delay_is_denied_when_some_are_lost_and_the_others_are_delayed_all_the_same(revocation: Revocation) -> None:
    revocation.request(of(A, B))
    revocation.lose(of(A))
    assert not revocation.delay(of(A, B))
    assert poll(revocation) == of()
    assert poll(revocation) == of(B)


def test_delaying_what_nobody_asked_for_changes_nothing(revocation: Revocation) -> None:
    revocation.request(of(A))
    assert revocation.delay(of(D))
    assert revocation.pending == of(A)
    assert poll(revocation) == of(A)


def test_a_poll_that_raised_does_not_end_a_delay_nobody_could_renew(revocation: Revocation) -> None:
    """A wake-up ends the poll in which the delayed partitions came onto the first list again; the application polls on
    and has not heard of it."""
    revocation.request(of(A))
    revocation.delay(of(A))
    revocation.begin_poll()  # raises
    assert poll(revocation) == of()
    assert poll(revocation) == of(A)


def test_whoever_looks_after_a_poll_that_raised_knows(revocation: Revocation) -> None:
    revocation.request(of(A))
    revocation.delay(of(A))
    revocation.begin_poll()  # raises
    assert revocation.look() == of(A)
    assert poll(revocation) == of(A)


def test_a_loss_shows_until_a_poll_after_one_that_returned(revocation: Revocation) -> None:
    revocation.begin_poll()
    revocation.lose(of(A))  # and the callback raises
    revocation.begin_poll()
    assert revocation.lost == of(A)
    revocation.end_poll()
    revocation.begin_poll()
    assert revocation.lost == of()


@pytest.mark.parametrize("what", ["request", "lose"])
def test_only_what_names_a_partition_is_news(revocation: Revocation, what: str) -> None:
    revocation.begin_poll()
    getattr(revocation, what)(of())
    news = [revocation.has_news]
    getattr(revocation, what)(of(A))
    getattr(revocation, what)(of())
    news.append(revocation.has_news)
    revocation.end_poll()
    revocation.begin_poll()
    assert [*news, revocation.has_news] == [False, True, False]


@pytest.mark.parametrize("what", ["request", "lose"])
def test_the_news_of_a_poll_that_raised_are_news_to_the_next(revocation: Revocation, what: str) -> None:
    revocation.begin_poll()
    getattr(revocation, what)(of(A))  # and a signal handler's exception strikes
    revocation.begin_poll()
    assert revocation.has_news
    revocation.end_poll()
    revocation.begin_poll()
    assert not revocation.has_news


def test_a_poll_that_raised_when_it_was_about_to_return_has_told_nothing(revocation: Revocation) -> None:
    revocation.begin_poll()
    revocation.request(of(A))
    revocation.end_poll()
    revocation.undo_poll()
    assert (poll(revocation), revocation.revoke_next) == (of(), of(A))
    assert poll(revocation) == of(A)


def test_leaving_forgets_what_was_asked_for(revocation: Revocation) -> None:
    revocation.request(of(A, B))
    revocation.delay(of(A))
    revocation.clear()
    assert revocation.pending == of() == poll(revocation) == poll(revocation)


# --- all rules at once -------------------------------------------------------------------------------------------


class Proposal:
    """KIP-983, *Proposed changes*, a sentence a line."""

    def __init__(self) -> None:
        self.revoke_next: set[TopicPartition] = set()
        self.revoke_thereafter: set[TopicPartition] = set()
        self.lost: set[TopicPartition] = set()

    def start_of_poll(self) -> Collection[TopicPartition]:
        completed = set(self.revoke_next)  # complete the revoke of all partitions on the revoke-next list,
        self.revoke_next.clear()  # then empty the list,
        self.lost.clear()  # empty the list of lost partitions,
        self.revoke_next.update(self.revoke_thereafter)  # move partitions from revoke-thereafter to revoke-next
        self.revoke_thereafter.clear()
        return completed

    def request(self, partitions: Collection[TopicPartition]) -> None:
        self.revoke_next.update(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        self.revoke_next.difference_update(partitions)
        self.revoke_thereafter.difference_update(partitions)
        self.lost.update(partitions)

    def delay(self, partitions: Collection[TopicPartition]) -> bool:
        for tp in partitions:
            if tp in self.revoke_next:
                self.revoke_next.remove(tp)
                self.revoke_thereafter.add(tp)
        return not any(tp in self.lost for tp in partitions)


some = st.frozensets(st.sampled_from([A, B, C, D]))
operations = st.lists(st.tuples(st.sampled_from(["poll", "request", "lose", "delay"]), some))


@given(operations)
def test_the_lists_are_those_of_the_proposal(steps: list[Operation]) -> None:
    revocation, proposal = Revocation(), Proposal()
    for what, partitions in steps:
        match what:
            case "poll":
                assert poll(revocation) == proposal.start_of_poll()
            case "request":
                asked = partitions - proposal.revoke_thereafter  # nobody asks for what is asked for already
                revocation.request(asked)
                proposal.request(asked)
            case "lose":
                revocation.lose(partitions)
                proposal.lose(partitions)
            case _:
                assert revocation.delay(partitions) is proposal.delay(partitions)
        assert revocation.look() == proposal.revoke_next
        assert revocation.lost == proposal.lost
        assert revocation.pending == proposal.revoke_next | proposal.revoke_thereafter


@given(operations)
def test_what_was_asked_for_is_given_up_or_lost_once(steps: list[Operation]) -> None:
    """However long it is delayed, whatever raises."""
    revocation = Revocation()
    open_requests: set[TopicPartition] = set()
    for what, partitions in steps:
        match what:
            case "poll":
                due = revocation.begin_poll()  # which may raise: its end is not told
                assert due <= open_requests
                open_requests -= due
            case "request":
                asked = partitions - open_requests
                revocation.request(asked)
                open_requests |= asked
            case "lose":
                revocation.lose(partitions)
                open_requests -= partitions
            case _:
                revocation.delay(partitions)
        assert revocation.pending == open_requests
    assert poll(revocation) | poll(revocation) | poll(revocation) == open_requests
