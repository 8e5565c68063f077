"""Access keys (KIP-944): a callback has its work done elsewhere, in a thread, in a task of trio, in one of asyncio."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pytest
import trio

from kwire.consumer.access import AccessGuard, ThreadAccessKey
from kwire.errors import ConcurrentModificationError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
Work: TypeAlias = Callable[[], T]

TIMEOUT_S = 10.0


# --- elsewhere ---------------------------------------------------------------------------------------------------


def as_trio_task(work: Work[T]) -> T:
    """Run it in a task that another task has started, on this thread."""
    results: list[T] = []

    async def child() -> None:
        await trio.lowlevel.checkpoint()
        results.append(work())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)

    trio.run(main)
    return results[0]


def as_asyncio_task(work: Work[T]) -> T:
    async def child() -> T:
        await asyncio.sleep(0)
        return work()

    async def main() -> T:
        return await asyncio.create_task(child())

    return asyncio.run(main())


def as_it_is(work: Work[T]) -> T:
    return work()


KINDS = pytest.mark.parametrize("kind", [as_it_is, as_trio_task, as_asyncio_task], ids=["thread", "trio", "asyncio"])
Kind: TypeAlias = Callable[[Work[str]], str]


def elsewhere(kind: Kind, work: Work[str]) -> str:
    """What the work answers, or the refusal it met. It runs in a thread that did not exist before."""
    with ThreadPoolExecutor(1, thread_name_prefix="elsewhere") as thread:
        return thread.submit(kind, lambda: tried(work)).result(TIMEOUT_S)


def tried(work: Work[str]) -> str:
    try:
        return work()
    except ConcurrentModificationError as error:
        return str(error)


def enter(guard: AccessGuard) -> str:
    with guard:
        return "entered"


def enter_with(guard: AccessGuard, key: ThreadAccessKey | None) -> str:
    guard.set_thread_access_key(key)
    return enter(guard)


def key_of(guard: AccessGuard) -> ThreadAccessKey:
    key = guard.get_thread_access_key()
    assert key is not None
    return key


class Borrower:
    """Is in a call of the consumer, elsewhere, from `begin` to `end`."""

    def __init__(self, kind: Kind, guard: AccessGuard) -> None:
        self._kind = kind
        self._guard = guard
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="borrower")
        self._is_in = threading.Event()
        self._may_leave = threading.Event()
        self._outcome: Future[str] | None = None

    def _stay(self, key: ThreadAccessKey) -> str:
        self._guard.set_thread_access_key(key)
        with self._guard:
            self._is_in.set()
            assert self._may_leave.wait(TIMEOUT_S)
        return "left"

    def begin(self, key: ThreadAccessKey) -> None:
        self._outcome = self._thread.submit(self._kind, lambda: self._stay(key))
        assert self._is_in.wait(TIMEOUT_S)

    def end(self) -> None:
        self._may_leave.set()
        assert self._outcome is not None
        assert self._outcome.result(TIMEOUT_S) == "left"
        self._thread.shutdown()


@contextmanager
def borrowed(kind: Kind, guard: AccessGuard) -> Iterator[None]:
    borrower = Borrower(kind, guard)
    borrower.begin(key_of(guard))
    try:
        yield
    finally:
        borrower.end()


@pytest.fixture
def guard() -> AccessGuard:
    return AccessGuard()


# --- who may call ------------------------------------------------------------------------------------------------


@KINDS
def test_in_a_callback_who_runs_elsewhere_is_refused(kind: Kind, guard: AccessGuard) -> None:
    with guard, guard.callback():
        refusal = elsewhere(kind, lambda: enter(guard))
    assert "runs a callback in thread 'MainThread'; thread 'elsewhere_0' has not been given its key" in refusal


@KINDS
def test_in_a_callback_who_runs_elsewhere_may_call_with_its_key(kind: Kind, guard: AccessGuard) -> None:
    with guard, guard.callback():
        key = key_of(guard)
        assert elsewhere(kind, lambda: enter_with(guard, key) + " " + enter(guard)) == "entered entered"
        assert enter(guard) == "entered", "the callback itself may call all along"
    assert elsewhere(kind, lambda: enter(guard)) == "entered", "nobody uses it"


@KINDS
def test_with_the_key_too_only_one_may_be_in_a_call(kind: Kind, guard: AccessGuard) -> None:
    with guard, guard.callback():
        key = key_of(guard)
        with borrowed(kind, guard):
            others = [elsewhere(another, lambda: enter_with(guard, key)) for another in (as_it_is, kind)]
            others.append(tried(lambda: enter(guard)))
        assert enter(guard) == "entered"
    assert all("being used by thread 'borrower_0'" in refusal for refusal in others)


@KINDS
def test_the_key_dies_with_its_callback_though_the_call_goes_on(kind: Kind, guard: AccessGuard) -> None:
    """In the next callback, it would let somebody in who is not waited for."""
    with guard:
        with guard.callback():
            dead = key_of(guard)
        between = elsewhere(kind, lambda: enter_with(guard, dead))
        with guard.callback():
            in_the_next = elsewhere(kind, lambda: enter_with(guard, dead))
    assert "being used by thread 'MainThread'" in between
    assert "another consumer's, or that of a callback which has returned" in in_the_next
    assert elsewhere(kind, lambda: enter_with(guard, dead)) == "entered", "nobody uses it: no key is needed"


@KINDS
def test_a_callback_of_the_borrowers_call_has_its_own_key(kind: Kind, guard: AccessGuard) -> None:
    def in_the_borrowed_callback(key: ThreadAccessKey) -> str:
        guard.set_thread_access_key(key)
        assert guard.get_thread_access_key() is key
        with guard, guard.callback():
            inner = key_of(guard)
            assert inner is not key
            found = elsewhere(kind, lambda: enter_with(guard, inner))
            refused = elsewhere(kind, lambda: enter_with(guard, key))
        assert guard.get_thread_access_key() is key
        assert "runs a callback in thread 'elsewhere_0'" in refused
        return found

    with guard, guard.callback():
        key = key_of(guard)
        assert elsewhere(kind, lambda: in_the_borrowed_callback(key)) == "entered"
        assert key_of(guard) is key
        assert elsewhere(kind, lambda: enter_with(guard, key)) == "entered"


@KINDS
def test_a_key_can_be_passed_on_and_on(kind: Kind, guard: AccessGuard) -> None:
    def pass_on(key: ThreadAccessKey) -> str:
        guard.set_thread_access_key(key)
        return elsewhere(kind, lambda: enter_with(guard, key_of_holder))

    with guard, guard.callback():
        key_of_holder = key_of(guard)
        assert elsewhere(kind, lambda: pass_on(key_of_holder)) == "entered"


@KINDS
def test_a_key_that_was_given_back_opens_nothing(kind: Kind, guard: AccessGuard) -> None:
    def give_back(key: ThreadAccessKey) -> str:
        guard.set_thread_access_key(key)
        guard.set_thread_access_key(None)
        assert guard.get_thread_access_key() is None
        return enter(guard)

    with guard, guard.callback():
        key = key_of(guard)
        assert "has not been given its key" in elsewhere(kind, lambda: give_back(key))


def test_two_consumers_keys_do_not_get_in_each_others_way(guard: AccessGuard) -> None:
    other = AccessGuard()

    def use_both(key: ThreadAccessKey, others_key: ThreadAccessKey) -> str:
        guard.set_thread_access_key(key)
        other.set_thread_access_key(others_key)
        return f"{enter(guard)} {enter(other)} {enter(guard)}"

    with guard, guard.callback(), other, other.callback():
        keys = key_of(guard), key_of(other)
        assert elsewhere(as_it_is, lambda: use_both(*keys)) == "entered entered entered"
        assert "is another consumer's" in elsewhere(as_it_is, lambda: enter_with(guard, keys[1]))


@pytest.mark.parametrize("copied", [copy.copy, lambda key: pickle.loads(pickle.dumps(key)), lambda key: type(key)()])
def test_what_looks_like_the_key_is_not_the_key(
    guard: AccessGuard, copied: Callable[[ThreadAccessKey], ThreadAccessKey]
) -> None:
    with guard, guard.callback():
        key = key_of(guard)
        assert "which has returned" in elsewhere(as_it_is, lambda: enter_with(guard, copied(key)))


def test_what_is_not_a_key_at_all_is_refused_by_name(guard: AccessGuard) -> None:
    with pytest.raises(InvalidArgumentError, match="what get_thread_access_key\\(\\) answers, not 'sesame'"):
        guard.set_thread_access_key("sesame")  # type: ignore[arg-type]  # on purpose


# --- who returns first -------------------------------------------------------------------------------------------


def call_without_waiting(guard: AccessGuard, borrower: Borrower, error: BaseException | None = None) -> None:
    """A call whose callback lends its key and leaves, by an error if there is one. Raises what the call raises."""
    with guard, guard.callback():
        borrower.begin(key_of(guard))
        if error is not None:
            raise error


@KINDS
def test_a_callback_that_does_not_wait_makes_its_call_fail_and_all_is_well_once_the_other_is_done(
    kind: Kind, guard: AccessGuard
) -> None:
    borrower = Borrower(kind, guard)
    problem = "a callback in thread 'MainThread' has returned while thread 'borrower_0' was still using the consumer"
    with pytest.raises(ConcurrentModificationError, match=problem):
        call_without_waiting(guard, borrower)
    assert guard.get_thread_access_key() is None
    assert "being used by thread 'borrower_0'" in tried(lambda: enter(guard))
    borrower.end()
    assert enter(guard) == "entered"
    assert elsewhere(kind, lambda: enter(guard)) == "entered"
    assert len(guard._levels) == 1


def test_the_call_may_end_before_or_after_the_one_that_was_not_waited_for(guard: AccessGuard) -> None:
    """After: the borrower leaves while the outer call is still on its way out."""
    borrower = Borrower(as_it_is, guard)
    with guard:
        with pytest.raises(ConcurrentModificationError, match="has returned while"):
            call_without_waiting(guard, borrower)
        with pytest.raises(ConcurrentModificationError, match="used by thread 'borrower_0'"), guard.callback():
            pytest.fail("somebody else is in a call")
        borrower.end()
        assert "used by thread 'MainThread'" in elsewhere(as_it_is, lambda: enter(guard))
        with guard.callback():
            key = key_of(guard)
            assert elsewhere(as_it_is, lambda: enter_with(guard, key)) == "entered"
    assert elsewhere(as_it_is, lambda: enter(guard)) == "entered"


def test_an_error_of_a_callback_that_did_not_wait_is_not_hidden(guard: AccessGuard) -> None:
    """A Ctrl-C while it waits, for one: it has to come out as what it is."""
    borrower = Borrower(as_it_is, guard)
    with pytest.raises(KeyboardInterrupt) as caught:
        call_without_waiting(guard, borrower, KeyboardInterrupt())
    borrower.end()
    assert "has to wait for those it gives its key" in caught.value.__notes__[0]
    assert enter(guard) == "entered"


# --- what is not inherited ---------------------------------------------------------------------------------------


def test_a_trio_task_keeps_its_key_and_does_not_share_it(guard: AccessGuard) -> None:
    """Neither with the tasks it starts, nor with those beside it, nor with what it starts in threads."""
    found: dict[str, str] = {}

    async def child() -> None:
        found["child"] = tried(lambda: enter(guard))

    async def holder(key: ThreadAccessKey) -> None:
        guard.set_thread_access_key(key)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
        found["in a thread"] = await trio.to_thread.run_sync(tried, lambda: enter(guard))
        found["in a thread, with the key"] = await trio.to_thread.run_sync(tried, lambda: enter_with(guard, key))
        found["holder"] = tried(lambda: enter(guard))

    async def main(key: ThreadAccessKey) -> None:
        await holder(key)
        found["holder again"] = tried(lambda: enter(guard))

    with guard, guard.callback(), ThreadPoolExecutor(1) as thread:
        thread.submit(trio.run, main, key_of(guard)).result(TIMEOUT_S)
    assert_only_those_with_the_key(found)


def test_an_asyncio_task_keeps_its_key_and_does_not_share_it(guard: AccessGuard) -> None:
    found: dict[str, str] = {}

    async def child() -> None:
        found["child"] = tried(lambda: enter(guard))

    async def main(key: ThreadAccessKey) -> None:
        guard.set_thread_access_key(key)
        await asyncio.create_task(child())
        found["in a thread"] = await asyncio.to_thread(tried, lambda: enter(guard))
        found["in a thread, with the key"] = await asyncio.to_thread(tried, lambda: enter_with(guard, key))
        found["holder"] = tried(lambda: enter(guard))
        await asyncio.sleep(0)
        found["holder again"] = tried(lambda: enter(guard))

    with guard, guard.callback(), ThreadPoolExecutor(1) as thread:
        key = key_of(guard)
        thread.submit(lambda: asyncio.run(main(key))).result(TIMEOUT_S)
    assert_only_those_with_the_key(found)


def assert_only_those_with_the_key(found: dict[str, str]) -> None:
    refused = {name for name, outcome in found.items() if outcome != "entered"}
    assert refused == {"child", "in a thread"}
    assert all("is in another task or context than the one that was given its key" in found[name] for name in refused)


def test_a_copied_context_does_not_count_wherever_it_is_run(guard: AccessGuard) -> None:
    def copies(key: ThreadAccessKey) -> str:
        guard.set_thread_access_key(key)
        context = copy_context()
        here = context.run(tried, lambda: enter(guard))
        there = elsewhere(as_it_is, lambda: context.run(enter, guard))
        assert enter(guard) == "entered"
        return f"{here} {there}"

    with guard, guard.callback():
        key = key_of(guard)
        assert elsewhere(as_it_is, lambda: copies(key)).count("another task or context") == 2


@pytest.mark.parametrize("loop", [as_trio_task, as_asyncio_task])
def test_a_loop_that_the_callback_runs_on_its_own_thread_needs_no_key(loop: Kind, guard: AccessGuard) -> None:
    """Nothing else runs on that thread meanwhile; and what worked before there were keys goes on working."""
    with guard, guard.callback():
        key = key_of(guard)
        assert loop(lambda: enter(guard)) == "entered"
        assert loop(lambda: str(guard.get_thread_access_key() is key)) == "True"
