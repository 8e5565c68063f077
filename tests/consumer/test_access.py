"""One thread at a time, calls inside calls, and callbacks inside those."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kwire.consumer.access import AccessGuard, ThreadAccessKey, _Level
from kwire.errors import ConcurrentModificationError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as the interpreter can."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


def in_another_thread(guard: AccessGuard) -> str | None:
    """What entering from another thread comes to: None, or the refusal."""
    found: list[str] = []

    def enter() -> None:
        try:
            with guard:
                pass
        except ConcurrentModificationError as error:
            found.append(str(error))

    thread = threading.Thread(target=enter, name="second")
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waited, where it has to be refused"
    return found[0] if found else None


def test_a_second_thread_is_refused_at_once_and_both_are_named() -> None:
    guard = AccessGuard()
    with guard:
        refusal = in_another_thread(guard)
    assert refusal is not None
    assert f"used by thread {threading.current_thread().name!r}; thread 'second' must not" in refusal
    assert in_another_thread(guard) is None


def test_one_thread_may_enter_again_and_keeps_it_until_it_has_left_as_often() -> None:
    guard = AccessGuard()
    with guard:
        with guard:
            assert in_another_thread(guard)
        assert in_another_thread(guard)
    assert in_another_thread(guard) is None


def test_an_error_inside_lets_go() -> None:
    guard = AccessGuard()
    with pytest.raises(ZeroDivisionError), guard:
        raise ZeroDivisionError
    assert in_another_thread(guard) is None


def test_a_callback_may_call_again_from_its_thread_and_from_no_other() -> None:
    guard = AccessGuard()
    with guard:
        with guard.callback():
            with guard:
                assert "being used by thread" in str(in_another_thread(guard))
            refusal = in_another_thread(guard)
        assert in_another_thread(guard)
    assert refusal is not None
    assert refusal.startswith(
        f"this consumer runs a callback in thread {threading.current_thread().name!r}; thread 'second' has not been "
        "given its key. Have the callback pass on what get_thread_access_key() answers"
    )
    assert in_another_thread(guard) is None


def test_callbacks_inside_callbacks_have_keys_of_their_own_and_give_back_the_outer_one() -> None:
    guard = AccessGuard()
    keys: list[ThreadAccessKey | None] = [guard.get_thread_access_key()]
    with guard:
        keys.append(guard.get_thread_access_key())
        with guard.callback():
            keys.append(guard.get_thread_access_key())
            with guard, guard.callback():
                keys.append(guard.get_thread_access_key())
            keys.append(guard.get_thread_access_key())
        with guard.callback():
            keys.append(guard.get_thread_access_key())
    assert keys[:2] == [None, None]
    first, inner, first_again, second = keys[2:]
    assert first is first_again
    assert len({first, inner, second, None}) == 4
    assert guard.get_thread_access_key() is None


def test_an_error_of_a_callback_comes_out_as_it_is_and_ends_it() -> None:
    guard = AccessGuard()
    with guard:
        with pytest.raises(ZeroDivisionError) as caught, guard.callback():
            raise ZeroDivisionError
        assert guard.get_thread_access_key() is None
    assert not hasattr(caught.value, "__notes__")
    assert in_another_thread(guard) is None


def test_a_callback_that_an_interrupt_kept_from_being_ended_ends_with_its_call() -> None:
    """A Ctrl-C can come between any two steps, also between opening a callback's level and running the callback."""
    guard = AccessGuard()
    with guard:
        guard._open()
    assert guard.get_thread_access_key() is None
    assert in_another_thread(guard) is None


def test_a_call_that_an_interrupt_kept_from_being_left_ends_with_its_callback() -> None:
    guard = AccessGuard()
    with guard:
        with guard.callback():
            guard.__enter__()  # and a Ctrl-C before the call has begun
        assert len(guard._levels) == 1
    assert in_another_thread(guard) is None


def test_a_thousand_calls_and_callbacks_leave_nothing_behind() -> None:
    guard = AccessGuard()
    for _ in range(1000):
        with guard, guard.callback(), guard:
            pass
    assert len(guard._levels) == 1


def test_however_threads_with_the_key_crowd_there_is_never_more_than_one_inside(hasty_threads: None) -> None:
    guard = AccessGuard()
    inside: list[int] = []
    most: list[int] = []
    ready = threading.Barrier(4)

    def crowd(key: ThreadAccessKey | None) -> int:
        guard.set_thread_access_key(key)
        ready.wait(10)
        entered = 0
        for _ in range(400):
            with suppress(ConcurrentModificationError), guard:
                inside.append(entered)
                most.append(len(inside))
                inside.pop()
                entered += 1
        return entered

    with guard, guard.callback(), ThreadPoolExecutor(3) as threads:
        key = guard.get_thread_access_key()
        others = [threads.submit(crowd, key) for _ in range(3)]
        entered = crowd(None) + sum(other.result(10) for other in others)
    assert set(most) == {1}
    assert len(most) == entered
    assert in_another_thread(guard) is None


def test_of_two_with_the_key_who_ask_at_the_same_moment_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are held up where they have been found to be admissible: then a look and a claim must be one step."""
    guard = AccessGuard()
    admits = _Level.admits
    both_are_admitted = threading.Barrier(2)
    refused = threading.Event()

    def admits_slowly(level: _Level, thread: int) -> bool:
        answer = admits(level, thread)
        with suppress(threading.BrokenBarrierError):
            both_are_admitted.wait(0.05)
        return answer

    def ask(key: ThreadAccessKey | None) -> bool:
        guard.set_thread_access_key(key)
        try:
            with guard:
                return refused.wait(1.0)
        except ConcurrentModificationError:
            refused.set()
            return False

    with guard, guard.callback(), ThreadPoolExecutor(2) as threads:
        key = guard.get_thread_access_key()
        monkeypatch.setattr(_Level, "admits", admits_slowly)
        outcomes = [threads.submit(ask, key) for _ in range(2)]
        assert sorted(outcome.result(10) for outcome in outcomes) == [False, True]
