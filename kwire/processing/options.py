"""What the user of a `Processor` has chosen, checked. Made by the processor, read by its parts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Literal, cast

from kwire.config import ConsumerConfig
from kwire.consumer.arguments import whole_number
from kwire.consumer.listener import uncallable_with
from kwire.errors import IllegalStateError, InvalidArgumentError
from kwire.model import K, V
from kwire.processing.ordered_queues import Ordering
from kwire.processing.policies import DeadLetter, OnDataLoss, OnFailure, Retry, checked_number
from kwire.processing.workers import BatchHandler, Handler, Item
from kwire.unfinished import is_coroutine, is_generator

_POSITIVE = (
    *("workers", "batch_size", "rate_limit", "commit_interval"),
    *("max_buffered_records", "max_buffered_bytes", "watchdog"),
)
_MAY_BE_NONE = ("batch_size", "rate_limit")
_WHOLE = ("workers", "batch_size")
_UNITS = {"rate_limit": "records a second", "commit_interval": "seconds", "watchdog": "seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorOptions(Generic[K, V]):
    """See `Processor`, whose arguments these are."""

    handler: Handler[K, V] | BatchHandler[K, V]
    ordering: Ordering
    workers: int
    executor: Executor | None
    backend: Literal["asyncio", "trio"]
    batch_size: int | None
    rate_limit: float | None
    commit_interval: float
    retry: Retry
    on_failure: OnFailure | DeadLetter[K, V]
    on_data_loss: OnDataLoss
    offset_map: bool
    key_order_within_ranges: bool
    max_buffered_records: int
    max_buffered_bytes: int
    watchdog: float
    is_async: bool = field(init=False)
    """Whether calling the handler makes something to await. Looked at once: it is asked for with each run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_async", is_coroutine(self.handler))
        for name in _POSITIVE:
            number = getattr(self, name)
            if number is not None or name not in _MAY_BE_NONE:
                object.__setattr__(self, name, _positive(name, number))
        if not isinstance(self.retry, Retry):
            raise InvalidArgumentError(f"retry is {self.retry!r}: it has to be a Retry, such as Retry(max_attempts=3)")
        if self.backend not in ("asyncio", "trio"):
            raise InvalidArgumentError(f"backend is {self.backend!r}: it has to be 'asyncio' or 'trio'")
        if self.executor is not None:
            self._check_executor(self.executor)
        self._check_is_function("handler", self.handler, 1)
        if not isinstance(self.on_failure, OnFailure):
            self._check_is_function("on_failure", self.on_failure, 2)
        if is_coroutine(self.on_failure) and not self.is_async:
            raise InvalidArgumentError(
                "an async on_failure runs on the event loop of an async handler, and this is none"
            )

    def check_fits(self, config: ConsumerConfig) -> None:
        """Raise what speaks against a consumer with these settings."""
        if config.group_id is None:
            raise IllegalStateError("a Processor commits what is done, which needs a group: make it with a group_id")
        if config.enable_auto_commit:
            raise IllegalStateError(
                "the consumer commits whatever it has returned, done or not: make it with enable_auto_commit=False"
            )
        is_by_key = self.ordering is Ordering.KEY
        if config.enable_parallel_rebalance and is_by_key and not self.key_order_within_ranges:
            raise IllegalStateError(
                "after a crash a consumer with enable_parallel_rebalance=True returns the newest records of a key in "
                "front of older ones: make it without, or say with key_order_within_ranges=True that the order within "
                "what is new, and within what is being caught up with, is enough"
            )

    def _check_executor(self, executor: Executor) -> None:
        if self.is_async:
            raise InvalidArgumentError("an async handler runs on an event loop: it cannot have an executor")
        if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
            raise InvalidArgumentError(
                f"executor is {executor!r}: it has to be a concurrent.futures.Executor; workers= says how many records "
                "are handled at once"
            )
        if isinstance(executor, ProcessPoolExecutor):
            self._check_picklable()

    def _check_is_function(self, name: str, function: object, arguments: int) -> None:
        if why := uncallable_with(function, arguments):
            raise InvalidArgumentError(f"{name} is {function!r}, and {why}")
        if is_generator(function):
            raise InvalidArgumentError(f"{name} is a generator, over which nobody iterates: do not yield in it")

    def _check_picklable(self) -> None:
        """A handler that cannot be sent to another process would fail with each record, and each would be given up."""
        try:
            pickle.dumps(self.handler)
        except Exception as error:
            raise InvalidArgumentError(
                f"the handler {self.handler!r} cannot be sent to a pool of processes: {error}; it has to be a function "
                "at the top of a module"
            ) from error

    @property
    def can_make_late(self) -> bool:
        """Whether it is our own threads that call the handler, with one record after the other."""
        return self.executor is None and self.batch_size is None and not self.is_async

    @property
    def call(self) -> Callable[[Item[K, V]], object]:
        """The handler, for a caller that knows whether there are batches."""
        return cast("Callable[[Item[K, V]], object]", self.handler)


def _positive(name: str, given: object) -> float:
    number = whole_number(name, given) if name in _WHOLE else checked_number(name, given, _UNITS.get(name))
    if not number > 0:  # also true of NaN
        raise InvalidArgumentError(f"{name} is {number}: it has to be more than 0")
    return number
