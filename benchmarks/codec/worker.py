"""One participant of `scripts/bench codec` in a process of its own: `worker.py LIBRARY DIRECTORY`.

The directory holds each message's bytes. On each line of stdin, "CASE VERSION decode|encode SECONDS", it works for
about that long and answers one line of JSON: nanoseconds per message. Before that it proves that decoding and
encoding give the same bytes, so nobody is fast by leaving something out. Garbage collection runs as it does in a
program. Own process: the peers are several versions of one package, and nobody shares a heap.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.protocol.schema import Message


class Codec(NamedTuple):
    """The decoder and encoder of one library for one version of one message."""

    decode: Callable[[bytes], object]
    encode: Callable[[object], bytes]


class KafkaPythonMessage(Protocol):
    """A message class of kafka-python, or a message."""

    def encode(self) -> bytes: ...
    def decode(self, data: bytes) -> KafkaPythonMessage: ...


def kwire(name: str, version: int) -> Codec:
    """As the client does it: by class, without looking names up."""
    from kwire.protocol import decode_message, encode_message
    from kwire.protocol.registry import message_class

    cls = message_class(name)
    return Codec(
        lambda data: decode_message(cls, version, data),
        lambda message: encode_message(cast("Message", message), version),
    )


KAFKA_PYTHON_MODULES = {
    "MetadataResponse": "kafka.protocol.metadata",
    "FetchResponse": "kafka.protocol.consumer.fetch",
    "JoinGroupResponse": "kafka.protocol.consumer.group",
    "HeartbeatRequest": "kafka.protocol.consumer.group",
    "HeartbeatResponse": "kafka.protocol.consumer.group",
}


def kafka_python(name: str, version: int) -> Codec:
    """Since 3.0 it compiles its schemas too."""
    module = importlib.import_module(KAFKA_PYTHON_MODULES[name])
    cls: KafkaPythonMessage = getattr(module, name)[version]
    return Codec(cls.decode, lambda message: cast("KafkaPythonMessage", message).encode())


class KioReader(Protocol):
    """The reader that kio makes for a message class."""

    def __call__(self, buffer: bytes, offset: int) -> tuple[object, int]: ...


def kio(name: str, version: int) -> Codec:
    """Both the pure and the native one."""
    api = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Request").removesuffix("Response")).lower()
    kind = "request" if name.endswith("Request") else "response"
    cls = getattr(importlib.import_module(f"kio.schema.{api}.v{version}.{kind}"), name)
    serial = importlib.import_module("kio.serial")
    read: KioReader = serial.entity_reader(cls)
    write: Callable[[io.BytesIO, object], None] = serial.entity_writer(cls)

    def encode(message: object) -> bytes:
        target = io.BytesIO()
        write(target, message)
        return target.getvalue()

    return Codec(lambda data: read(data, 0)[0], encode)


LIBRARIES: dict[str, Callable[[str, int], Codec]] = {"kwire": kwire, "kafka-python": kafka_python, "kio": kio}


def measure(work: Callable[[], object], seconds: float) -> float:
    """Nanoseconds per call, over as many calls as fill the time."""
    count = 1
    while True:
        started = time.perf_counter()
        for _ in range(count):
            work()
        took = time.perf_counter() - started
        if took >= seconds:
            return took / count * 1e9
        count = max(count + 1, int(count * min(100.0, 1.2 * seconds / max(took, 1e-9))))


class Worker:
    """Prepared codecs and messages, by case."""

    def __init__(self, library: str, directory: Path) -> None:
        self._library = library
        self._directory = directory
        self._ready: dict[str, tuple[Codec, bytes, object]] = {}

    def run(self, name: str, version: int, direction: str, seconds: float) -> dict[str, object]:
        codec, data, message = self._ready.get(name) or self._prepare(name, version)
        if direction == "decode":
            return {"ns": measure(lambda: codec.decode(data), seconds)}
        return {"ns": measure(lambda: codec.encode(message), seconds)}

    def _prepare(self, name: str, version: int) -> tuple[Codec, bytes, object]:
        data = (self._directory / name).read_bytes()
        codec = LIBRARIES[self._library](name, version)
        message = codec.decode(data)
        if codec.encode(message) != data:
            raise ValueError(f"{self._library} does not encode {name} v{version} to the bytes that it decoded")
        self._ready[name] = codec, data, message
        return self._ready[name]


def main() -> None:
    worker = Worker(sys.argv[1], Path(sys.argv[2]))
    for line in sys.stdin:
        name, version, direction, seconds = line.split()
        try:
            answer = worker.run(name, int(version), direction, float(seconds))
        except Exception as error:  # noqa: BLE001 - whatever a peer cannot do is a line in the table
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
