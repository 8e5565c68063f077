"""What comes to a terminal: nothing that moves its cursor, colours it or types for the user."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.formats import FormatOptions, encoder
from kwire.cli.shown_values import BytesRecord
from kwire.cli.terminal import escape_json, escape_text
from kwire.model import Header, Record, TimestampType

HARMLESS = {"\n", "\t"}


def record(value: bytes) -> BytesRecord:
    return Record("t", 1, 7, 5, TimestampType.CREATE_TIME, value, value, (Header("h", value),), None, -1, -1)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain", b"plain"),
        (b"two\nlines\tand a tab", b"two\nlines\tand a tab"),
        (b"\x1b[31mred\x07", rb"\x1b[31mred\x07"),
        (b"\r over", rb"\x0d over"),
        ("\u009b1m".encode(), rb"\x9b1m"),
        ("\u202eabc".encode(), rb"\u202eabc"),
        (b"\xff\x80", rb"\xff\x80"),
        ("grün 🦆".encode(), "grün 🦆".encode()),
    ],
)
def test_control_characters_are_escaped(data: bytes, shown: bytes) -> None:
    assert escape_text(data) == shown


@given(st.binary(max_size=40))
def test_nothing_that_comes_through_is_a_control_character(data: bytes) -> None:
    assert [sign for sign in escape_text(data).decode() if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0] == [
        sign for sign in escape_text(data).decode() if sign in HARMLESS
    ]


@given(st.text(max_size=20))
def test_json_that_is_escaped_means_the_same(text: str) -> None:
    assert json.loads(escape_json(json.dumps({text: text}, ensure_ascii=False))) == {text: text}


@pytest.mark.parametrize("form", ["text", "json", "%k %s %h"])
def test_all_but_raw_is_escaped_where_a_terminal_shows_it(form: str) -> None:
    shown = encoder(FormatOptions(format=form, escapes=True))([record(b"\x1b]0;title\x07")])
    assert b"\x1b" not in shown
    assert b"\x07" not in shown


def test_the_standard_output_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cli.terminal.is_terminal", lambda: True)
    assert encoder(FormatOptions())([record(b"\x1b")]) == b"\\x1b\n"
    assert encoder(FormatOptions(escapes=False))([record(b"\x1b")]) == b"\x1b\n"
    assert encoder(FormatOptions(format="raw"))([record(b"\x1b")]) == b"\x1b"
