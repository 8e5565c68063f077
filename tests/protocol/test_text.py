"""Header keys that are no text become what Java's `new String(bytes, UTF_8)` makes of them."""

from __future__ import annotations

import pytest

from kwire.protocol.text import text_of

LOST = "\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("größe 😀".encode(), "größe 😀"),
        (b"\xff\xfe", LOST * 2),
        (b"a\xc3(b", f"a{LOST}(b"),
        (b"\xf0\x9f\x98", LOST),
        (b"\xc0\xaf!", f"{LOST * 2}!"),
        (b"\xed\xa0\x80", LOST),
        (b"\xed\xa0", LOST),
        (b"\xed\xa0A", f"{LOST}A"),
        (b"\xed\xa0\xbd\xed\xb8\x80", LOST * 2),
    ],
)
def test_what_is_no_text_is_replaced_as_often_as_in_java(data: bytes, text: str) -> None:
    assert text_of(data) == text
