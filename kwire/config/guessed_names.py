"""What becomes of settings that no client has, and that people try first."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.config.foreign_names import ForeignName, other

_TO_SUBSCRIBE = "pass it to subscribe()"


def _each(names: str, instead: str) -> Iterator[ForeignName]:
    return (other(name, instead, at=()) for name in names.split())


GUESSED: tuple[ForeignName, ...] = (
    *_each("topic topics topic_name", "topics come first, without a name, as in Consumer('orders', 'refunds')"),
    *_each("broker brokers servers hosts", "give the brokers as bootstrap_servers="),
    *_each("consumer_group", "give the group as group_id="),
    other("from_beginning", 'auto_offset_reset="earliest" begins there, if nothing is committed', at=("", "false")),
    *_each("timeout timeout_ms poll_timeout poll_timeout_ms", "poll(timeout) takes it, in seconds"),
    *_each("on_assigned on_revoked on_lost listener", _TO_SUBSCRIBE),
    *_each("pattern", f"{_TO_SUBSCRIBE}: subscribe(re.compile(...))"),
    *_each("last", "read(topic, start=-5) reads the last 5 records of each partition"),
)
