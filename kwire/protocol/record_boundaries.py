"""Finds where each record of many batches starts and ends.

A record's place is known only from the length of the one before, so the plain way is a loop over all records. But
neighbours mostly have equal encoded lengths (fixed-size values, or keys and timestamps that grow a digit now and
then). So each round guesses, for all batches at once, that every remaining record repeats the length of the first
one, and then *verifies* the guess against the length bytes found at the guessed places. What verifies is exact, as
each place follows from the one before. When the guesses get too short, the plain loop does the rest.

Contract: answers exact places, or raises `DamagedBatchError`; allocates in proportion to the bytes there are, not to
what a header claims. Called by `record_decoding.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.lazy_numpy import np
from kwire.protocol.record_varints import DamagedRecordError, Ints, Octets, read_varint, read_varints

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """The batch at `index` is damaged. Internal: `record_decoding.py` turns it into the batch's CorruptRecordError."""

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
    if (todo.left == 1).all():
        return _only_records(data, todo)
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


def are_impossible(starts: Ints, ends: Ints, counts: Ints) -> NDArray[np.bool_]:
    """Which payloads have no room for the records that they should have. No such count is believed: so what is
    allocated stays below the bytes there are."""
    impossible: NDArray[np.bool_] = (counts < 0) | (counts * MIN_RECORD_BYTES > ends - starts)
    return impossible


def _check_counts(starts: Ints, ends: Ints, counts: Ints) -> None:
    impossible = are_impossible(starts, ends, counts)
    if impossible.any():
        index = int(impossible.argmax())
        raise DamagedBatchError(
            index, f"its header says {counts[index]} records, its payload has {ends[index] - starts[index]} bytes"
        )


def _only_records(data: Octets, todo: _OpenBatches) -> tuple[Ints, Ints]:
    """As `find_records`, for batches with one record each."""
    length_bytes, stride = _first_lengths(data, todo)
    behind = todo.place + stride
    _check_finished(todo._replace(place=behind, left=np.zeros_like(todo.left)))
    return todo.place + length_bytes, behind


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
    starts, ends = _starts_and_ends(buffer, todo)
    rows = np.repeat(todo.row, todo.left) + count_up(todo.left)
    record_ends[rows] = ends
    bodies[rows] = read_varints(data, starts, ends)[1]


def _starts_and_ends(buffer: Buffer, todo: _OpenBatches) -> tuple[Ints, Ints]:
    """Where all records start and end. All batches at once: to begin anew for each small one would take too long."""
    try:
        scanned = _scan(memoryview(buffer), zip(todo.place.tolist(), todo.left.tolist(), strict=True))
    except (ValueError, IndexError) as error:
        raise _damage(buffer, todo) from error
    starts, behind = (np.array(places, dtype=np.int64) for places in scanned)
    if (behind != todo.end).any():
        raise _damage(buffer, todo)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[np.cumsum(todo.left) - 1] = behind
    return starts, ends


def _damage(buffer: Buffer, todo: _OpenBatches) -> DamagedBatchError:
    """What is wrong with the first of these batches that is damaged; one of them is."""
    view = memoryview(buffer)
    batches = zip(*(column.tolist() for column in todo[:4]), strict=True)
    problems = ((index, _problem(view[start:end], left)) for index, start, end, left in batches)
    return next(DamagedBatchError(index, problem) for index, problem in problems if problem is not None)


# How far it is from a record to the next one, by the bytes of its length: of a length of one byte `_ONLY`, of two bytes
# the sum of `_FIRST` and `_SECOND`. None: the length is negative, too small, or longer than two bytes.
_ONLY = [1 + (low >> 1) if low % 2 == 0 and low >> 1 >= MIN_RECORD_BYTES - 1 else None for low in range(0x80)]
_FIRST = [2 + (low % 0x80 >> 1) if low % 2 == 0 else None for low in range(0x100)]
_SECOND = [high << 6 if 0 < high < 0x80 else None for high in range(0x100)]


def _scan(data: memoryview, batches: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Where each record starts, and where the last one of each batch ends. One step per record: this is the loop to
    keep tight. It looks beyond the end of a batch when that has fewer records than it should.

    Args:
        batches: Where the records of each begin, and how many there are.

    Raises:
        ValueError, IndexError: A length is none that a record can have, or a record ends behind the data.
    """
    starts: list[int] = []
    behind: list[int] = []
    found = starts.append
    only, first, second = _ONLY, _FIRST, _SECOND
    for place, count in batches:
        left = count
        while left:
            try:
                for left in range(left - 1, -1, -1):  # noqa: B007, B020  how many are left when a length is long
                    found(place)
                    low = data[place]
                    if low < 0x80:
                        place += only[low]  # type: ignore[operator]  # None raises, which is the test that costs nothing
                    else:
                        place += first[low] + second[data[place + 1]]  # type: ignore[operator]
            except TypeError:
                place = _behind_any(data, place)
        behind.append(place)
    return starts, behind


def _behind_any(data: memoryview, place: int) -> int:
    """Where a record ends whose length has any form: of 8 KiB or more it takes three bytes.

    Raises:
        ValueError: It is none that a record can have.
    """
    length, body = read_varint(data, place, len(data))
    if length < MIN_RECORD_BYTES - 1:
        raise ValueError(impossible(length, len(data) - body))
    return body + length


def _problem(payload: memoryview, count: int) -> str | None:
    """What is wrong with the records of one batch."""
    place = 0
    for _ in range(count):
        if place >= len(payload):
            return _missing(count)
        try:
            length, body = read_varint(payload, place, len(payload))
        except ValueError as error:
            return str(error)
        place = body + length
        if length < MIN_RECORD_BYTES - 1 or place > len(payload):
            return impossible(length, len(payload) - body)
    return None if place == len(payload) else _surplus(len(payload) - place)


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
