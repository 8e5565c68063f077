"""One thread at a time."""

from __future__ import annotations

import threading

import pytest

from kwire.consumer.access import AccessGuard
from kwire.errors import ConcurrentModificationError


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
