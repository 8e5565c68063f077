"""The fields of a record as text, by the options of `kwire consume`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kwire.cli.shown_values import BytesRecord, ValueFormat
from kwire.cli.stepping_over import how_to_step_over
from kwire.cli.terminal import escape_text
from kwire.cli.times import Times, time_writer
from kwire.cli.value_formats import TEXT
from kwire.errors import KafkaError
from kwire.model import NO_TIMESTAMP

Part: TypeAlias = Callable[[BytesRecord], bytes]
"""One field of a record."""

NULL = b"null"
"""The text for a null, as Java's console consumer prints it; JSON lines distinguish a null from the text "null"."""


class UnreadableRecordError(KafkaError):
    """A key or value does not have the format that the user has named.

    Args:
        group: The group that reads; None without one.
    """

    def __init__(self, record: BytesRecord, what: str, error: ValueError, group: str | None = None) -> None:
        self.offset = record.offset
        self._told = record, what, error
        place = f"{record.topic_partition} at offset {record.offset}"
        advice = getattr(error, "advice", None)
        super().__init__(
            f"{place}: the {what} is not of --{what}-format: {error}; --{what}-format hex shows its bytes, "
            f"{how_to_step_over(record.topic_partition, record.offset, group)}"
            if advice is None
            else f"{place}: the {what} cannot be read: {error}; {advice}"
        )

    def for_group(self, group: str) -> UnreadableRecordError:
        """The error, with advice for a group."""
        return UnreadableRecordError(*self._told, group)


class RecordText:
    """Makes text of each field of a record.

    Args:
        key_format, value_format: How bytes are shown.
        null: The text for a key, value or header that is null.
        times: How the time of a record is written.
        header_separator: The separator of headers.
        escapes: Whether control characters are escaped, for a terminal.
    """

    def __init__(
        self,
        *,
        key_format: ValueFormat = TEXT,
        value_format: ValueFormat = TEXT,
        null: bytes = NULL,
        times: Times = Times.MS,
        header_separator: bytes = b",",
        escapes: bool = False,
    ) -> None:
        self.key_format = key_format
        self.value_format = value_format
        self.null = null
        self.escapes = escapes
        self._header_separator = header_separator
        self.is_bare = key_format is TEXT and value_format is TEXT and not escapes
        self._times = times
        self._write_time = time_writer(times)
        self.columns: dict[str, Part] = {
            "topic": lambda record: record.topic.encode(),
            "partition": lambda record: b"%d" % record.partition,
            "offset": lambda record: b"%d" % record.offset,
            "timestamp": lambda record: self._write_time(record.timestamp).encode(),
            "headers": self.headers,
            "key": self.key,
            "value": self.value,
        }

    def key(self, record: BytesRecord) -> bytes:
        return self._shown(record, "key", record.key, self.key_format)

    def value(self, record: BytesRecord) -> bytes:
        return self._shown(record, "value", record.value, self.value_format)

    def headers(self, record: BytesRecord) -> bytes:
        """The headers, such as a=1,b=2."""
        shown = [
            header.key.encode() + b"=" + (self.null if header.value is None else header.value)
            for header in record.headers
        ]
        text = self._header_separator.join(shown)
        return escape_text(text) if self.escapes else text

    def json_time(self, record: BytesRecord) -> str:
        """The timestamp as JSON: a number, or a date in quotes."""
        if record.timestamp == NO_TIMESTAMP:
            return "null"
        written = self._write_time(record.timestamp)
        return written if self._times is Times.MS else f'"{written}"'

    def _shown(self, record: BytesRecord, what: str, data: bytes | None, form: ValueFormat) -> bytes:
        if data is None:
            return self.null
        try:
            text = form.to_text(record, data)
        except ValueError as error:
            raise UnreadableRecordError(record, what, error) from error
        return escape_text(text) if self.escapes else text
