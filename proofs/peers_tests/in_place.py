"""A pytest plugin that puts kwire's adapter in the place of a peer's consumer, and a running broker in that of its own.

It works when it is imported, before pytest reads the peer's conftest. Producers and admin clients stay the peer's. What
the peer needs to start brokers of its own, and what is not installed here, becomes an empty module.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import pytest

from proofs.peers_tests.in_place_names import KAFKA, LEFT_OUT, PEER, SERVERS, TLS_FILES, TLS_SERVERS
from proofs.peers_tests.peers import PEERS


def stand_in(name: str, **content: object) -> ModuleType:
    """A module that is imported from nowhere."""
    module = sys.modules[name] = ModuleType(name)
    for key, value in content.items():
        setattr(module, key, value)
    return module


def replace(theirs: str, ours: str, names: str = "__all__") -> None:
    """Where a program changes an import: the peer's module gets what the adapter's has under the same name."""
    peers_module, adapter = importlib.import_module(theirs), importlib.import_module(ours)
    for name in getattr(adapter, names, vars(adapter)):
        if not name.startswith("__") and hasattr(peers_module, name):
            setattr(peers_module, name, getattr(adapter, name))


def kafka_python() -> None:
    for module in ("kafka", "kafka.structs"):
        replace(module, "kwire.compat.kafka_python")
    replace("kafka.errors", "kwire.compat.kafka_python.errors", names="")
    # Its conftest takes a broker that runs, if it is told so. Its sdist lacks the service, and `test` is Python's own.
    stand_in("test", __path__=[str(Path.cwd() / "test")])
    stand_in("test.service", ExternalService=MagicMock(), SpawnedService=MagicMock())
    os.environ.update(KAFKA_URI=f"kafka://{os.environ[SERVERS]}", KAFKA_ROOT=str(Path.cwd()))


def aiokafka() -> None:
    importlib.import_module("aiokafka.producer")  # it keeps its own
    for module in ("aiokafka", "aiokafka.consumer", "aiokafka.structs", "aiokafka.abc"):
        replace(module, "kwire.compat.aiokafka")
    replace("aiokafka.errors", "kwire.compat.aiokafka.errors", names="")


def confluent_kafka() -> None:
    importlib.import_module("confluent_kafka.admin")  # it keeps its own
    for module in ("confluent_kafka", "confluent_kafka.error"):
        replace(module, "kwire.compat.confluent_kafka")
    replace("confluent_kafka.error", "kwire.compat.confluent_kafka.error")
    replace("confluent_kafka.aio", "kwire.compat.confluent_kafka.aio")
    for module, name in (("confluent_kafka", "Consumer"), ("confluent_kafka.aio", "AIOConsumer")):
        of_peer = sys.modules[module]
        setattr(of_peer, name, _with_a_broker(getattr(of_peer, name)))
    stand_in("confluent_kafka.avro", AvroConsumer=object)  # wants urllib3
    stand_in("trivup")
    stand_in("trivup.clusters")
    stand_in("trivup.clusters.KafkaCluster", KafkaCluster=MagicMock())
    os.environ["BROKERS"] = os.environ[SERVERS]


def _with_a_broker(kind: type) -> type:
    """Many of its tests name none: a librdkafka without an address goes on for ever, and kwire refuses it."""

    def __init__(self: object, config: Mapping[str, object] | None = None, /, **settings: object) -> None:  # noqa: N807
        broker = {} if config is None else {"bootstrap.servers": os.environ[SERVERS]}
        kind.__init__(self, {**broker, **(config or {})}, **settings)  # type: ignore[misc]

    return type("WithABroker", (kind,), {"__init__": __init__})


peer = next(each for each in PEERS if each.name == os.environ[PEER])
{"kafka-python": kafka_python, "aiokafka": aiokafka, "confluent-kafka": confluent_kafka}[peer.name]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is left out is skipped, and says so."""
    for item in items:
        if (why := peer.left_out.get(item.name)) is not None:
            item.add_marker(pytest.mark.skip(reason=LEFT_OUT + why))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Coroutine functions are run, without a plugin of the peer's."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


# --- what aiokafka's test cases ask for ----------------------------------------------------------------------------


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest) -> Iterator[None]:
    """A loop and a broker for a class of tests."""
    case = request.cls
    case.hosts = os.environ[SERVERS].split(",")
    case.kafka_version = os.environ[KAFKA]
    case.kafka_host, case.kafka_ssl_port = os.environ[TLS_SERVERS].split(":")
    case.ssl_folder = Path(os.environ[TLS_FILES])
    case.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(case.loop)
    yield
    case.loop.close()
    asyncio.set_event_loop(None)
