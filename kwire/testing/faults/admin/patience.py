"""Retries of requests to a cluster that faults strike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaException

from kwire.errors import KafkaError

T = TypeVar("T")

CLIENT_ID = "kwire-faults-admin"
PATIENCE_S = 30.0
ANSWER_S = 4.0
PAUSE_S = 0.1


class AdminError(KafkaError):
    """The cluster has not carried out a request, in spite of retries."""


def insist(action: Callable[[], T], what: str) -> T:
    """Retry an action until it succeeds. Returns its result.

    Raises:
        AdminError: it fails until `PATIENCE_S` are over.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return action()
        except (KafkaException, KafkaError, TimeoutError) as error:
            if time.monotonic() > deadline_s:
                raise AdminError(f"not within {PATIENCE_S:.0f} s: {what}: {error}") from error
        time.sleep(PAUSE_S)


def insist_once(action: Callable[[], object], what: str, *, is_done: int) -> None:
    """Retry an action that can succeed only once: `is_done` is Kafka's error that says that an earlier attempt has done
    it."""

    def attempt() -> None:
        try:
            action()
        except KafkaException as error:
            if error.args[0].code() != is_done:
                raise

    insist(attempt, what)


def wait_for(look: Callable[[], T | None], what: str, *, timeout_s: float = PATIENCE_S) -> T:
    """Call `look` until it finds something. Returns that.

    Raises:
        AdminError: it finds nothing until the time is over.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > deadline_s:
            raise AdminError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(PAUSE_S)
    return found
