"""Frames are followed without changing them, however they are sliced, and answers are known by their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.testing.faults.proxies.frames import Answers, Requests
from kwire.testing.faults.proxies.orders import ProxyOrders
from kwire.testing.faults.proxies.strikes import Struck
from kwire.testing.faults.proxies.tamperings import AnnounceLength, BitPlace, CutAnswer, FlipBit

if TYPE_CHECKING:
    from tests.testing.faults.proxies.kafka_like import FETCH, METADATA, PRODUCE, answer, request
else:
    from kafka_like import FETCH, METADATA, PRODUCE, answer, request

CUT = CutAnswer(api_key=FETCH, after_bytes=6)


class Followed:
    """One connection's both ways."""

    def __init__(self) -> None:
        self.orders = ProxyOrders()
        self.requests = Requests()
        self.answers = Answers(self.requests, self.orders)

    def ask(self, *requests: bytes, slice_bytes: int = 1000) -> None:
        for piece in sliced(b"".join(requests), slice_bytes):
            self.requests.follow(memoryview(piece))

    def answer(self, data: bytes, slice_bytes: int = 1000) -> bytes:
        """What is sent on, up to where the connection ends."""
        sent = b""
        for piece in sliced(data, slice_bytes):
            for out in self.answers.follow(memoryview(piece)):
                sent += out.data if isinstance(out, Struck) else bytes(out)
                if isinstance(out, Struck) and out.is_last:
                    return sent
        return sent


def sliced(data: bytes, size_bytes: int) -> list[bytes]:
    return [data[i : i + size_bytes] for i in range(0, len(data), size_bytes)]


@pytest.mark.parametrize("slice_bytes", [1, 2, 3, 5, 7, 8, 11, 1000])
def test_an_answer_is_known_by_its_request_however_both_are_sliced(slice_bytes: int) -> None:
    link = Followed()
    link.orders.give(CUT)
    link.ask(request(METADATA, 7, b"m"), request(FETCH, 8, b"f" * 20), slice_bytes=slice_bytes)
    metadata, fetch = answer(7, b"topics"), answer(8, b"records")
    assert link.answer(metadata + fetch, slice_bytes) == metadata + fetch[:6]
    assert link.orders.active == ()
    assert link.orders.counts.cut_answers == 1


def test_the_nth_answer_of_an_api_is_struck_and_no_other() -> None:
    link = Followed()
    link.orders.give(AnnounceLength(api_key=FETCH, nth=2, length_bytes=-1))
    link.ask(*(request(api_key, n) for n, api_key in enumerate([FETCH, METADATA, FETCH, FETCH])))
    answers = [answer(n, b"body") for n in range(4)]
    assert link.answer(b"".join(answers)) == answers[0] + answers[1] + b"\xff\xff\xff\xff" + answers[2][4:] + answers[3]


def test_requests_that_get_no_answer_are_forgotten() -> None:
    link = Followed()
    link.orders.give(CUT)
    link.ask(request(PRODUCE, 1), request(PRODUCE, 2), request(FETCH, 3))
    assert link.answer(answer(3, b"records")) == answer(3, b"records")[:6]
    assert link.requests.answered(1) is None


def test_correlation_ids_may_be_negative() -> None:
    link = Followed()
    link.orders.give(CUT)
    link.ask(request(FETCH, -5))
    assert link.answer(answer(-5, b"records")) == answer(-5, b"records")[:6]


def test_what_has_begun_to_pass_when_the_order_comes_is_not_struck_and_the_next_is() -> None:
    for begun_bytes in range(1, 12):
        link = Followed()
        link.ask(request(FETCH, 1), request(FETCH, 2))
        first, second = answer(1, b"first"), answer(2, b"second")
        sent = link.answer(first[:begun_bytes])
        assert sent == first[:begun_bytes]
        link.orders.give(CUT)
        assert sent + link.answer(first[begun_bytes:] + second) == first + second[:6]


def test_an_answer_that_was_held_back_passes_when_the_order_is_lifted() -> None:
    link = Followed()
    link.orders.give(CUT)
    link.ask(request(FETCH, 1))
    frame = answer(1, b"records")
    assert link.answer(frame[:9]) == b""
    link.orders.lift(CUT)
    assert link.answer(frame[9:]) == frame


def test_what_is_held_back_of_a_broker_that_hangs_up_is_not_lost() -> None:
    link = Followed()
    link.orders.give(CUT)
    link.ask(request(FETCH, 1))
    assert link.answer(answer(1, b"records")[:9]) == b""
    assert link.answers.rest() == answer(1, b"records")[:9]


@pytest.mark.slow
@given(
    data=st.binary(max_size=64),
    slice_bytes=st.integers(1, 20),
    strike=st.sampled_from([None, CutAnswer(api_key=18, after_bytes=0), FlipBit(api_key=18, place=BitPlace.CRC)]),
)
def test_bytes_that_are_no_kafka_pass_as_they_are(
    data: bytes, slice_bytes: int, strike: CutAnswer | FlipBit | None
) -> None:
    link = Followed()
    if strike is not None:
        link.orders.give(strike)
    link.ask(data, slice_bytes=slice_bytes)
    assert link.answer(data, slice_bytes) + link.answers.rest() == data
