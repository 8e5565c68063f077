"""All invariants over one ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kwire.testing.invariants.callbacks import callbacks_come_in_pairs
from kwire.testing.invariants.calm import a_calm_group_is_at_rest, closing_is_quick, commits_keep_up
from kwire.testing.invariants.catching_up import lags_are_caught_up_with
from kwire.testing.invariants.commits import commits_are_kept, commits_are_not_undone, commits_follow_delivery
from kwire.testing.invariants.delivery import nothing_is_lost, values_are_what_was_sent
from kwire.testing.invariants.endings import calls_end_well, everybody_ends
from kwire.testing.invariants.handling import (
    commits_follow_handling,
    everything_is_handled,
    lanes_keep_their_order,
    nothing_finished_runs_again,
    one_pair_of_hands,
)
from kwire.testing.invariants.handling_calm import (
    commits_keep_up_with_handling,
    counts_come_to_nothing,
    handling_recovers,
    nobody_waits_for_the_slow,
)
from kwire.testing.invariants.handover import partitions_change_hands_cleanly
from kwire.testing.invariants.ledger import Ledger
from kwire.testing.invariants.ownership import one_owner_at_a_time
from kwire.testing.invariants.positions import positions_are_contiguous
from kwire.testing.invariants.recovery import everything_is_drained_in_time
from kwire.testing.invariants.redelivery import nothing_committed_comes_again
from kwire.testing.invariants.violation import Violation

Invariant = Callable[[Ledger], Iterator[Violation]]

INVARIANTS: tuple[Invariant, ...] = (
    nothing_is_lost,
    values_are_what_was_sent,
    positions_are_contiguous,
    one_owner_at_a_time,
    commits_follow_delivery,
    commits_are_kept,
    commits_are_not_undone,
    nothing_committed_comes_again,
    lags_are_caught_up_with,
    partitions_change_hands_cleanly,
    callbacks_come_in_pairs,
    a_calm_group_is_at_rest,
    commits_keep_up,
    closing_is_quick,
    everything_is_drained_in_time,
    calls_end_well,
    everybody_ends,
    everything_is_handled,
    commits_follow_handling,
    nothing_finished_runs_again,
    lanes_keep_their_order,
    one_pair_of_hands,
    handling_recovers,
    nobody_waits_for_the_slow,
    commits_keep_up_with_handling,
    counts_come_to_nothing,
)


def check(ledger: Ledger) -> list[Violation]:
    """All violations, in the order in which they happened."""
    found = [violation for invariant in INVARIANTS for violation in invariant(ledger)]
    return sorted(found, key=lambda violation: violation.at_ms)
