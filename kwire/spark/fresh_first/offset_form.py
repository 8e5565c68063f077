"""Coverage as an offset of Spark's checkpoint, and back. Pure.

Where there is no gap it is what Spark's own Kafka source writes, `{"orders": {"0": 500}}`, so a query may go on with
that source once its backfill is done. With gaps it is `{"orders": {"0": {"head": 500, "gaps": [[100, 300]]}}}`, which
that source refuses, so it never skips one. `begin` is there where a partition was met whose log began later than 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kwire.errors import InvalidArgumentError
from kwire.model import TopicPartition
from kwire.offset_set import OffsetSet
from kwire.spark.fresh_first.coverage import Coverage, Coverages

OffsetForm: TypeAlias = dict[str, dict[str, object]]


def to_form(covered: Coverages) -> OffsetForm:
    """What JSON is made of. Topics and partitions are in order: Spark compares offsets as text."""
    form: OffsetForm = {}
    for tp in sorted(covered):
        form.setdefault(tp.topic, {})[str(tp.partition)] = _partition_form(covered[tp])
    return form


def from_form(form: Mapping[str, object]) -> dict[TopicPartition, Coverage]:
    """The coverage that an offset says.

    Raises:
        InvalidArgumentError: It is not of either form; the message names topic and partition.
    """
    covered: dict[TopicPartition, Coverage] = {}
    for topic, partitions in form.items():
        if not isinstance(partitions, Mapping):
            raise InvalidArgumentError(f"offset of topic {topic}: {partitions!r} is no object of partitions")
        for partition, value in partitions.items():
            try:
                covered[TopicPartition(topic, int(partition))] = _coverage(value)
            except (InvalidArgumentError, ValueError) as error:
                raise InvalidArgumentError(f"offset of {topic}-{partition}: {error}") from None
    return covered


def has_gaps(covered: Coverages) -> bool:
    """Whether there is backfill to do, and the offset one that Spark's own source cannot read."""
    return any(each.gaps for each in covered.values())


def _partition_form(covered: Coverage) -> object:
    if not covered.gaps and not covered.begin:
        return covered.head
    form: dict[str, object] = {"head": covered.head}
    if covered.begin:
        form["begin"] = covered.begin
    if covered.gaps:
        form["gaps"] = [[gap.start, gap.stop] for gap in covered.gaps]
    return form


def _coverage(value: object) -> Coverage:
    if not isinstance(value, Mapping):
        return Coverage(_offset(value))
    if unknown := value.keys() - {"head", "gaps", "begin"}:
        raise InvalidArgumentError(f"{min(map(str, unknown))!r} is not known here; a newer kwire may have written it")
    return Coverage(
        _offset(value.get("head")),
        _gaps(value.get("gaps", [])),
        _offset(value.get("begin", 0)),
    )


def _gaps(value: object) -> OffsetSet:
    gaps = tuple(map(_gap, _list(value)))
    if gaps != OffsetSet(gaps):
        raise InvalidArgumentError(f"gaps are in order and do not touch, which {list(gaps)} are not")
    return OffsetSet(gaps)


def _gap(value: object) -> range:
    start, stop = map(_offset, _list(value))
    return range(start, stop)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise InvalidArgumentError(f"{value!r} is no list")
    return value


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgumentError(f"{value!r} is no offset")
    return value
