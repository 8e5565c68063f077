"""Which tests stay together when processes share a run (`scripts/test -n 2`): what pytest-xdist asks of a plugin.

All that needs a real Kafka runs in one process: so there is one shared broker, and the other core is left to a process
of other tests. Of those, the tests of a file stay together, for they share fixtures.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
REAL_KAFKA = "all that needs a real Kafka"
# Of tests that run against both, those that run against the one in the process; `tests/integration` tells them apart.
_ON_THE_FAKE = re.compile(r"\[(.*-)?fake(-.*)?\]$")


def lane(node_id: str) -> str:
    """What this test stays together with."""
    path = node_id.partition("::")[0]
    is_of_both = path.startswith("tests/integration/")
    needs_kafka = not _ON_THE_FAKE.search(node_id) if is_of_both else is_marked(path)
    return REAL_KAFKA if needs_kafka else path


@cache
def is_marked(path: str) -> bool:
    """Whether there are integration tests in this file. Marks are not known where tests are handed out, only names."""
    return "pytest.mark.integration" in (TOP / path).read_text()


class SharedRuns:
    """The plugin."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> object:
        """The one that hands out scope by scope, with other scopes."""
        from xdist.scheduler import LoadScopeScheduling

        scheduling = LoadScopeScheduling(config, log)
        scheduling._split_scope = lane
        return scheduling
