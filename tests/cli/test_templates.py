"""`-f TEMPLATE`: signs that mean what they mean to kcat."""

from __future__ import annotations

import pytest

from kwire.cli.formats import FormatOptions, encoder
from kwire.cli.record_text import UnreadableRecordError
from kwire.cli.shown_values import BytesRecord
from kwire.cli.times import Times
from kwire.errors import ConfigError
from kwire.model import Header, Record, TimestampType

TIME_MS = 1_763_000_000_123


def record(value: bytes | None = b"v", key: bytes | None = b"k", headers: tuple[Header, ...] = ()) -> BytesRecord:
    return Record("orders", 1, 7, TIME_MS, TimestampType.CREATE_TIME, key, value, headers, None, -1, -1)


def printed(template: str, *records: BytesRecord, **options: object) -> bytes:
    return encoder(FormatOptions(format=template, escapes=False, **options))(records)  # type: ignore[arg-type]


def test_each_sign_is_a_field() -> None:
    headers = (Header("trace", b"1"), Header("gone", None))
    said = printed(r"%t [%p] at %o, %T: %k(%K) = %s(%S) %h 100%%\n", record(b"five!", b"key", headers))
    assert said == b"orders [1] at 7, 1763000000123: key(3) = five!(5) trace=1,gone=null 100%\n"


def test_nothing_stands_between_records_but_what_the_template_says() -> None:
    assert printed("%o", record(), record()) == b"77"


def test_a_null_has_length_minus_1_and_a_marker_of_ones_own() -> None:
    assert printed("%s %S %k %K;", record(None, None)) == b"null -1 null -1;"
    assert printed("%s %S;", record(None), null="") == b" -1;"
    assert printed("%s", record(None), null=r"\0") == b"\0"


def test_a_length_in_four_bytes_frames_values_of_any_kind() -> None:
    assert printed("%R%s", record(b"a\nb"), record(None), null="") == b"\0\0\0\x03a\nb\xff\xff\xff\xff"


def test_lengths_are_of_what_is_printed() -> None:
    assert printed("%S:%s", record(b"\x01\x02"), value_format="hex") == b"4:0102"


@pytest.mark.parametrize(("times", "text"), [(Times.MS, b"1763000000123"), (Times.UTC, b"2025-11-13T02:13:20.123Z")])
def test_times_are_numbers_or_dates(times: Times, text: bytes) -> None:
    assert printed("%T", record(), times=times) == text


def test_bytes_are_not_touched_into_a_pipe() -> None:
    assert printed("%s", record(b"\x1b[31m\xff")) == b"\x1b[31m\xff"


def test_a_value_that_is_not_of_its_format_is_named_with_the_way_on() -> None:
    with pytest.raises(UnreadableRecordError) as raised:
        printed("%s", record(b"abc"), value_format="int")
    assert str(raised.value) == (
        "orders-1 at offset 7: the value is not of --value-format: an integer has 1, 2, 4 or 8 bytes, and this has 3; "
        "--value-format hex shows its bytes, --from 8 begins behind it"
    )


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("%x", "--format: %x stands for nothing. %s value"),
        ("%s %", "--format: % stands for nothing"),
        (r"%s\q", r"--format: '\q' is no escape"),
        (r"x\x1", r"--format: '\x1' is no escape; there are \n"),
        (r"%s\x1g", r"--format: '\x1' is no escape"),
        ("xml", "--format xml: write text, json, raw, or a template: %s value"),
    ],
)
def test_what_is_no_template_is_refused(template: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        printed(template)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delimiter": "|"}, "--delimiter is for --format text and raw, not a template"),
        ({"key_separator": ":"}, "--key-separator is for --format text, not a template"),
        ({"columns": ("key",)}, "--print is for --format text, not a template"),
        ({"value_format": "avrò"}, "--value-format avrò: there is no such format; there are text, json, hex"),
    ],
)
def test_options_of_other_formats_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}"):
        printed("%s", **options)
