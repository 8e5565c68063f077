"""The port of a tampering proxy is open, refuses, or keeps silent."""

from __future__ import annotations

import trio

from kwire.testing.faults.proxies.door import Entrance, bind
from kwire.testing.faults.proxies.orders import Door


def test_a_client_that_took_the_only_place_first_keeps_nobody_waiting() -> None:
    """A client that knocks between listening and filling the queue makes it full, and our own SYN is dropped, too."""

    async def fill_what_is_full() -> None:
        entrance = Entrance(bind("127.0.0.1", 0))
        try:
            await entrance.set(Door.SILENT)
            with trio.fail_after(5):
                await entrance.fill()
        finally:
            entrance.close()

    trio.run(fill_what_is_full)
