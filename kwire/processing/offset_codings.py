"""Ways to write down which offsets behind a base are finished; `offset_map` tries them and takes the shortest.

All speak of `Runs`: alternately, how many offsets are unfinished and how many finished, from the base on, which is
unfinished itself, to the last that is finished. Contract: `read` of what `write` made is the same runs; bytes that
nobody made raise ValueError, and never make anything large.

Chance leaves gaps of all lengths, and Rice's code of gaps comes within some per cent of the least that is possible;
with gaps of one bit it is the plain bitset. What repeats (one key of a hundred stands still) deflate sees at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple, TypeAlias

Runs: TypeAlias = Sequence[int]

MAX_NUMBERS = 1 << 17
"""How many gaps or bits are coded one by one: several times what fits into a commit. More are coded as runs."""
_MAX_INFLATED_BYTES = 10 * MAX_NUMBERS
_MAX_RICE_BITS = 40


class Coding(IntEnum):
    """The number is what stands in the map."""

    RUNS = 0
    BITS = 1
    GAPS = 2
    RICE_UNFINISHED = 3
    RICE_FINISHED = 4


class Coder(NamedTuple):
    """`write` answers None where the coding is not for such runs."""

    write: Callable[[Runs], bytes | None]
    read: Callable[[bytes], Runs]


# --- runs, as they are ------------------------------------------------------------------------------------------------


def _write_runs(runs: Runs) -> bytes:
    return _deflated(_varints(runs))


def _read_runs(data: bytes) -> Runs:
    return list(_read_varints(_inflated(data)))


# --- a bit each, from the base on -----------------------------------------------------------------------------------


def _write_bits(runs: Runs) -> bytes | None:
    count = sum(runs)
    if count > MAX_NUMBERS:
        return None
    bits = "".join("01"[nth % 2] * length for nth, length in enumerate(runs))
    return _deflated(int(bits[::-1], 2).to_bytes((count + 7) // 8, "little"))


def _read_bits(data: bytes) -> Runs:
    bits = bin(int.from_bytes(_inflated(data), "little"))[2:][::-1]
    edges = [0, *(place for place, (one, two) in enumerate(pairwise(bits), start=1) if one != two), len(bits)]
    return [end - start for start, end in pairwise(edges)]


# --- how far it is from one to the next -------------------------------------------------------------------------------


def _gaps(runs: Runs, *, of_finished: bool) -> Iterator[int]:
    """How many of the others lie in front of each."""
    before = 0
    for nth, length in enumerate(runs):
        if bool(nth % 2) is of_finished:
            yield before
            yield from (0 for _ in range(length - 1))
            before = 0
        else:
            before = length


def _runs_of(gaps: Iterable[int], tail: int, *, of_finished: bool) -> Runs:
    """The runs in which these lie; `tail` of the others are behind the last."""
    runs = [0]
    for gap in gaps:
        if gap or len(runs) == 1:
            runs += [gap, 0]
        runs[-1] += 1
    runs.append(tail)
    return runs[1:-1] if of_finished else runs[2:]


def _write_gaps(runs: Runs) -> bytes | None:
    if sum(runs[::2]) > MAX_NUMBERS:
        return None
    return _deflated(_varints([runs[-1], *_gaps(runs, of_finished=False)]))


def _read_gaps(data: bytes) -> Runs:
    tail, *gaps = _read_varints(_inflated(data))
    return _runs_of(gaps, tail, of_finished=False)


def _write_rice(runs: Runs, *, of_finished: bool) -> bytes | None:
    if sum(runs[of_finished::2]) > MAX_NUMBERS:
        return None
    gaps = list(_gaps(runs, of_finished=of_finished))
    about = (sum(gaps) // len(gaps)).bit_length()
    upper_bits, low_bits = min(
        (sum(gap >> bits for gap in gaps) + bits * len(gaps), bits) for bits in range(max(0, about - 2), about + 1)
    )
    if upper_bits > MAX_NUMBERS or low_bits >= _MAX_RICE_BITS:
        return None
    tail = 0 if of_finished else runs[-1]
    return _varints([low_bits, len(gaps), tail]) + _packed(_rice(gap, low_bits) for gap in gaps)


def _rice(number: int, low_bits: int) -> str:
    """This many ones as the upper part counts, a zero, and the lower part."""
    lower = format(number & (1 << low_bits) - 1, f"0{low_bits}b") if low_bits else ""
    return "1" * (number >> low_bits) + "0" + lower


def _read_rice(data: bytes, *, of_finished: bool) -> Runs:
    numbers = _read_varints(data)
    low_bits, count, tail = (next(numbers, 0) for _ in range(3))
    if low_bits >= _MAX_RICE_BITS or count > MAX_NUMBERS:
        raise ValueError("numbers too large")
    bits = _unpacked(data[len(_varints([low_bits, count, tail])) :])
    gaps, at = [], 0
    for _ in range(count):
        zero = bits.index("0", at)
        lower = bits[zero + 1 : zero + 1 + low_bits]
        if len(lower) < low_bits:
            raise ValueError("bits are missing")
        gaps.append((zero - at << low_bits) | int(lower or "0", 2))
        at = zero + 1 + low_bits
    return _runs_of(gaps, tail, of_finished=of_finished)


CODERS: dict[Coding, Coder] = {
    Coding.RUNS: Coder(_write_runs, _read_runs),
    Coding.BITS: Coder(_write_bits, _read_bits),
    Coding.GAPS: Coder(_write_gaps, _read_gaps),
    Coding.RICE_UNFINISHED: Coder(
        lambda runs: _write_rice(runs, of_finished=False), lambda data: _read_rice(data, of_finished=False)
    ),
    Coding.RICE_FINISHED: Coder(
        lambda runs: _write_rice(runs, of_finished=True), lambda data: _read_rice(data, of_finished=True)
    ),
}


def shortest(runs: Runs) -> tuple[Coding, bytes]:
    """The way that takes fewest bytes, and the bytes."""
    written = [(coding, data) for coding, coder in CODERS.items() if (data := coder.write(runs)) is not None]
    return min(written, key=lambda each: len(each[1]))


# --- bytes and bits ---------------------------------------------------------------------------------------------------


def _varints(numbers: Iterable[int]) -> bytes:
    """Seven bits a byte, lowest first."""
    out = bytearray()
    for number in numbers:
        rest = number
        while rest >= 0x80:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def _read_varints(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            yield number
            number = shift = 0
        elif (shift := shift + 7) > 63:
            raise ValueError("a number of more than 63 bits")


def _packed(bits: Iterable[str]) -> bytes:
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big") if text else b""


def _unpacked(data: bytes) -> str:
    return format(int.from_bytes(data, "big"), f"0{8 * len(data)}b") if data else ""


def _deflated(data: bytes) -> bytes:
    return zlib.compress(data, 9, wbits=-zlib.MAX_WBITS)


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(data, _MAX_INFLATED_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not inflater.eof:
        raise ValueError("it does not end where it should")
    return plain
