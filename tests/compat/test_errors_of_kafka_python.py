"""Programs catch errors by kafka-python's classes: those that it raises, and those that the adapter raises."""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import kwire.errors
from kwire.compat import kafka_python as adapter
from kwire.compat.kafka_python import errors
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.compat.kafka_python_consumers import BOTH
    from tests.compat.kafka_python_consumers import open_consumer as open_for
else:
    from kafka_python_consumers import BOTH
    from kafka_python_consumers import open_consumer as open_for

with warnings.catch_warnings(action="ignore"):  # it reads its schemas in a deprecated way
    import kafka

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
# The names that programs of version 2 catch.
OF_VERSION_2 = [
    *("AuthenticationFailedError", "GroupCoordinatorNotAvailableError", "GroupLoadInProgressError"),
    *("NoBrokersAvailable", "NotCoordinatorForGroupError", "StaleLeaderEpochCodeError"),
]
Call = Callable[[Any], object]
open_consumer = partial(open_for, consumer_timeout_ms=10_000)


def errors_of(module: ModuleType) -> ModuleType:
    return import_module(f"{module.__name__}.errors")


def exceptions(module: ModuleType) -> dict[str, Any]:
    return {name: kind for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, Exception)}


def test_each_error_of_kafka_python_is_there() -> None:
    theirs = exceptions(errors_of(kafka))
    assert len(theirs) > 150
    for name, kind in theirs.items():
        ours = getattr(errors, name)
        told = [(one.retriable, one.invalid_metadata) for one in (ours, kind)]
        # kwire raises none of them; in aiokafka, which has this class as well, one tries again
        assert told[0] == told[1] or issubclass(ours, errors.KafkaProtocolError), name
        for base in ("RetriableError", "InvalidMetadataError", "AuthorizationError", "BrokerResponseError"):
            if issubclass(kind, theirs[base]) and name != "IncompatibleBrokerVersion":
                assert issubclass(ours, getattr(errors, base)), name


def test_codes_are_those_of_kafka_python() -> None:
    for code, kind in errors_of(kafka).kafka_errors.items():
        if code is not None:
            ours = errors.for_code(code)
            assert (ours.errno, ours.message) == (code, kind.message)
            assert issubclass(ours, getattr(errors, kind.__name__)) or kind.errno == 35
            assert ours.description
    for module in (kafka, adapter):
        unknown = errors_of(module).for_code(12_345)
        assert issubclass(unknown, errors_of(module).UnknownError)
        assert unknown.errno == 12_345


@pytest.mark.parametrize("name", OF_VERSION_2)
def test_names_of_version_2_are_there(name: str) -> None:
    assert issubclass(getattr(errors, name), errors.KafkaError)


UNASSIGNED: list[tuple[str, Call, str]] = [
    ("seek", lambda consumer: consumer.seek(tp_of(consumer, 9), 0), "ValueError"),
    ("negative", lambda consumer: consumer.seek(tp_of(consumer, 0), -1), "ValueError"),
    ("text", lambda consumer: consumer.seek(tp_of(consumer, 0), "1"), "ValueError"),
    ("begin", lambda consumer: consumer.seek_to_beginning(tp_of(consumer, 9)), "ValueError"),
    ("end", lambda consumer: consumer.seek_to_end(tp_of(consumer, 9)), "ValueError"),
    ("pause", lambda consumer: consumer.pause(tp_of(consumer, 9)), "KeyError"),
    ("resume", lambda consumer: consumer.resume(tp_of(consumer, 9)), "KeyError"),
    ("position", lambda consumer: consumer.position(tp_of(consumer, 9)), "IllegalStateError"),
    ("highwater", lambda consumer: consumer.highwater(tp_of(consumer, 9)), "IllegalStateError"),
    ("commit", lambda consumer: consumer.commit(), "IllegalStateError"),
    ("commit_async", lambda consumer: consumer.commit_async(), "IllegalStateError"),
    ("committed", lambda consumer: consumer.committed(tp_of(consumer, 0)), "IllegalStateError"),
    ("nothing", lambda consumer: consumer.subscribe([]), "ValueError"),
    ("both", lambda consumer: consumer.subscribe(["orders"], pattern="orders"), "IllegalStateError"),
    ("ends", lambda consumer: consumer.end_offsets([tp_of(consumer, 9)], timeout_ms=300), "KafkaTimeoutError"),
    ("times", lambda consumer: consumer.offsets_for_times({tp_of(consumer, 0): -1}), "ValueError"),
]


def tp_of(consumer: object, partition: int) -> object:
    module = adapter if isinstance(consumer, adapter.KafkaConsumer) else kafka
    return module.TopicPartition("orders", partition)


@BOTH
@pytest.mark.parametrize(("call", "name"), [case[1:] for case in UNASSIGNED], ids=[case[0] for case in UNASSIGNED])
def test_a_wrong_call_raises_what_it_does_in_kafka_python(
    cluster: Cluster, module: ModuleType, call: Call, name: str
) -> None:
    consumer = open_consumer(module, cluster)
    consumer.assign([tp_of(consumer, 0)])
    kind = {"ValueError": ValueError, "KeyError": KeyError}.get(name) or getattr(errors_of(module), name)
    with pytest.raises(kind) as caught:
        call(consumer)
    consumer.close()
    if isinstance(caught.value, errors.KafkaError):
        assert isinstance(caught.value, getattr(errors_of(kafka), name)), "it is kafka-python's own as well"


# --- exceptions that are kafka-python's own, too ------------------------------------------------------------------


def test_each_class_that_kafka_python_has_by_a_name_of_either_version_is_caught_by_that_name() -> None:
    theirs = exceptions(errors_of(kafka))
    for name, kind in exceptions(errors).items():
        if name in theirs:
            assert issubclass(errors.as_theirs(kind), theirs[name]), name
        assert issubclass(errors.as_theirs(kind), theirs["KafkaError"]), name


def test_an_exception_of_both_has_the_text_the_hash_and_the_pickle_of_the_adapters() -> None:
    error = errors.error_of(kwire.errors.KafkaTimeoutError("no answer"))
    assert isinstance(error, errors_of(kafka).KafkaTimeoutError)
    assert (str(error), repr(error)) == ("no answer", "KafkaTimeoutError('no answer')")
    assert {error: 1}[error] == 1, "kafka-python's have no hash"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args) == (type(error), error.args)


def test_a_code_that_nobody_knows_is_one_class_each_time() -> None:
    first, second = (errors.error_of(kwire.errors.BrokerError("new", code=12_345)) for _ in range(2))
    assert type(first) is type(second)


@pytest.mark.parametrize("is_blocked", [False, True])
def test_without_kafka_python_an_exception_is_the_adapters_alone(
    monkeypatch: pytest.MonkeyPatch, is_blocked: bool
) -> None:
    monkeypatch.delitem(sys.modules, "kafka.errors")
    if is_blocked:
        monkeypatch.setitem(sys.modules, "kafka.errors", None)
    assert errors.as_theirs(errors.KafkaTimeoutError) is errors.KafkaTimeoutError


def test_a_constructor_that_reaches_no_broker_raises_the_exception_of_either_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(errors.bootstrap_timeout("nobody"), errors_of(kafka).KafkaTimeoutError)
    version_2 = ModuleType("kafka.errors")
    version_2.KafkaTimeoutError = errors_of(kafka).KafkaTimeoutError  # type: ignore[attr-defined]
    version_2.NoBrokersAvailable = type("NoBrokersAvailable", (Exception,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kafka.errors", version_2)
    assert isinstance(errors.bootstrap_timeout("nobody"), version_2.NoBrokersAvailable)


@BOTH
def test_a_setting_that_is_not_there_is_told_as_there(cluster: Cluster, module: ModuleType) -> None:
    with pytest.raises(errors_of(module).KafkaConfigurationError):
        open_consumer(module, cluster, no_such_setting=1)


def test_a_wrong_value_is_told_as_there(cluster: Cluster) -> None:
    """kafka-python raises the same, but is not run: the thread that it started tries to connect for ever."""
    with pytest.raises(errors.KafkaConfigurationError):
        open_consumer(adapter, cluster, isolation_level="dirty")


@BOTH
def test_offsets_that_are_not_there_are_told_as_there(cluster: Cluster, module: ModuleType) -> None:
    consumer = open_consumer(module, cluster, group_id="strict", auto_offset_reset="none")
    tp = module.TopicPartition("orders", 0)
    consumer.assign([tp])
    with pytest.raises(errors_of(module).NoOffsetForPartitionError):
        consumer.poll(10_000)
    consumer.seek(tp, 99)
    with pytest.raises(errors_of(module).OffsetOutOfRangeError) as caught:
        next(consumer)
    assert (caught.value.errno, caught.value.args) == (1, ({tp: 99},))
    consumer.close()


def test_a_topic_that_may_not_be_read_is_told(cluster: Cluster) -> None:
    cluster.deny(topic="orders")
    consumer = open_consumer(adapter, cluster, "orders")
    with pytest.raises(errors.TopicAuthorizationFailedError) as caught:
        next(consumer)
    assert (caught.value.errno, caught.value.args) == (29, ({"orders"},))
    assert isinstance(caught.value, errors.AuthorizationError)
    consumer.close()


@BOTH
def test_a_group_that_may_not_be_joined_is_told_as_there(cluster: Cluster, module: ModuleType) -> None:
    cluster.deny(group="billing")
    consumer = open_consumer(module, cluster, "orders", group_id="billing")
    with pytest.raises(errors_of(module).GroupAuthorizationFailedError):
        next(consumer)
    consumer.close(autocommit=False)


def test_the_error_of_kwire_is_the_cause(cluster: Cluster) -> None:
    with open_consumer(adapter, cluster) as consumer, pytest.raises(errors.KafkaTimeoutError) as caught:
        consumer.end_offsets([adapter.TopicPartition("orders", 9)], timeout_ms=100)
    assert isinstance(caught.value.__cause__, kwire.errors.KafkaTimeoutError)
    assert str(caught.value) == str(caught.value.__cause__)


def test_what_a_commit_in_the_background_fails_with_is_of_these_classes(cluster: Cluster) -> None:
    told: list[Exception | None] = []
    consumer = open_consumer(adapter, cluster, group_id="billing")
    consumer.assign([adapter.TopicPartition("orders", 0)])
    cluster.deny(group="billing")
    future = consumer.commit_async(
        {adapter.TopicPartition("orders", 0): adapter.OffsetAndMetadata(1)}, lambda _, error: told.append(error)
    )
    for _ in range(100):
        with suppress(errors.GroupAuthorizationFailedError):  # of the look-up of what is committed
            consumer.poll(100)
        if future.is_done:
            break
    assert isinstance(future.exception, errors.GroupAuthorizationFailedError)
    assert told == [future.exception]
    consumer.close(autocommit=False)


@pytest.fixture
def documents(cluster: Cluster) -> Cluster:
    cluster.create_topic("documents")
    for value in (b"1", b"no document", b"3"):
        cluster.produce("documents", value)
    return cluster


@BOTH
def test_a_loop_raises_what_its_deserializer_does(documents: Cluster, module: ModuleType) -> None:
    """Programs catch that. kafka-python gives nothing more of the partition then, and waits for ever."""
    consumer = open_consumer(module, documents, "documents", value_deserializer=json.loads)
    assert next(consumer).value == 1
    with pytest.raises(json.JSONDecodeError):
        next(consumer)
    assert consumer.position(module.TopicPartition("documents", 0)) == 1
    consumer.close()


def test_a_deserializer_fails_until_the_record_is_stepped_over(documents: Cluster) -> None:
    consumer = open_consumer(adapter, documents, "documents", value_deserializer=json.loads)
    assert next(consumer).value == 1
    with pytest.raises(json.JSONDecodeError):
        consumer.poll(10_000)
    with pytest.raises(json.JSONDecodeError) as caught:
        next(consumer)
    assert ["documents-0 at offset 1" in note for note in caught.value.__notes__] == [True]
    consumer.seek(adapter.TopicPartition("documents", 0), 2)
    assert next(consumer).value == 3
    consumer.close()


def test_a_deserializer_that_raises_the_same_object_again_is_told_once_where(documents: Cluster) -> None:
    failure = LookupError("the same one")

    def fail(data: bytes) -> None:
        raise failure

    consumer = open_consumer(adapter, documents, "documents", value_deserializer=fail)
    for _ in range(3):
        with pytest.raises(LookupError):
            consumer.poll(10_000)
    assert len(failure.__notes__) == 1
    consumer.close()


def test_a_loop_does_not_end_over_a_stop_iteration_of_a_deserializer(documents: Cluster) -> None:
    consumer = open_consumer(adapter, documents, "documents", value_deserializer=lambda data: next(iter(())))
    with pytest.raises(errors.RecordDeserializationError):
        next(consumer)
    consumer.close()
