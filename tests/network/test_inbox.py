"""The table of what application events mean."""

from __future__ import annotations

from typing import get_args

import pytest

from kwire.assignors import resolve
from kwire.config import ConsumerConfig
from kwire.events import ApplicationEvent, Close
from kwire.fetching.buffer import FetchBuffer
from kwire.managers.registry import Environment, RequestManagers
from kwire.network.inbox import Inbox
from kwire.network.run import lag_policy_of
from kwire.subscription.subscription import Subscription


@pytest.mark.parametrize("enable_parallel_rebalance", [False, True])
def test_every_event_of_the_application_is_handled(enable_parallel_rebalance: bool) -> None:
    settings = {"group.id": "billing", "enable.parallel.rebalance": enable_parallel_rebalance}
    config = ConsumerConfig.of({"bootstrap.servers": "broker:9092", **settings})
    environment = Environment(lambda _: None, lambda: None, lambda: 0.0, lambda: 0)
    subscription = Subscription(lambda _: None, lambda _: None)
    assignors = resolve(config.partition_assignment_strategy)
    managers = RequestManagers(config, assignors, subscription, FetchBuffer(), environment, lag_policy_of(config))
    closes: list[Close] = []
    assert Inbox(managers, closes.append, read_committed=False).handled == set(get_args(ApplicationEvent))
