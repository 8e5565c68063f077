"""Bytes that should be text, as header keys should: decoded as Java does it, so that both say the same."""

from __future__ import annotations

import re

# Half of a pair for characters beyond U+FFFF. Java puts one U+FFFD for it, Python one for each byte.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def text_of(data: bytes) -> str:
    """UTF-8, with U+FFFD for what is none, as often as Java's `String` puts it."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")
