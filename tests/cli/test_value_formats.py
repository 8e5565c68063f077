"""How keys and values are shown: each format as text, and within JSON."""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.formats import FormatOptions, encoder, json_lines
from kwire.cli.record_text import RecordText
from kwire.cli.shown_values import BytesRecord, FormatSetup, of_values
from kwire.cli.times import Times
from kwire.cli.value_formats import FORMATS, format_named, parsed_json
from kwire.model import Header, Record, TimestampType


def record(value: bytes | None, key: bytes | None = None, timestamp: int = 5) -> BytesRecord:
    headers = (Header("h", b"1"),)
    return Record("t", 1, 7, timestamp, TimestampType.CREATE_TIME, key, value, headers, None, -1, -1)


def json_value(name: str, data: bytes) -> object:
    line = encoder(FormatOptions(format="json", value_format=name))([record(data)])
    return json.loads(line)["value"]


@pytest.mark.parametrize(
    ("name", "data", "text", "in_json"),
    [
        ("text", b"a\xff", b"a\xff", {"base64": "Yf8="}),
        ("text", b'{"a":1}', b'{"a":1}', '{"a":1}'),
        ("json", b'{"a": 1}', b'{"a": 1}', {"a": 1}),
        ("json", b'{\n  "a": [1]\r\n}', b'{   "a": [1]  }', {"a": [1]}),
        ("json", b"no json", b"no json", "no json"),
        ("json", b"\xff", b"\xff", {"base64": "/w=="}),
        ("json", b"NaN", b"NaN", "NaN"),
        ("hex", b"\x00\xff", b"00ff", "00ff"),
        ("base64", b"\x00\xff", b"AP8=", "AP8="),
        ("int", b"\xff\xff\xff\xfe", b"-2", -2),
        ("int", struct.pack(">q", 1 << 40), b"1099511627776", 1 << 40),
        ("float", struct.pack(">d", 1.5), b"1.5", 1.5),
        ("float", struct.pack(">d", math.nan), b"NaN", "NaN"),
        ("float", struct.pack(">f", -math.inf), b"-Infinity", "-Infinity"),
    ],
)
def test_formats(name: str, data: bytes, text: bytes, in_json: object) -> None:
    assert format_named(name, FormatSetup(field="value")).to_text(record(data), data) == text
    assert json_value(name, data) == in_json


def test_what_json_does_not_have_is_text_and_half_a_pair_an_escape() -> None:
    """NaN was written as Python writes it, and half a surrogate pair ended the command with a traceback."""
    value = of_values(lambda _record, data: {"sums": [math.nan, (math.inf, 1.5)], "half": json.loads(data)})
    assert value.to_json(record(b""), b'"x"') == '{"sums":["NaN",["Infinity",1.5]],"half":"x"}'
    half = json_lines(RecordText(value_format=value))([record(b'"\\ud800"')])
    assert json.loads(half)["value"]["half"] == "\ud800"
    assert value.to_text(record(b""), b'"\\ud800"').endswith(b'"half":"\\ud800"}')


def test_numbers_and_doubled_keys_of_json_stay_as_they_were_written() -> None:
    """Parsed and written anew, a price of 1.10 would be 1.1, and a number of 30 digits would be another one."""
    given_text = b'{"price": 1.10, "id": 123456789012345678901234567890, "id": 1e999}'
    line = encoder(FormatOptions(format="json", value_format="json"))([record(given_text)])
    assert b'"value":' + given_text + b"," in line


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_is_one_line_that_means_the_same(value: object) -> None:
    found = parsed_json(json.dumps(value, indent=1).encode())
    assert found is not None
    assert "\n" not in found
    assert json.loads(found) == value


@pytest.mark.parametrize("depth", [100_000])
def test_json_of_any_depth_ends_no_command(depth: int) -> None:
    parsed_json(b"[" * depth + b"]" * depth)


def test_keys_have_a_format_of_their_own() -> None:
    encode = encoder(FormatOptions(key_separator="=", key_format="int", value_format="hex"))
    assert encode([record(b"\x01", b"\x00\x02")]) == b"2=01\n"


def test_fields_are_printed_in_the_order_of_their_names() -> None:
    columns = ("offset", "timestamp", "headers", "topic", "partition", "value")
    assert encoder(FormatOptions(columns=columns))([record(b"v")]) == b"7\t5\th=1\tt\t1\tv\n"


def test_a_date_stands_in_json_as_text() -> None:
    encode = encoder(FormatOptions(format="json", times=Times.UTC))
    assert json.loads(encode([record(b"v")]))["timestamp"] == "1970-01-01T00:00:00.005Z"
    assert json.loads(encode([record(b"v", timestamp=-1)]))["timestamp"] is None


def test_every_format_is_named_by_its_option() -> None:
    assert set(FORMATS) >= {"text", "json", "hex", "base64", "int", "float"}
