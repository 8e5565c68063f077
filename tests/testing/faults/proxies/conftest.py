"""One toxiproxy for the tests of a module that need one. It is built with Go; without Go they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.testing.faults.proxies.toxiproxy_server import ToxiproxyServer
from kwire.testing.kafka.jars import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def toxiproxy_server() -> Iterator[ToxiproxyServer]:
    """Runs."""
    with ToxiproxyServer(cache_dir()) as server:
        yield server
