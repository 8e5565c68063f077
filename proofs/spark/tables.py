"""Reads a table of Spark's file sink without Spark: the files that its log names, and their rows.

The sink writes files first, and then their names into `_spark_metadata/<batch>`; every so often a `<batch>.compact` has
all of them. A file that no entry names was left by a batch that did not end, and is no part of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow.parquet as pq

LOG = "_spark_metadata"


def files_of_batch(table: Path, batch: int) -> list[Path]:
    """The files that one batch added; none if it has not ended."""
    entry = table / LOG / str(batch)
    if entry.exists():
        return _named(entry)
    everything = entry.with_suffix(".compact")
    before = {file for number in range(batch) for file in files_of_batch(table, number)}
    return [file for file in _named(everything) if file not in before] if everything.exists() else []


def files(table: Path) -> list[Path]:
    """All files of the table."""
    entries = {name: entry for entry in (table / LOG).iterdir() if (name := entry.name).split(".")[0].isdecimal()}
    compact = max((int(name.split(".")[0]) for name in entries if name.endswith(".compact")), default=-1)
    later = sorted(int(name) for name in entries if name.isdecimal() and int(name) > compact)
    chosen = ([entries[f"{compact}.compact"]] if compact >= 0 else []) + [entries[str(number)] for number in later]
    return [file for entry in chosen for file in _named(entry)]


def offsets(paths: Iterable[Path]) -> dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The offsets of all rows by partition of the topic, in order."""
    columns = [pq.ParquetFile(path).read(columns=["partition", "offset"]) for path in paths]
    partitions = np.concatenate([each["partition"].to_numpy() for each in columns] or [np.empty(0, np.int32)])
    numbers = np.concatenate([each["offset"].to_numpy() for each in columns] or [np.empty(0, np.int64)])
    return {int(each): np.sort(numbers[partitions == each]) for each in np.unique(partitions)}


@dataclass(frozen=True, slots=True)
class Audit:
    """The comparison of a table with a topic."""

    rows: int
    missing: int
    twice: int
    strange: int


def audit(found: Mapping[int, np.ndarray[tuple[int], np.dtype[np.int64]]], ends: Mapping[int, int]) -> Audit:
    """Each offset of each partition from 0 to its end is to be there once."""
    rows = missing = twice = strange = 0
    for partition in found.keys() | ends.keys():
        numbers = found.get(partition, np.empty(0, np.int64))
        once = np.unique(numbers)
        known = once[(once >= 0) & (once < ends.get(partition, 0))]
        rows += len(numbers)
        twice += len(numbers) - len(once)
        strange += len(once) - len(known)
        missing += ends.get(partition, 0) - len(known)
    return Audit(rows, missing, twice, strange)


def _named(entry: Path) -> list[Path]:
    lines = entry.read_text().splitlines()[1:]  # the first says the version
    return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines]
