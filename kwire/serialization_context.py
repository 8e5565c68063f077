"""What a deserializer may want to know of a record, and which ones do."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Literal, TypeAlias

from kwire.model import Header

Field: TypeAlias = Literal["key", "value"]


@dataclasses.dataclass(slots=True)
class SerializationContext:
    """Where some bytes come from. Fields are those of confluent-kafka's class of that name, so its deserializers and
    their `from_dict` functions can be called with it.

    Attributes:
        field: Whether these are keys or values.
    """

    topic: str
    field: Field
    headers: list[Header] = dataclasses.field(default_factory=list)


def takes_context(deserialize: object) -> bool:
    """Whether a deserializer wants a `SerializationContext` as well: its second parameter is called `ctx` or `context`.

    The name decides, for many functions on bytes have a second parameter of another kind: `bytes.decode`, `int`.
    """
    try:
        parameters = list(inspect.signature(deserialize).parameters.values())  # type: ignore[arg-type]  # or it raises
    except (TypeError, ValueError):
        return False  # written in C
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len(parameters) > 1 and parameters[1].kind in positional and parameters[1].name in ("ctx", "context")
