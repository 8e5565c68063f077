"""Converts what Python's JSON parser returns to what Arrow takes for a given type, without a loss.

Contract: the parser reads numbers with a point or an exponent by `exact_number`, so that decimals are what was written.
"""

from __future__ import annotations

import contextlib
from decimal import Decimal, InvalidOperation

import pyarrow as pa

INEXACT_FROM = 2.0**53
"""From here on a float stands for more than one whole number."""


def exact_number(text: str) -> Decimal | float:
    """A number with a point or an exponent, for `parse_float=` of `json.loads`."""
    try:
        return Decimal(text)
    except InvalidOperation:  # its exponent has twenty digits, say
        return float(text)


def fitted(value: object, kind: pa.DataType) -> object:
    """The value for a column of this type; what Arrow refuses anyway is left as it is.

    Raises:
        ValueError: It would lose its fraction, or its text is no time or no number of this type.
    """
    match value:
        case dict() if pa.types.is_struct(kind):
            return {field.name: fitted(value.get(field.name), field.type) for field in kind}
        case dict() if pa.types.is_map(kind):
            return {name: fitted(each, kind.item_type) for name, each in value.items()}
        case list() if pa.types.is_nested(kind) and kind.num_fields == 1:
            return [fitted(each, kind.field(0).type) for each in value]
        case Decimal() | float():
            return _number(value, kind)
        case str():
            return _text(value, kind)
        case _:
            return value


def _number(value: Decimal | float, kind: pa.DataType) -> object:
    if pa.types.is_decimal(kind):
        return value
    number = float(value)
    is_whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
    # Arrow would cut off the fraction of a Python number without an error.
    if is_whole and (not number.is_integer() or abs(number) >= INEXACT_FROM):
        raise ValueError(f"{value} is no whole number that {kind} holds as it was written")
    return number


def _text(value: str, kind: pa.DataType) -> object:
    """Arrow's reader of JSON reads times and decimals from text; its conversion of Python values does not."""
    if not (pa.types.is_temporal(kind) or pa.types.is_decimal(kind)):
        return value
    try:
        return Decimal(value) if pa.types.is_decimal(kind) else _ticks(value, kind)
    except (InvalidOperation, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"the text {value!r} cannot be read as {kind}") from None


def _ticks(text: str, kind: pa.DataType) -> object:
    """A time as a number of the type's units. As for Arrow's reader, a time without a zone is one of UTC."""
    if pa.types.is_timestamp(kind):
        with contextlib.suppress(pa.ArrowInvalid):
            return pa.scalar(text).cast(pa.timestamp(kind.unit, "UTC")).value
        kind = pa.timestamp(kind.unit)
    return pa.scalar(text).cast(kind).value
