"""Which tests stay together when processes share a run (`scripts/test -n 3`), and which go first: for pytest-xdist.

The tests of a file stay together, for they share fixtures; so do those of Spark, which takes long to start. A process
that comes to its first test on a real Kafka starts one, and keeps it. Most of what takes long is waiting, for brokers
and sessions, so there may be more processes than cores. What takes longest goes first: at the end no process waits for
another one's last file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import pytest

SPARK = "Spark"
_OF_SPARK = ("tests/spark/", "tests/integration/spark/")
# Of tests that run against both Kafkas, those that run against the one in the process.
_ON_THE_FAKE = re.compile(r"\[(.*-)?fake(-.*)?\]$")
# How many seconds a test takes, more or less: by its marks, the first that it has.
_SECONDS = {"faults": 15.0, "integration": 1.5, "slow": 0.7}
_QUICK = 0.02


def lane(node_id: str) -> str:
    """What this test stays together with."""
    path = node_id.partition("::")[0]
    return SPARK if path.startswith(_OF_SPARK) else path


def seconds(item: pytest.Item) -> float:
    """How long it takes, as far as its marks say so. In `tests/integration` all are marked, the quick ones too."""
    is_on_fake = _ON_THE_FAKE.search(item.nodeid) is not None
    marks = [name for name in _SECONDS if item.get_closest_marker(name) is not None]
    counting = [name for name in marks if not (is_on_fake and name == "integration")]
    return _SECONDS[counting[0]] if counting else _QUICK


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The same, lane by lane; within a lane in the order in which they came."""
    lanes: defaultdict[str, float] = defaultdict(float)
    for item in items:
        lanes[lane(item.nodeid)] += seconds(item)
    return sorted(items, key=lambda item: (-lanes[lane(item.nodeid)], lane(item.nodeid)))


class SharedRuns:
    """The plugin."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Each process collects the tests, all in the same order: marks are known here, and not where tests are handed
        out."""
        if hasattr(config, "workerinput"):
            items[:] = longest_first(items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> object:
        """The one that hands out scope by scope, with other scopes, in the order in which they were collected."""
        from xdist.scheduler import LoadScopeScheduling

        config.option.loadscopereorder = False
        scheduling = LoadScopeScheduling(config, log)
        scheduling._split_scope = lane
        return scheduling
