"""`Commits`: when a processor commits next."""

from __future__ import annotations

from typing import cast
from uuid import UUID

import pytest

from kwire import IllegalStateError, OffsetAndMetadata, RebalanceConsumer, TopicPartition
from kwire.epochs import AssignmentEpoch
from kwire.processing.commits import Commits
from kwire.processing.completion_tracker import CompletionTracker

TP = TopicPartition("orders", 0)


class Refusing:
    def commit_async(self, *_: object, **__: object) -> None:
        raise IllegalStateError("not now")


def test_a_commit_that_could_not_be_begun_is_not_waited_for() -> None:
    """It counted as under way for ever, so nothing was committed any more."""
    completion = CompletionTracker(with_map=True)
    completion.open({TP: None}, {TP.topic: UUID(int=1)})
    wanted = completion.deliver(TP, [0], lambda: [0], OffsetAndMetadata(1), AssignmentEpoch(1))
    completion.finish(TP, list(wanted))
    commits = Commits(completion, lambda: None, interval_ms=50.0)
    with pytest.raises(IllegalStateError):
        commits.commit(cast("RebalanceConsumer", Refusing()), 100.0)
    assert commits.due_ms == 150.0
