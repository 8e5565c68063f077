"""Attributes that other clients' answers to a poll have, and `Records` has not: what to write in kwire.

Read only when Python has not found an attribute.
"""

from __future__ import annotations

import re
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


def no_such_attribute(owner: object, name: str, instead: Mapping[str, str]) -> AttributeError:
    """What is raised for a name that an object does not have.

    Args:
        owner: The object.
        name: The name.
        instead: By name, what to write; names in camel case need none.
    """
    in_snake_case = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if name in instead:
        hint = f"; in kwire: {instead[name]}"
    elif in_snake_case != name and hasattr(type(owner), in_snake_case):
        hint = f"; in kwire: {in_snake_case}"
    else:
        hint = ""
    return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=owner)
