"""Finds where each record of many batches starts and ends.

A record's place is known only from the length of the one before, so the plain way is a loop over all records. But
neighbours mostly have equal encoded lengths (fixed-size values, or keys and timestamps that grow a digit now and
then). So each round guesses, for all batches at once, that every remaining record repeats the length of the first
one, and then *verifies* the guess against the length bytes found at the guessed places. What verifies is exact, as
each place follows from the one before. When the guesses get too short, the plain loop does the rest.

Contract: answers exact places, or raises `DamagedBatchError`; allocates in proportion to the bytes there are, not to
what a header claims. Called by `records.py`.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.protocol.record_varints import DamagedRecordError, Ints, Octets, read_varint, read_varints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kwire.protocol.record_batch import Buffer

# Length, attributes, timestamp delta, offset delta, key length, value length, header count: one byte each.
MIN_RECORD_BYTES = 7

# Measured: a round costs about as much as looping over 500 records, and a fifth of the loop for each guessed record.
_ROUND_COST_RECORDS = 500
_GUESS_COST_DIVISOR = 5
# Rounds may cost this share of the loop over all that is left more than they save, before they are given up: a long
# batch starts with short runs, as its first offset deltas and timestamp deltas soon need another digit.
_PATIENCE_DIVISOR = 4
# Offset deltas have one byte up to 63; and guesses grow fast when they hold.
_FIRST_GUESS_RECORDS = 64
_GUESS_GROWTH = 4
# How many batches are looked at before the first guess.
_TRIED_BATCHES = 4


class DamagedBatchError(Exception):
    """The batch at `index` is damaged. Internal: `records.py` turns it into the batch's CorruptRecordError."""

    def __init__(self, index: int, problem: str) -> None:
        self.index = index
        self.problem = problem
        super().__init__(index, problem)


class _OpenBatches(NamedTuple):
    """Batches with records still to find: which batch, next place, end of payload, records left, next output row."""

    batch: Ints
    place: Ints
    end: Ints
    left: Ints
    row: Ints

    def keep(self, which: NDArray[np.bool_]) -> _OpenBatches:
        return _OpenBatches(*(column[which] for column in self))


def find_records(buffer: Buffer, data: Octets, starts: Ints, ends: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Find all records.

    Args:
        buffer: The bytes.
        data: The same bytes as an array.
        starts: Where each batch's payload starts.
        ends: Where it ends.
        counts: How many records each batch claims.

    Returns:
        Per record, in order: where its body starts (behind the length) and where it ends.
    """
    _check_counts(starts, ends, counts)
    bodies = np.empty(int(counts.sum()), dtype=np.int64)
    record_ends = np.empty_like(bodies)
    todo = _OpenBatches(np.arange(len(counts)), starts, ends, counts, np.cumsum(counts) - counts).keep(counts > 0)
    left = len(bodies)
    loss = 0
    longest = _FIRST_GUESS_RECORDS
    is_guessable = left > _ROUND_COST_RECORDS and not _sizes_vary(buffer, todo)
    while is_guessable and left > _ROUND_COST_RECORDS and loss <= left // _PATIENCE_DIVISOR:
        todo, guessed = _guess_round(data, todo, longest, bodies, record_ends)
        found = left - int(todo.left.sum())
        left -= found
        loss += _ROUND_COST_RECORDS + guessed // _GUESS_COST_DIVISOR - found
        if found * 2 > guessed:
            longest *= _GUESS_GROWTH
    if left:
        _loop(buffer, data, todo, bodies, record_ends)
    return bodies, record_ends


def _check_counts(starts: Ints, ends: Ints, counts: Ints) -> None:
    """No count is believed that the payload has no room for; so what is allocated stays below the bytes there are."""
    impossible = (counts < 0) | (counts * MIN_RECORD_BYTES > ends - starts)
    if impossible.any():
        index = int(impossible.argmax())
        raise DamagedBatchError(
            index, f"its header says {counts[index]} records, its payload has {ends[index] - starts[index]} bytes"
        )


def _sizes_vary(buffer: Buffer, todo: _OpenBatches) -> bool:
    """Whether the first batches have records of any size, so that even one round of guesses is in vain: that is a third
    of what a thousand such records take here. Tells from the second and the third record, since the first one's
    timestamp delta is 0, and often shorter than all others."""
    varying = tried = 0
    for start, end in zip(todo.place[:_TRIED_BATCHES].tolist(), todo.end[:_TRIED_BATCHES].tolist(), strict=True):
        try:
            first, body = read_varint(buffer, start, end)
            second, body = read_varint(buffer, body + max(0, first), end)
            third, _ = read_varint(buffer, body + max(0, second), end)
        except ValueError:
            continue  # fewer records, or damage: reading all of them says which
        tried += 1
        varying += second != third
    return varying * 2 > tried


def _guess_round(
    data: Octets, todo: _OpenBatches, longest: int, bodies: Ints, record_ends: Ints
) -> tuple[_OpenBatches, int]:
    """Find at least one record of each batch by guessing up to `longest`; answers the batches that have more."""
    length_bytes, stride = _first_lengths(data, todo)
    guesses = np.minimum(np.minimum(todo.left, longest), (todo.end - todo.place) // stride)
    segments = np.cumsum(guesses) - guesses
    nth = count_up(guesses)
    places = np.repeat(todo.place, guesses) + nth * np.repeat(stride, guesses)
    wrong = _differing(data, places, todo.place, length_bytes, guesses)
    rows = np.repeat(todo.row, guesses) + nth
    found = guesses
    if wrong.any():
        # In each batch only what lies before its first wrong guess counts.
        found = np.minimum.reduceat(np.where(wrong, nth, np.repeat(guesses, guesses)), segments)
        good = nth < np.repeat(found, guesses)
        places, rows = places[good], rows[good]
    bodies[rows] = places + np.repeat(length_bytes, found)
    record_ends[rows] = places + np.repeat(stride, found)
    after = _OpenBatches(todo.batch, todo.place + found * stride, todo.end, todo.left - found, todo.row + found)
    _check_finished(after)
    return after.keep(after.left > 0), len(nth)


def _first_lengths(data: Octets, todo: _OpenBatches) -> tuple[Ints, Ints]:
    """The size of each batch's next length field, and of the whole next record."""
    try:
        lengths, bodies = read_varints(data, todo.place, todo.end)
    except DamagedRecordError as damage:
        raise DamagedBatchError(int(todo.batch[damage.row]), _missing(int(todo.left[damage.row]))) from damage
    stride = bodies - todo.place + lengths
    bad = (lengths < MIN_RECORD_BYTES - 1) | (todo.place + stride > todo.end)
    if bad.any():
        where = int(bad.argmax())
        raise DamagedBatchError(
            int(todo.batch[where]), impossible(int(lengths[where]), int(todo.end[where] - bodies[where]))
        )
    return bodies - todo.place, stride


def _differing(data: Octets, places: Ints, firsts: Ints, length_bytes: Ints, guesses: Ints) -> NDArray[np.bool_]:
    """Where the length bytes at a guessed place are not those of the batch's first record; there are `guesses` of each
    batch."""
    differs: NDArray[np.bool_] = data[places] != np.repeat(data[firsts], guesses)
    for nth in range(1, int(length_bytes.max())):
        # Shorter fields than the longest are compared on their last byte again: no harm, no branch.
        shift = np.minimum(length_bytes - 1, nth)
        further = places + (nth if (shift == nth).all() else np.repeat(shift, guesses))
        differs |= data[further] != np.repeat(data[firsts + shift], guesses)
    return differs


def _check_finished(todo: _OpenBatches) -> None:
    surplus = (todo.left == 0) & (todo.place != todo.end)
    if surplus.any():
        where = int(surplus.argmax())
        raise DamagedBatchError(int(todo.batch[where]), _surplus(int(todo.end[where] - todo.place[where])))


def _loop(buffer: Buffer, data: Octets, todo: _OpenBatches, bodies: Ints, record_ends: Ints) -> None:
    """The plain way; only the places are gathered here, the rest is one pass at the end."""
    found = _found_together(buffer, todo)
    starts, ends = _found_one_by_one(buffer, todo) if found is None else found
    rows = np.repeat(todo.row, todo.left) + count_up(todo.left)
    record_ends[rows] = ends
    bodies[rows] = read_varints(data, starts, ends)[1]


def _found_together(buffer: Buffer, todo: _OpenBatches) -> tuple[Ints, Ints] | None:
    """Where all records start and end, if the batches lie one behind the other, as inflated ones do: small batches
    would each have their share of what it takes to begin. None: they do not, or one of them is damaged."""
    if len(todo.left) == 1 or (todo.place[1:] != todo.end[:-1]).any():
        return None
    start, end = int(todo.place[0]), int(todo.end[-1])
    try:
        edges = np.array(_scan(memoryview(buffer)[start:end], int(todo.left.sum())), dtype=np.int64) + start
    except (ValueError, IndexError):
        return None
    return None if (edges[np.cumsum(todo.left)] != todo.end).any() else (edges[:-1], edges[1:])


def _found_one_by_one(buffer: Buffer, todo: _OpenBatches) -> tuple[Ints, Ints]:
    """The same, batch after batch."""
    found: list[int] = []
    for index, start, end, left in zip(*(column.tolist() for column in todo[:4]), strict=True):
        try:
            found += _scan(memoryview(buffer)[start:end], left)
        except ValueError as error:
            raise DamagedBatchError(index, str(error)) from error
        except IndexError as error:
            raise DamagedBatchError(index, _missing(left)) from error
    edges = np.array(found, dtype=np.int64)
    # Each batch has one edge more than records.
    edge = np.arange(len(edges) - len(todo.left)) + np.repeat(np.arange(len(todo.left)), todo.left)
    start_of = np.repeat(todo.place, todo.left)
    return edges[edge] + start_of, edges[edge + 1] + start_of


# What the first byte of a length says of how far it is to the next record, when it is the only one, when a second one
# follows, and what that adds. None: the length is negative, too small, or longer than two bytes.
_ONLY = [1 + (low >> 1) if low % 2 == 0 and low >> 1 >= MIN_RECORD_BYTES - 1 else None for low in range(0x80)]
_FIRST = [2 + (low % 0x80 >> 1) if low % 2 == 0 else None for low in range(0x100)]
_SECOND = [high << 6 if 0 < high < 0x80 else None for high in range(0x100)]


def _scan(chunk: memoryview, count: int) -> list[int]:
    """The places of `count` records and the end of the last. One step per record: this is the loop to keep tight."""
    places = [0]
    found = places.append
    only, first, second = _ONLY, _FIRST, _SECOND
    place = 0
    while len(places) <= count:
        try:
            for _ in repeat(None, count + 1 - len(places)):
                low = chunk[place]
                if low < 0x80:
                    place += only[low]  # type: ignore[operator]  # None raises, which is the test that costs nothing
                else:
                    place += first[low] + second[chunk[place + 1]]  # type: ignore[operator]
                found(place)
        except TypeError:
            place = _behind_any(chunk, place)
            found(place)
        except IndexError:
            break
    return places if place == len(chunk) and len(places) > count else _scan_carefully(chunk, count)


def _behind_any(chunk: memoryview, place: int) -> int:
    """Where a record ends whose length has any form: of 8 KiB or more it takes three bytes.

    Raises:
        ValueError: It is none that a record can have.
    """
    length, body = read_varint(chunk, place, len(chunk))
    if length < MIN_RECORD_BYTES - 1:
        raise ValueError(impossible(length, len(chunk) - body))
    return body + length


def _scan_carefully(chunk: memoryview, count: int) -> list[int]:
    """The same, with an error that says what is wrong."""
    places = [0]
    for _ in range(count):
        place = places[-1]
        if place >= len(chunk):
            raise IndexError(place)
        behind = _behind_any(chunk, place)
        if behind > len(chunk):
            length, body = read_varint(chunk, place, len(chunk))
            raise ValueError(impossible(length, len(chunk) - body))
        places.append(behind)
    if places[-1] != len(chunk):
        raise ValueError(_surplus(len(chunk) - places[-1]))
    return places


def count_up(counts: Ints) -> Ints:
    """0, 1, 2... for each of the counts, one after the other."""
    nth: Ints = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return nth


def impossible(length: int, room: int) -> str:
    """What is wrong with a record of that length."""
    return f"a record of {length} bytes where {room} are left"


def _missing(count: int) -> str:
    return f"the payload ends with {count} more records declared"


def _surplus(size_bytes: int) -> str:
    return f"{size_bytes} bytes remain behind the last declared record"
