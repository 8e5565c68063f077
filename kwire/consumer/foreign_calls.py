"""Keywords and methods of other clients: the errors about them say what to write in kwire.

The errors stay the TypeError and the AttributeError that Python raises; only their text says more. The tables are read
only when Python has refused a call. `poll` has a lighter wrapper than the other methods: theirs would take a twentieth
of the time of an empty poll.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from kwire.consumer.arguments import Timeout, hint_at_seconds

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

_SECONDS = "timeout= is in seconds"
_ONE_RECORD = (
    "commit_sync({record.topic_partition: OffsetAndMetadata(record.offset + 1, leader_epoch=record.leader_epoch)})"
)
_TIMED = ("position", "committed", "beginning_offsets", "end_offsets", "offsets_for_times", "commit_sync", "close")

# By method and keyword; "" is for calls that do not fit for another reason.
CALLS: Mapping[tuple[str, str], str] = {
    ("subscribe", "on_assign"): "give on_assigned=, a function of (consumer, partitions)",
    ("subscribe", "on_revoke"): "give on_revoked=, a function of (consumer, partitions)",
    ("subscribe", "pattern"): "give a compiled pattern in the place of topics: subscribe(re.compile(...))",
    ("subscribe", ""): "functions are given as on_assigned=, on_revoked=, on_lost=",
    ("seek", ""): "the offset is the second argument: seek(partition, offset)",
    ("pause", ""): "partitions are one collection: pause([partition])",
    ("resume", ""): "partitions are one collection: resume([partition])",
    ("seek_to_beginning", ""): "partitions are one collection: seek_to_beginning([partition])",
    ("seek_to_end", ""): "partitions are one collection: seek_to_end([partition])",
    ("commit_sync", "message"): f"to commit one record: {_ONE_RECORD}",
    ("commit_sync", "asynchronous"): "this call waits, and commit_async() does not",
    ("commit_async", "message"): f"commits take offsets, as in {_ONE_RECORD}",
    ("commit_async", "asynchronous"): "this call does not wait, and commit_sync() does",
    ("committed", "metadata"): "it answers offset and metadata of each partition",
    ("close", "autocommit"): "with enable_auto_commit=False nothing is committed but by you",
    **{(method, "timeout_ms"): _SECONDS for method in _TIMED},
}
POLL_KEYWORDS: Mapping[str, str] = {
    "timeout_ms": f"{_SECONDS}, as in poll(1.0)",
    **dict.fromkeys(("max_poll_records", "num_messages"), "max_records="),
}
METHODS: Mapping[str, str] = {
    "commit": f"commit_sync() waits, commit_async(callback=) does not; of one record: {_ONE_RECORD}",
    "consume": "poll(timeout, max_records=...) returns many records",
    "getone": "a loop over the consumer gives one record after the other",
    "getmany": "poll(timeout, max_records=...), in seconds, returns many records",
    "start": "there is nothing to start; use it in a `with` (or `async with`) statement",
    "stop": "close()",
    "store_offsets": "a poll says that what was returned before is done; other offsets: commit_sync(offsets)",
    "seek_to_committed": "committed(partitions), and seek(partition, offset) for each",
    "get_watermark_offsets": "beginning_offsets([partition]) and end_offsets([partition])",
    "highwater": "end_offsets([partition])",
    "unassign": "unsubscribe()",
    "incremental_assign": "assign(partitions) takes all that are to be assigned",
    "incremental_unassign": "assign(partitions) takes all that are to stay",
    "topics": "list_topics()",
    "partitions_for_topic": "partitions_for(topic)",
    "memberid": "group_metadata().member_id",
    "consumer_group_metadata": "group_metadata()",
}


def answers_foreign_calls(facade: C) -> C:
    """A class decorator: the methods of `CALLS` say more of a call that does not fit them."""
    for name in {method for method, _ in CALLS}:
        hints = {keyword: hint for (method, keyword), hint in CALLS.items() if method == name}
        setattr(facade, name, _answering(f"{facade.__name__}.{name}", getattr(facade, name), hints))
    facade.poll = _answering_poll(facade.poll)  # type: ignore[attr-defined]  # each facade has it
    return facade


def answers_foreign_keywords(hints: Mapping[str, str]) -> Callable[[C], C]:
    """A class decorator: making one with a keyword that it does not have says more of that."""

    def answering(owner: C) -> C:
        owner.__init__ = _answering(owner.__name__, owner.__init__, hints)  # type: ignore[misc]  # any class has one
        return owner

    return answering


def _answering_poll(method: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(method)
    def poll(self: object, timeout: Timeout = 1.0, *, max_records: int | None = None, **foreign: object) -> T:
        if foreign:
            name = next(iter(foreign))
            hint = f"; in kwire: {POLL_KEYWORDS[name]}" if name in POLL_KEYWORDS else ""
            raise TypeError(f"{type(self).__name__}.poll() got an unexpected keyword argument {name!r}{hint}")
        hint_at_seconds(timeout)
        return method(self, timeout, max_records=max_records)

    return poll


def _answering(full_name: str, method: Callable[P, T], hints: Mapping[str, str]) -> Callable[P, T]:
    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            if (hint := _hint(hints, method, args, kwargs)) is None:
                raise
            refusal = str(error).partition(". Did you mean ")[0]  # what Python guesses from 3.13 on; this is known
            refusal = refusal.replace(f"{method.__qualname__}()", f"{full_name}()")  # no class that users do not know
            raise TypeError(f"{refusal}; in kwire: {hint}") from None

    return call


def _hint(
    hints: Mapping[str, str],
    method: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> str | None:
    """None if the call does fit: then the error is not about it."""
    try:
        inspect.signature(method).bind(*args, **kwargs)
    except TypeError:
        return next((hints[keyword] for keyword in kwargs if keyword in hints), hints.get(""))
    return None
