"""Which records of a history no invariant can have anything against, so that they may be left out of it.

A record is *plain* if it was sent once and polled once, with the same value, after it was sent, in time, and in the
middle of what its poll returned: the offset before it and the one behind it came with it. Leaving it out of `Sent` and
of `Polled` changes nothing that `check` says, because

* it is in no list of what was lost, differs, came twice or late;
* the first and the last record of each poll stay, and these are all that commits, positions and owners are about;
* nothing is missing where it was: the member that polled its neighbours polled it, and nobody else skipped it. Records
  that somebody did skip stay (`_skipped`), as do those that a truncation took (`_truncated`).

What is left grows with the number of polls, commits and faults, and not with that of records.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from kwire.testing.invariants.calm import AT_ONCE_MS
from kwire.testing.invariants.recovery import RECOVERY_MS

# Skipped offsets meet records by stretches of this many, not one by one.
STRETCH = 4_096
BROADCAST_ROWS = 2_000_000
KEY = ["partition", "offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessMoments:
    """What decides whether a poll was late; None for what did not happen.

    Args:
        calm: the place of the first `Calm`.
        deadline_ms: when all had to be polled that was sent before `Quiet`.
    """

    calm: int | None
    deadline_ms: float | None


def moments_of(events: DataFrame) -> LatenessMoments:
    """Read from the few events that tell."""
    row = events.agg(
        sf.min(sf.when(sf.col("event") == "Calm", sf.col("place"))),
        sf.min_by(
            sf.when(sf.col("event") == "Quiet", sf.col("at_ms")), sf.when(sf.col("event") == "Quiet", sf.col("place"))
        ),
        sf.max("session_timeout_ms"),
    ).first()
    assert row is not None
    calm, quiet_ms, session_ms = row
    deadline_ms = None if quiet_ms is None else quiet_ms + (session_ms or 0.0) + RECOVERY_MS
    return LatenessMoments(calm=calm, deadline_ms=deadline_ms)


def sent_of(events: DataFrame) -> DataFrame:
    return events.where(sf.col("event") == "Sent").select("place", "at_ms", *KEY, "value")


def polled_of(events: DataFrame) -> DataFrame:
    """One row for each record of each poll: `before` and `behind` are its neighbours' offsets there, if it has any."""
    n = sf.size("offsets")
    nothing = sf.array(sf.lit(None).cast("long"))
    neighbours = sf.arrays_zip(
        sf.col("offsets").alias("offset"),
        sf.col("values").alias("value"),
        sf.concat(nothing, sf.slice("offsets", 1, n - 1)).alias("before"),
        sf.concat(sf.slice("offsets", 2, n), nothing).alias("behind"),
    )
    polls = events.where((sf.col("event") == "Polled") & (n > 0))
    rows = polls.select("place", "at_ms", "partition", sf.posexplode(neighbours).alias("at", "record"))
    return rows.select("place", "at_ms", "partition", "at", "record.*")


def kept_keys(events: DataFrame, moments: LatenessMoments) -> DataFrame:
    """Partition and offset of every record that is not plain."""
    sent, polled = sent_of(events), polled_of(events)
    found = _told_differently(sent, polled, moments)
    for more in (_of_shared_values(sent, polled), _skipped(events, sent, polled), _truncated(events, sent)):
        found = found.unionByName(more.select(*KEY))
    return found.distinct()


def _told_differently(sent: DataFrame, polled: DataFrame, moments: LatenessMoments) -> DataFrame:
    """Not sent once and polled once, or with another value, too soon, too late, or at an end of its poll."""
    is_inside = (sf.col("before") == sf.col("offset") - 1) & (sf.col("behind") == sf.col("offset") + 1)
    value, zero, none = sf.xxhash64("value").alias("value"), sf.lit(0), sf.lit(None)
    each_sent = sent.select(
        *KEY, value, sf.lit(1).alias("sends"), zero.alias("polls"), zero.alias("inside"),
        sf.col("place").alias("sent_place"), sf.col("at_ms").alias("sent_ms"),
        none.cast("long").alias("polled_place"), none.cast("double").alias("polled_ms"),
    )  # fmt: skip
    each_polled = polled.select(
        *KEY, value, zero.alias("sends"), sf.lit(1).alias("polls"),
        sf.coalesce(is_inside, sf.lit(False)).cast("int").alias("inside"),
        none.cast("long").alias("sent_place"), none.cast("double").alias("sent_ms"),
        sf.col("place").alias("polled_place"), sf.col("at_ms").alias("polled_ms"),
    )  # fmt: skip
    sums = [sf.sum(name).alias(name) for name in ("sends", "polls", "inside")]
    ends = [sf.max(name).alias(name) for name in ("sent_place", "sent_ms", "polled_place", "polled_ms")]
    values = [sf.min("value").alias("least"), sf.max("value").alias("most")]
    told = each_sent.unionByName(each_polled).groupBy(*KEY).agg(*sums, *ends, *values)
    return told.where(~_is_plain(moments)).select(*KEY)


def _is_plain(moments: LatenessMoments) -> Column:
    once = (sf.col("sends") == 1) & (sf.col("polls") == 1) & (sf.col("inside") == 1)
    plain = once & (sf.col("least") == sf.col("most")) & (sf.col("sent_place") < sf.col("polled_place"))
    if moments.calm is not None:
        is_late = sf.col("polled_ms") - sf.col("sent_ms") > AT_ONCE_MS
        plain &= ~((sf.col("sent_place") > moments.calm) & is_late)
    if moments.deadline_ms is not None:
        plain &= sf.col("polled_ms") <= moments.deadline_ms
    return sf.coalesce(plain, sf.lit(False))


def _of_shared_values(sent: DataFrame, polled: DataFrame) -> DataFrame:
    """Records whose values were sent to more than one place, or polled somewhere else as well."""
    both = sent.select(*KEY, sf.xxhash64("value").alias("value"))
    both = both.unionByName(polled.select(*KEY, sf.xxhash64("value").alias("value")))
    place = sf.xxhash64(*KEY)
    shared = both.groupBy("value").agg(sf.min(place).alias("one"), sf.max(place).alias("other")).where("one != other")
    return both.join(shared, "value", "left_semi")


def _skipped(events: DataFrame, sent: DataFrame, polled: DataFrame) -> DataFrame:
    """Records that were skipped: between two neighbours in a poll, or in a poll and the one before; or behind where the
    member sought to, or where the group's commits ended when it began."""
    inside = polled.where(sf.col("offset") > sf.col("before") + 1)
    jumps = inside.select("partition", (sf.col("before") + 1).alias("first"), sf.col("offset").alias("last"))
    jumps = jumps.unionByName(_between_polls(events))
    stretches = jumps.select(
        *("partition", "first", "last"),
        sf.explode(sf.sequence(_stretch("first"), sf.floor((sf.col("last") - 1) / STRETCH).cast("long"))).alias(
            "stretch"
        ),
    )
    records = sent.withColumn("stretch", _stretch("offset"))
    is_within = (sf.col("offset") >= sf.col("first")) & (sf.col("offset") < sf.col("last"))
    return records.join(stretches, ["partition", "stretch"]).where(is_within)


def _between_polls(events: DataFrame) -> DataFrame:
    offset_of_end = sf.element_at("offsets", -1) + 1
    polls = events.where((sf.col("event") == "Polled") & (sf.size("offsets") > 0)).select(
        *("member", "partition", "place"), sf.element_at("offsets", 1).alias("first"), offset_of_end.alias("end")
    )
    unknown = sf.lit(None).cast("long")
    sought = events.where(sf.col("event") == "Sought").select(
        *("member", "partition", "place"), unknown.alias("first"), sf.col("offset").alias("end")
    )
    by_member = Window.partitionBy("member", "partition").orderBy("place")
    steps = polls.unionByName(sought).unionByName(_beginnings(events))
    steps = steps.withColumn("position", sf.lag("end").over(by_member))
    jumps = steps.where(sf.col("first") > sf.col("position"))
    return jumps.select("partition", sf.col("position").alias("first"), sf.col("first").alias("last"))


def _beginnings(events: DataFrame) -> DataFrame:
    """Each assignment of a partition, and what the group had committed of it then; 0 for nothing, null for unknown."""
    stored = events.where(sf.col("event") == "Stored").select(
        sf.lit(None).cast("string").alias("member"), "partition", "place", sf.coalesce("offset", sf.lit(0)).alias("end")
    )
    assigned = events.where(sf.col("event") == "Assigned").select(
        "member", sf.explode("partitions").alias("partition"), "place", sf.lit(None).cast("long").alias("end")
    )
    so_far = Window.partitionBy("partition").orderBy("place").rowsBetween(Window.unboundedPreceding, 0)
    known = stored.unionByName(assigned).withColumn("end", sf.last("end", ignorenulls=True).over(so_far))
    return known.where(sf.col("member").isNotNull()).withColumn("first", sf.lit(None).cast("long"))


def _truncated(events: DataFrame, sent: DataFrame) -> DataFrame:
    """Sent before a truncation, at or behind where it cut."""
    cuts = events.where(sf.col("event") == "Truncated").select(
        "partition", sf.col("to"), sf.col("place").alias("cut_place")
    )
    is_cut = (sf.col("offset") >= sf.col("to")) & (sf.col("place") < sf.col("cut_place"))
    return sent.join(sf.broadcast(cuts), "partition").where(is_cut)


def _stretch(column: str) -> Column:
    return sf.floor(sf.col(column) / STRETCH).cast("long")


def thinned(events: DataFrame, keys: DataFrame, kept: int) -> DataFrame:
    """The history without plain records: `place`, and an event as its `line`, or as the columns of `Sent` or `Polled`.

    Args:
        keys: the partitions and offsets that stay.
        kept: how many these are.
    """
    few = sf.broadcast(keys) if kept <= BROADCAST_ROWS else keys
    sent = sent_of(events).join(few, KEY, "left_semi")
    record = sf.struct("at", "offset", "value")
    records = (
        polled_of(events)
        .join(few, KEY, "left_semi")
        .groupBy("place")
        .agg(sf.sort_array(sf.collect_list(record)).alias("records"))
    )
    polls = (
        events.where(sf.col("event") == "Polled").select("place", "at_ms", "member", "partition").join(records, "place")
    )
    others = events.where(~sf.col("event").isin("Sent", "Polled")).select("place", "line")
    found = others.unionByName(sent, allowMissingColumns=True).unionByName(polls, allowMissingColumns=True)
    return found.orderBy("place")
