"""A proxy in front of one broker that notes when each client's heartbeats pass. Runs on a thread of its own.

The member under test may be unable to say when it heartbeats; here it shows on the wire. The cluster has to be told
the proxy's address as `advertised`, or clients would go around it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.testing.kafka.addresses import HOST

if TYPE_CHECKING:
    from types import TracebackType

HEARTBEATS = {HeartbeatRequest.api_key, ConsumerGroupHeartbeatRequest.api_key}
READ_BYTES = 65_536
LENGTH_BYTES = 4
CLIENT_ID_AT = 10  # of a request: key, version, correlation id, and the length of the client id


class HeartbeatProxy:
    """Use as a context manager.

    Args:
        port: where clients connect.
        broker_port: where they are led.
    """

    def __init__(self, port: int, broker_port: int) -> None:
        self._port = port
        self._broker_port = broker_port
        self._passed_s: defaultdict[str, list[float]] = defaultdict(list)

    def __enter__(self) -> HeartbeatProxy:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def longest_gap_s(self, client_id: str, since_s: float, until_s: float) -> float:
        """The longest time between two heartbeats of a client, or between one and the end of the interval."""
        passed_s = [at_s for at_s in self._passed_s[client_id] if since_s <= at_s <= until_s]
        return max(later - earlier for earlier, later in pairwise([since_s, *passed_s, until_s]))

    # --- on the proxy's thread ------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._connect, HOST, self._port)

    async def _end(self) -> None:
        self._server.close()
        connected = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connected:
            task.cancel()
        await asyncio.gather(*connected, return_exceptions=True)  # a loop that stops sooner never closes its sockets

    async def _connect(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.CancelledError):
            broker, to_broker = await asyncio.open_connection(HOST, self._broker_port)
            with suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(self._requests(client, to_broker), self._answers(broker, to_client))
            await _close(to_broker)
        await _close(to_client)

    async def _requests(self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter) -> None:
        unread = b""
        while data := await client.read(READ_BYTES):
            unread = self.note(unread + data, time.monotonic())
            to_broker.write(data)
        to_broker.close()

    async def _answers(self, broker: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        while data := await broker.read(READ_BYTES):
            to_client.write(data)
        to_client.close()

    def note(self, data: bytes, now_s: float) -> bytes:
        """Look at the requests that are complete; what is left."""
        while len(data) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES])
            if len(data) < end:
                break
            request, data = data[LENGTH_BYTES:end], data[end:]
            if int.from_bytes(request[:2]) in HEARTBEATS:
                length = int.from_bytes(request[CLIENT_ID_AT - 2 : CLIENT_ID_AT])
                self._passed_s[request[CLIENT_ID_AT : CLIENT_ID_AT + length].decode()].append(now_s)
        return data


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
