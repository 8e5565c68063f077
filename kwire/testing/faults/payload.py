"""Values of records: a unique number, and as many dots as the size needs.

    0000000042:100|..............

The ledger keeps the part before the bar, the *identity*: a large record would fill it. Members' lines have
whole values, which are checked here, so that a damaged one counts as a value that was never sent.
"""

from __future__ import annotations

BAR = "|"
DIGITS = 10
MAX_TOLD = 60


def value_of(number: int, size_bytes: int) -> str:
    """A value of this size; if the number does not fit, the shortest value with it."""
    return _padded(f"{number:0{DIGITS}d}:{size_bytes}", size_bytes)


def identity(value: str) -> str:
    """The identity of a value, for the ledger: its part before the bar; for a value that `value_of` has not made, its
    beginning and its length."""
    head = value.partition(BAR)[0]
    number, _colon, size = head.partition(":")
    if len(number) == DIGITS and number.isdigit() and size.isdigit() and _padded(head, int(size)) == value:
        return head
    return f"{value[:MAX_TOLD]!r} ({len(value)} characters)"


def _padded(head: str, size_bytes: int) -> str:
    room = size_bytes - len(head) - len(BAR)
    return head if room < 0 else f"{head}{BAR}{'.' * room}"
