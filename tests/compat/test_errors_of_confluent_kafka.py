"""How programs meet errors of confluent-kafka, with it and with the adapter: caught, told of, and how often."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from kwire import errors
from kwire.compat import confluent_kafka as adapter
from kwire.compat.confluent_kafka.kafka_error import as_theirs, error_of, exceptions_of_callbacks
from kwire.compat.confluent_kafka.look_ups import LookUps
from kwire.compat.confluent_kafka.told_errors import ToldErrors
from kwire.events import FoundTopics
from kwire.model import TopicPartition
from kwire.protocol.error_codes import ErrorCode
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.compat.confluent_settings import settings
else:
    from confluent_settings import settings

BOTH = pytest.mark.parametrize("module", [confluent_kafka, adapter], ids=["confluent-kafka", "kwire"])
O0, O1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
slow = pytest.mark.slow


def all_told(consumer: Any, seconds: float) -> list[tuple[int, str | None, int | None]]:  # noqa: ANN401
    """The errors that polls answer, by code and place."""
    until_s, found = time.monotonic() + seconds, []
    while time.monotonic() < until_s:
        message = consumer.poll(0.1)
        if message is not None and message.error():
            found.append((message.error().code(), message.topic(), message.partition()))
    return found


class NoProblemsError(Exception):
    """An exception that is false, as one whose `__len__` counts what was found."""

    def __len__(self) -> int:
        return 0


def test_an_exception_of_a_callback_is_raised_though_it_is_false() -> None:
    with pytest.raises(NoProblemsError), exceptions_of_callbacks():
        raise errors.RebalanceListenerError("on_revoke raised") from NoProblemsError()


@slow
@BOTH
def test_a_static_member_that_another_one_has_replaced_is_told_once_and_does_not_come_back(
    cluster: Cluster,
    module: Any,  # noqa: ANN401
) -> None:
    """Its `subscribe()` fenced the member that had replaced it, which then subscribed again and fenced this one."""
    static = {"group_instance_id": "till", "session_timeout_ms": 6000, "heartbeat_interval_ms": 100}
    first, second = (module.Consumer(settings(cluster, **static)) for _ in range(2))
    for consumer in (first, second):
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.05)
    fatal = module.KafkaError._FATAL
    while not (told := all_told(first, 0.5)):
        pass
    assert [code for code, _, _ in (*told, *all_told(first, 2.0))] == [fatal]
    for call in (
        lambda: first.commit(offsets=[module.TopicPartition("orders", 0, 1)], asynchronous=False),
        lambda: first.commit(asynchronous=False),
        lambda: first.subscribe(["orders"]),
        first.unsubscribe,
    ):
        with pytest.raises(module.KafkaException) as caught:
            call()
        assert caught.value.args[0].code() == fatal
    assert not all_told(second, 1.0)
    assert len(second.assignment()) == 2
    first.close()
    second.close()


@slow
@BOTH
def test_an_invalid_name_is_a_topic_that_is_not_there(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    consumer.subscribe(["bad topic!"])
    while (message := consumer.poll(0.1)) is None:
        pass
    assert message.error().code() == module.KafkaError.UNKNOWN_TOPIC_OR_PART
    assert message.topic() == "bad topic!"
    consumer.close()


@slow
@BOTH
@pytest.mark.parametrize("name", ["bad topic!", "", " "])
def test_a_look_up_of_an_invalid_name_answers_why(cluster: Cluster, module: Any, name: str) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    found = consumer.list_topics(name, timeout=10)
    assert {name: topic.error.code() for name, topic in found.topics.items()} == {
        name: module.KafkaError.TOPIC_EXCEPTION
    }
    assert len(found.brokers) == 1
    consumer.close()


@slow
def test_both_requests_of_a_look_up_have_one_timeout(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one, for an invalid name, had the whole timeout again."""
    consumer, timeouts, ask = adapter.Consumer(settings(cluster)), [], LookUps.topics

    def slowly(self: LookUps, topics: frozenset[str] | None, timeout: float) -> FoundTopics:
        timeouts.append(timeout)
        time.sleep(0.5)
        return ask(self, topics, timeout)

    monkeypatch.setattr(LookUps, "topics", slowly)
    consumer.list_topics("bad topic!", timeout=10)
    consumer.list_topics("bad topic!")
    assert timeouts[0] == pytest.approx(10.0, abs=0.2)
    assert timeouts[1] <= 9.5
    assert timeouts[2:] == [-1, -1]
    consumer.close()


def test_codes_are_plain_numbers() -> None:
    assert type(error_of(errors.BrokerError("full", code=ErrorCode.GROUP_MAX_SIZE_REACHED)).code()) is int


# --- caught -----------------------------------------------------------------------------------------------------


@BOTH
def test_a_kafka_error_may_stand_behind_except(module: Any) -> None:  # noqa: ANN401
    """A program has both names there, and what was raised is neither."""

    def work() -> None:
        try:
            raise ValueError("its own")
        except (module.KafkaException, module.KafkaError):
            pytest.fail("it is neither")

    with pytest.raises(ValueError, match="its own"):
        work()


@BOTH
def test_a_kafka_error_may_be_raised_and_caught(module: Any) -> None:  # noqa: ANN401
    try:
        raise module.KafkaError(module.KafkaError._TIMED_OUT, "too late")
    except module.KafkaError as error:
        found = error
    assert (found.code(), found.str(), str(found)) == (-185, "too late", repr(found))
    assert pickle.loads(pickle.dumps(found)) == found


@BOTH
def test_a_code_alone_says_what_it_means(module: Any) -> None:  # noqa: ANN401
    assert module.KafkaError(3).str().startswith("Broker: ")
    assert module.KafkaError(module.KafkaError._PARTITION_EOF).str() != "_PARTITION_EOF"
    assert module.KafkaError(987).str() == "Err-987?"


@BOTH
def test_the_module_in_c_has_the_names_that_programs_import_from_it(module: Any) -> None:  # noqa: ANN401
    in_c = import_module(f"{module.__name__}.cimpl")
    for name in ("KafkaError", "KafkaException", "Message", "TopicPartition", "OFFSET_BEGINNING", "libversion"):
        assert getattr(in_c, name) is getattr(module, name)
    assert issubclass(module.Consumer, in_c.Consumer)


@slow
@BOTH
def test_who_has_the_producers_exception_catches_the_consumers(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        consumer.commit(asynchronous=False)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError._NO_OFFSET
    assert isinstance(caught.value, module.KafkaException)
    consumer.close()


def test_an_exception_that_is_both_is_both_again_when_it_is_unpickled() -> None:
    error = as_theirs(adapter.KafkaException)(adapter.KafkaError(3, "gone"))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, confluent_kafka.KafkaException)
    assert isinstance(again, adapter.KafkaException)
    assert again.args == error.args


# --- told -------------------------------------------------------------------------------------------------------


@slow
@BOTH
def test_a_partition_without_an_offset_is_told_of_once(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    """A program that logs it and polls again would do nothing else."""
    consumer = module.Consumer(settings(cluster, auto_offset_reset="error"))
    consumer.subscribe(["orders"])
    told = all_told(consumer, 5.0)
    assert sorted(told) == [(module.KafkaError._AUTO_OFFSET_RESET, "orders", number) for number in (0, 1)]
    consumer.close()


@slow
@BOTH
def test_it_is_told_of_again_when_the_program_has_gone_elsewhere(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster, auto_offset_reset="error"))
    for offset in (1_000, 2_000):
        consumer.assign([module.TopicPartition("orders", 0, offset)])
        assert len(all_told(consumer, 3.0)) == 1
    consumer.close()


@pytest.fixture
def impatient_cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 2}, settings={"group.min.session.timeout.ms": 1_000}) as found:
        found.produce("orders", b"0", b"1", b"2")
        yield found


@slow
@BOTH
def test_a_poll_that_comes_too_late_is_told_of_before_partitions_are_lost(
    impatient_cluster: Cluster,
    module: Any,  # noqa: ANN401
) -> None:
    told: list[str] = []

    def listener(name: str) -> Callable[[object, object], None]:
        return lambda _consumer, _partitions: told.append(name)

    limits = {"session_timeout_ms": 1_500, "max_poll_interval_ms": 1_500, "heartbeat_interval_ms": 500}
    consumer = module.Consumer(settings(impatient_cluster, **limits))
    names = ("on_assign", "on_revoke", "on_lost")
    consumer.subscribe(["orders"], **{name: listener(name) for name in names})
    assert consumer.poll(10.0).error() is None
    time.sleep(3.5)  # as a program does that is busy
    late = consumer.poll(10.0)
    assert (late.error().code(), told) == (module.KafkaError._MAX_POLL_EXCEEDED, ["on_assign"])
    assert consumer.poll(10.0).error() is None
    assert told == ["on_assign", "on_lost", "on_assign"]
    consumer.close()


def test_partitions_without_an_offset_are_told_of_one_by_one() -> None:
    told, error = ToldErrors(), errors.OffsetOutOfRangeError({O1: 7, O0: 5})
    first, second = told.news_of(error), told.news_of(error)
    assert first is not None
    assert second is not None
    assert [(each.partition(), each.offset()) for each in (first, second)] == [(0, 5), (1, 7)]
    assert told.news_of(error) is None
    told.moved([O1])
    again = told.news_of(error)
    assert again is not None
    assert again.partition() == 1


def test_what_is_tried_again_all_the_time_is_not_told_of_each_time() -> None:
    told = ToldErrors()
    assert told.news_of(errors.TopicAuthorizationError({"orders"})) is not None
    assert told.news_of(errors.TopicAuthorizationError({"orders"})) is None
    assert told.news_of(errors.TopicAuthorizationError({"clicks"})) is not None
    assert told.news_of(errors.TopicAuthorizationError({"orders"})) is None


@slow
@BOTH
@pytest.mark.parametrize("partition", [("payments", 0), ("orders", 7)])
def test_a_commit_to_a_partition_that_is_not_there_fails_at_once(
    cluster: Cluster,
    module: Any,  # noqa: ANN401
    partition: tuple[str, int],
) -> None:
    consumer = module.Consumer(settings(cluster))
    began_s = time.monotonic()
    with pytest.raises(module.KafkaException) as caught:
        consumer.commit(offsets=[module.TopicPartition(*partition, 3)], asynchronous=False)
    assert caught.value.args[0].code() == module.KafkaError.UNKNOWN_TOPIC_OR_PART
    assert time.monotonic() - began_s < 10.0
    consumer.close()


# --- what programs give -----------------------------------------------------------------------------------------


@slow
@BOTH
def test_numbers_uuids_and_none_are_settings(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    given = {"group.id": uuid.uuid4(), "client.id": 5, "client.rack": None, "session.timeout.ms": 6000.0}
    consumer = module.Consumer({**settings(cluster), **given})
    consumer.subscribe(["orders"])
    assert consumer.poll(10.0) is not None
    consumer.close()


@slow
@BOTH
def test_what_is_no_partition_is_refused_by_its_type(cluster: Cluster, module: Any) -> None:  # noqa: ANN401
    consumer = module.Consumer(settings(cluster))
    calls: list[Callable[[], object]] = [
        lambda: consumer.commit(offsets=["orders"]),
        lambda: consumer.assign([1]),
        lambda: consumer.seek("orders"),
        lambda: consumer.get_watermark_offsets("orders"),
        lambda: consumer.offsets_for_times(["orders"]),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="expected"):
            call()
    consumer.close()
