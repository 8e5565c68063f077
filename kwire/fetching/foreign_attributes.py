"""Attributes that other clients' answers to a poll have, and `Records` has not: what to write in kwire.

Read only when Python has not found an attribute.
"""

from __future__ import annotations

from collections.abc import Mapping

_OF_EACH = "poll() returns many records, and each has it: for record in records"
OF_RECORDS: Mapping[str, str] = {
    "items": "for partition in records.partitions(), and records[partition] has its records",
    "get": "records[partition] has the records of a partition, or none",
    "error": "poll() raises errors, so there are only records to look at",
    **dict.fromkeys(("value", "key", "topic", "partition", "offset", "timestamp", "headers"), _OF_EACH),
    "iterator": "for record in records",
    "append": "records are not changed; list(records) is a list of your own",
}
