"""Calls of other clients: what Python says of them names what one writes with kwire."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from kwire import AsyncConsumer, Consumer, Records, TopicPartition
from kwire.consumer.foreign_calls import CALLS, METHODS
from kwire.fetching.foreign_attributes import OF_RECORDS

TP = TopicPartition("orders", 0)


Call: TypeAlias = Callable[[Any], object]  # a type checker would refuse these calls


def with_consumer(call: Call) -> None:
    with Consumer(bootstrap_servers="localhost:1", group_id="billing") as consumer:
        call(consumer)


def with_async_consumer(call: Call) -> None:
    async def run() -> None:
        async with AsyncConsumer(bootstrap_servers="localhost:1", group_id="billing") as consumer:
            call(consumer)

    asyncio.run(run())


BOTH = pytest.mark.parametrize("using", [with_consumer, with_async_consumer])


@BOTH
@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda c: c.subscribe(["orders"], on_assign=print), r"'on_assign'; in kwire: give on_assigned="),
        (lambda c: c.subscribe(["orders"], on_revoke=print), r"'on_revoke'; in kwire: give on_revoked="),
        (lambda c: c.subscribe(pattern="^ord"), r"in kwire: give a compiled pattern .*: subscribe\(re.compile"),
        (lambda c: c.subscribe(["orders"], print), r"in kwire: functions are given as on_assigned="),
        (lambda c: c.seek(TP), r"in kwire: the offset is the second argument"),
        (
            lambda c: c.pause(TP, TP),
            r"^\w*Consumer\.pause\(\) takes .*in kwire: .* collection: pause\(\[partition\]\)",
        ),
        (lambda c: c.position(TP, timeout_ms=500), r"'timeout_ms'; in kwire: timeout= is in seconds"),
        (lambda c: c.commit_sync(asynchronous=False), r"in kwire: this call waits"),
        (lambda c: c.committed(TP, metadata=True), r"in kwire: it answers offset and metadata"),
        (lambda c: c.close(autocommit=False), r"'autocommit'; in kwire: with enable_auto_commit=False"),
    ],
)
def test_a_call_that_does_not_fit_says_what_does(using: Callable[[Call], None], call: Call, answer: str) -> None:
    with pytest.raises(TypeError, match=answer):
        using(call)


@BOTH
@pytest.mark.parametrize(
    ("keywords", "answer"),
    [
        (
            {"timeout_ms": 500},
            r"^\w*Consumer\.poll\(\) got .* 'timeout_ms'; in kwire: timeout= is in seconds, as in poll",
        ),
        ({"nothing": 5}, r"'nothing'$"),
    ],
)
def test_a_poll_with_a_keyword_of_another_client_says_what_it_is_in_kwire(
    using: Callable[[Call], None], keywords: dict[str, Any], answer: str
) -> None:
    with pytest.raises(TypeError, match=answer):
        using(lambda consumer: consumer.poll(**keywords))


def test_the_signature_of_poll_has_no_keywords_of_others() -> None:
    for owner in (Consumer, AsyncConsumer):
        assert list(inspect.signature(owner.poll).parameters) == ["self", "timeout", "max_records"]


@BOTH
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("commit", r"commit_sync\(\) waits"),
        ("consume", r"poll\(timeout, max_records=...\)"),
        ("store_offsets", r"commit_sync\(offsets\)"),
        ("commitSync", "commit_sync$"),
        ("seekToBeginning", "seek_to_beginning$"),
        ("offsetsForTimes", "offsets_for_times$"),
    ],
)
def test_a_method_of_another_client_names_that_of_kwire(using: Callable[[Call], None], name: str, answer: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; in kwire: .*{answer}"):
        using(lambda consumer: getattr(consumer, name))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("error", r"poll\(\) raises errors"),
        ("value", r"poll\(\) returns many records, and each has it"),
        ("items", r"for partition in records\.partitions\(\)"),
        ("isEmpty", "is_empty$"),
    ],
)
def test_an_attribute_of_what_another_client_polls_names_what_records_have(name: str, answer: str) -> None:
    with pytest.raises(AttributeError, match=rf"^'Records' object has no attribute '{name}'; in kwire: {answer}"):
        getattr(Records(), name)


class Entered:
    """Beside a consumer in a class: what it does not have."""

    async def __aenter__(self) -> str:
        return "entered"

    async def __aexit__(self, *error: object) -> None: ...


def test_a_class_beside_a_consumer_may_add_the_other_kind_of_with() -> None:
    """An answer in the place of `__aenter__` hid that of the other class, and `dir()` named it."""

    class Both(Consumer, Entered): ...

    async def enter(both: Both) -> str:
        async with both as entered:
            return entered

    with Both(bootstrap_servers="localhost:1") as both:
        assert asyncio.run(enter(both)) == "entered"
    assert "__aenter__" not in dir(Consumer)
    assert "__enter__" not in dir(AsyncConsumer)


class OwnRecords(Records):
    @property
    def first(self) -> object:
        return self.nothing  # type: ignore[attr-defined]  # that is the mistake


class OwnConsumer(Consumer):
    @property
    def first(self) -> object:
        return self.nothing  # type: ignore[attr-defined]  # that is the mistake


def test_an_error_inside_a_property_of_a_subclass_is_left_alone() -> None:
    """It was said that there is no such property."""
    with OwnConsumer(bootstrap_servers="localhost:1") as consumer:
        for owner in (OwnRecords(), consumer):
            with pytest.raises(AttributeError, match=r"object has no attribute 'nothing'$"):
                _ = owner.first


def test_records_that_are_not_made_yet_can_be_asked_for_any_name() -> None:
    """copy and pickle ask so. A look-up of its own attributes in `__getattr__` would have no end."""
    unmade = object.__new__(Records)
    assert [name for name in ("nothing", "isEmpty", "_chunks", "__setstate__") if hasattr(unmade, name)] == []
    assert len(copy.copy(Records())) == len(pickle.loads(pickle.dumps(Records()))) == 0


def test_nothing_is_answered_for_that_records_have() -> None:
    assert [name for name in OF_RECORDS if hasattr(Records, name)] == []


@BOTH
def test_any_other_name_is_just_not_there(using: Callable[[Call], None]) -> None:
    with pytest.raises(AttributeError, match=r"object has no attribute 'nothing'$"):
        using(lambda consumer: consumer.nothing)
    with pytest.raises(AttributeError, match=r"object has no attribute 'nothingElse'$"):
        using(lambda consumer: consumer.nothingElse)


def test_an_error_inside_a_call_that_fits_is_left_alone() -> None:
    def refuse(partition: TopicPartition) -> TopicPartition:
        raise TypeError("of the caller's own")

    with Consumer(bootstrap_servers="localhost:1", group_id="billing") as consumer:
        for call in (consumer.pause, consumer.seek_to_end):
            with pytest.raises(TypeError, match=r"^of the caller's own$"):
                call(map(refuse, [TP]))  # type: ignore[arg-type]  # that is the mistake


def test_nothing_is_answered_for_that_is_kwires_own() -> None:
    for owner in (Consumer, AsyncConsumer):
        assert [name for name in METHODS if hasattr(owner, name)] == []
        assert [name for name, _ in CALLS if not hasattr(owner, name)] == []
