r"""`-f '%t [%p] at %o: %k = %s\n'`: a template of the output for each record, as in kcat.

Placeholders have kcat's meaning, with two differences: a null is the null marker, and `--times` sets the form of %T.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence

from kwire.cli.escapes import unescape
from kwire.cli.record_text import Part, RecordText
from kwire.cli.shown_values import BytesRecord
from kwire.errors import ConfigError

HELP = (
    "%s value, %S its length (-1 for null), %R that as four bytes, %k key, %K its length, %t topic, %p partition, "
    r"%o offset, %T time, %h headers, %% a percent sign; \n \t \r \0 \\ \xNN"
)

_SIGN = re.compile(r"%(.?)", re.DOTALL)


def template(text: str, fields: RecordText) -> Callable[[Sequence[BytesRecord]], bytes]:
    """Raises: ConfigError, over a sign or an escape that there is not."""
    parts = parse_template(text, fields)

    def encode(records: Sequence[BytesRecord]) -> bytes:
        return b"".join([part(record) if callable(part) else part for record in records for part in parts])

    return encode


def parse_template(text: str, fields: RecordText) -> list[Part | bytes]:
    """The fields of a template, and the texts between them."""
    signs, columns = _signs(fields), fields.columns
    found: list[Part | bytes] = []
    end = 0
    for sign in _SIGN.finditer(text):
        found += [unescape("--format", text[end : sign.start()])]
        end = sign.end()
        if sign[1] == "%":
            found += [b"%"]
        elif sign[1] in _COLUMNS:
            found += [columns[_COLUMNS[sign[1]]]]
        elif sign[1] in signs:
            found += [signs[sign[1]]]
        else:
            raise ConfigError(f"--format: {sign[0]} stands for nothing. {HELP}")
    found += [unescape("--format", text[end:])]
    return [part for part in found if part != b""]


_COLUMNS = {
    "s": "value",
    "k": "key",
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "T": "timestamp",
    "h": "headers",
}


def _signs(fields: RecordText) -> dict[str, Part]:
    """The placeholders. Lengths are numbers of printed bytes, so that a reader can read as many; -1 for a null."""

    def value_size(record: BytesRecord) -> int:
        return -1 if record.value is None else len(fields.value(record))

    def key_size(record: BytesRecord) -> int:
        return -1 if record.key is None else len(fields.key(record))

    return {
        "S": lambda record: b"%d" % value_size(record),
        "K": lambda record: b"%d" % key_size(record),
        "R": lambda record: struct.pack(">i", value_size(record)),
    }
