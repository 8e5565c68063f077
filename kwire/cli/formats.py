"""Records as bytes for standard output: text, templates, JSON lines, raw. Encoded a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from kwire.cli import templates, terminal
from kwire.cli.escapes import unescape
from kwire.cli.record_text import NULL, RecordText, UnreadableRecordError
from kwire.cli.shown_values import BytesRecord, FormatSetup, ValueFormat, dump_json, in_utf_8, text_json
from kwire.cli.times import Times
from kwire.cli.value_formats import format_named
from kwire.errors import ConfigError
from kwire.model import Header

Encode: TypeAlias = Callable[[Sequence[BytesRecord]], bytes]


class Format(Enum):
    """The formats by the names of `--format`; anything else there is a template."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """The options of `kwire consume` about the output; texts are as typed, with their escapes.

    Attributes:
        registry, protobuf: As in `FormatSetup`.
        escapes: Whether control characters are escaped; None to do so only on a terminal.
    """

    format: str = "text"
    columns: tuple[str, ...] = ()
    key_separator: str | None = None
    header_separator: str = ","
    delimiter: str | None = None
    null: str | None = None
    times: Times = Times.MS
    key_format: str = "text"
    value_format: str = "text"
    registry: Mapping[str, object] = field(default_factory=dict)
    protobuf: str | None = None
    escapes: bool | None = None


def encoder(options: FormatOptions) -> Encode:
    """The function that encodes records by these options. Raises: ConfigError, if options contradict each other."""
    fields = _record_text(options)
    known = next((each for each in Format if each.value == options.format), None)
    if known is not Format.TEXT:
        _refuse("--key-separator", options.key_separator, options, "text")
        _refuse("--print", options.columns or None, options, "text")
    if known is None:
        return _template(options, fields)
    if known is Format.TEXT:
        return _text(options, fields)
    _refuse("--null", options.null, options, "text and templates")
    if known is Format.RAW:
        return raw(fields, unescape("--delimiter", options.delimiter or ""))
    _refuse("--delimiter", options.delimiter, options, "text and raw")
    return json_lines(fields, escapes=_escapes(options))


def _record_text(options: FormatOptions) -> RecordText:
    is_bare = options.format in (Format.RAW.value, Format.JSON.value)  # JSON is escaped as a whole
    return RecordText(
        key_format=format_named(
            options.key_format, FormatSetup(field="key", registry=options.registry, protobuf=options.protobuf)
        ),
        value_format=format_named(
            options.value_format, FormatSetup(field="value", registry=options.registry, protobuf=options.protobuf)
        ),
        null=NULL if options.null is None else unescape("--null", options.null),
        times=options.times,
        header_separator=unescape("headers.separator", options.header_separator),
        escapes=_escapes(options) and not is_bare,
    )


def _escapes(options: FormatOptions) -> bool:
    return terminal.is_terminal() if options.escapes is None else options.escapes


def _refuse(option: str, given: object, options: FormatOptions, belongs_to: str) -> None:
    if given is not None:
        shown = options.format if any(options.format == each.value for each in Format) else "a template"
        raise ConfigError(f"{option} is for --format {belongs_to}, not {shown}")


def _template(options: FormatOptions, fields: RecordText) -> Encode:
    if "%" not in options.format:
        unescape("--format", options.format)  # raises, if that is what is wrong
        names = ", ".join(each.value for each in Format)
        raise ConfigError(f"--format {options.format}: write {names}, or a template: {templates.HELP}")
    _refuse("--delimiter", options.delimiter, options, "text and raw")
    return templates.template(options.format, fields)


def _text(options: FormatOptions, fields: RecordText) -> Encode:
    unknown = set(options.columns) - fields.columns.keys()
    if unknown:
        raise ConfigError(f"--print {min(unknown)}: there is no such field; there are {', '.join(fields.columns)}")
    columns = options.columns or (("value",) if options.key_separator is None else ("key", "value"))
    separator = unescape("--key-separator", _or(options.key_separator, "\t"))
    return text(fields, columns, separator, unescape("--delimiter", _or(options.delimiter, "\n")))


def _or(given: str | None, default: str) -> str:
    """The given text, or the default; an empty text counts as given."""
    return default if given is None else given


def text(fields: RecordText, columns: Sequence[str], separator: bytes, end: bytes) -> Encode:
    """The fields of each record, with the separator between them."""
    parts = [fields.columns[column] for column in columns]

    def encode_bare_values(records: Sequence[BytesRecord]) -> bytes:
        return b"".join([(fields.null if record.value is None else record.value) + end for record in records])

    def encode_bare_keys_and_values(records: Sequence[BytesRecord]) -> bytes:
        found: list[bytes] = []
        for record in records:
            key, value = record.key, record.value
            found += (fields.null if key is None else key, separator, fields.null if value is None else value, end)
        return b"".join(found)

    def encode(records: Sequence[BytesRecord]) -> bytes:
        return b"".join([separator.join([part(record) for part in parts]) + end for record in records])

    quick = {("value",): encode_bare_values, ("key", "value"): encode_bare_keys_and_values}
    return quick.get(tuple(columns), encode) if fields.is_bare else encode


def raw(fields: RecordText, delimiter: bytes) -> Encode:
    """The bytes of each value and the delimiter; only the delimiter for a null."""

    def encode(records: Sequence[BytesRecord]) -> bytes:
        return b"".join([(b"" if record.value is None else fields.value(record)) + delimiter for record in records])

    return encode


def json_lines(fields: RecordText, *, escapes: bool = False) -> Encode:
    """One object a line. Keys and values that are not UTF-8 are {"base64": "..."} instead of a string."""

    def line(record: BytesRecord) -> str:
        return (
            f'{{"topic":{dump_json(record.topic)},"partition":{record.partition},"offset":{record.offset},'
            f'"timestamp":{fields.json_time(record)},'
            f'"key":{_json_of(record, "key", record.key, fields.key_format)},'
            f'"value":{_json_of(record, "value", record.value, fields.value_format)},'
            f'"headers":[{",".join(map(_header_json, record.headers))}]}}\n'
        )

    def encode(records: Sequence[BytesRecord]) -> bytes:
        lines = "".join(map(line, records))
        return in_utf_8(terminal.escape_json(lines) if escapes else lines)

    return encode


def _json_of(record: BytesRecord, what: str, data: bytes | None, form: ValueFormat) -> str:
    if data is None:
        return "null"
    try:
        return form.to_json(record, data)
    except ValueError as error:
        raise UnreadableRecordError(record, what, error) from error


def _header_json(header: Header) -> str:
    value = "null" if header.value is None else text_json(header.value)
    return f'{{"key":{dump_json(header.key)},"value":{value}}}'
