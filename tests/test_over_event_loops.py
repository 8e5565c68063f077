"""The event loops behind `--facade`: what a test may count on that has threads make its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.over_event_loops import Call, event_loop_thread
else:
    from over_event_loops import Call, event_loop_thread


@pytest.mark.parametrize("facade", ["asyncio", "trio"])
def test_an_agent_that_has_answered_holds_nothing_of_its_call(facade: str) -> None:
    """The thread goes on while the agent's frames still end: once one held a consumer that the thread had just let
    go of, and the warning about it came too late."""
    agent = event_loop_thread(facade).new_agent()
    agent.calls.put(Call(object))
    answer = agent.answers.get()
    assert isinstance(answer, Call)
    assert answer.function is None
