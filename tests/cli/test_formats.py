"""The output formats, byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.escapes import unescape
from kwire.cli.formats import Encode, Format, FormatOptions
from kwire.cli.formats import encoder as encoder_of
from kwire.cli.shown_values import BytesRecord
from kwire.errors import ConfigError
from kwire.model import Header, Record, TimestampType


def record(
    value: bytes | None = b"v", *, key: bytes | None = None, timestamp: int = 5, headers: tuple[Header, ...] = ()
) -> BytesRecord:
    return Record("t", 1, 7, timestamp, TimestampType.CREATE_TIME, key, value, headers, None, -1, -1)


def encoder(format_name: Format, key_separator: str | None = None, delimiter: str | None = None) -> Encode:
    options = FormatOptions(format=format_name.value, key_separator=key_separator, delimiter=delimiter)
    return encoder_of(options)


json_lines = encoder(Format.JSON)


def test_text_is_a_line_for_each_value() -> None:
    encode = encoder(Format.TEXT, None, None)
    assert encode([record(b"a"), record(b"\xff\x00"), record(b"")]) == b"a\n\xff\x00\n\n"


def test_text_with_a_separator_has_the_keys() -> None:
    encode = encoder(Format.TEXT, r"\t", None)
    assert encode([record(b"a", key=b"k"), record(b"b", key=b"")]) == b"k\ta\n\tb\n"


def test_text_shows_nulls_as_javas_console_consumer_does() -> None:
    assert encoder(Format.TEXT, None, None)([record(None)]) == b"null\n"
    assert encoder(Format.TEXT, ":", None)([record(None, key=None)]) == b"null:null\n"


def test_raw_is_the_bytes_alone() -> None:
    assert encoder(Format.RAW, None, None)([record(b"a\n"), record(None), record(b"\xff")]) == b"a\n\xff"


def test_raw_with_a_delimiter_ends_each_value_with_it() -> None:
    assert encoder(Format.RAW, None, r"\0")([record(b"a"), record(None), record(b"b")]) == b"a\0\0b\0"


@pytest.mark.parametrize("format_name", Format)
def test_nothing_encodes_to_nothing(format_name: Format) -> None:
    assert encoder(format_name, None, None)([]) == b""


def test_json_has_a_line_for_each_record() -> None:
    headers = (Header("h", b"1"), Header("h", None), Header("b", b"\xfe"))
    encoded = json_lines([record("grün\n".encode(), key=b"\xff", headers=headers), record(None)])
    first, second = encoded.decode().splitlines()
    assert first == (
        '{"topic":"t","partition":1,"offset":7,"timestamp":5,"key":{"base64":"/w=="},"value":"grün\\n",'
        '"headers":[{"key":"h","value":"1"},{"key":"h","value":null},{"key":"b","value":{"base64":"/g=="}}]}'
    )
    assert second == '{"topic":"t","partition":1,"offset":7,"timestamp":5,"key":null,"value":null,"headers":[]}'


def test_json_shows_a_missing_timestamp_as_null() -> None:
    assert json.loads(json_lines([record(timestamp=-1)]))["timestamp"] is None


@given(st.lists(st.none() | st.binary(max_size=6) | st.text(max_size=4).map(str.encode), max_size=4))
def test_json_lines_can_be_read_back_whatever_the_bytes(values: list[bytes | None]) -> None:
    lines = json_lines([record(value) for value in values]).split(b"\n")
    assert lines.pop() == b""
    assert len(lines) == len(values)
    for line, value in zip(lines, values, strict=True):
        shown = json.loads(line)["value"]
        if isinstance(shown, dict):
            with pytest.raises(UnicodeDecodeError):
                (value or b"").decode()
        else:
            assert shown == (None if value is None else value.decode())


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("", b""),
        (": ", b": "),
        (r"\t", b"\t"),
        (r"\r\n", b"\r\n"),
        (r"\0", b"\0"),
        (r"\\n", b"\\n"),
        (r"a\x1fb", b"a\x1fb"),
        (r"\xFF", b"\xff"),
        ("ä", "ä".encode()),
        ("\udcff", b"\xff"),
    ],
)
def test_escapes(given_text: str, expected: bytes) -> None:
    assert unescape("--delimiter", given_text) == expected


@pytest.mark.parametrize("given_text", ["\\", r"\q", r"\x", r"\x1", r"\xg0"])
def test_an_unknown_escape_is_refused(given_text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--delimiter: .* is no escape; there are \\n \\t \\r \\0"):
        unescape("--delimiter", given_text)


@pytest.mark.parametrize("format_name", [Format.JSON, Format.RAW])
def test_a_key_separator_is_for_text(format_name: Format) -> None:
    with pytest.raises(ConfigError, match=f"--key-separator is for --format text, not {format_name.value}"):
        encoder(format_name, ":", None)


def test_a_delimiter_is_for_text_and_raw() -> None:
    assert encoder(Format.TEXT, None, r"\0")([record(b"a"), record(b"b")]) == b"a\0b\0"
    with pytest.raises(ConfigError, match="--delimiter is for --format text and raw, not json"):
        encoder(Format.JSON, None, ":")
