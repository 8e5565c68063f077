"""Attributes that an object does not have: the error says what to write in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping


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
