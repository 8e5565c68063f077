"""Java's text for a login, as `sasl_jaas_config` has it:

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

One entry, in the syntax of `javax.security.auth.login.Configuration`. What stands in it is a secret: no error shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kwire.errors import ConfigError

_TOKEN = re.compile(
    r"""\s*(?: (?P<comment> //[^\n]* | /\*.*?\*/ | \#[^\n]* )
           | "(?P<quoted> (?:[^"\\] | \\.)* )"
           | '(?P<single> (?:[^'\\] | \\.)* )'
           | (?P<sign> [=;] )
           | (?P<word> [^\s=;"']+ ) )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = frozenset({"required", "requisite", "sufficient", "optional"})
_EXAMPLE = (
    'write it as in: org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="...";'
)


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login: the name of Java's module without its package, and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> JaasEntry:
    """Read the entry.

    Raises:
        ConfigError: it cannot be read. The error does not show the text.
    """
    tokens = list(_tokens(text))
    if not tokens or tokens[-1] != (";", True):
        raise _bad("it does not end with a semicolon")
    if len(tokens) < 3 or tokens[1][0].lower() not in _CONTROLS:
        raise _bad("it does not begin with the name of a login module and `required`")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for name, sign, value in zip(rest[::3], rest[1::3], rest[2::3], strict=False):
        if sign != ("=", True) or name[1] or value[1]:
            raise _bad("an option is not of the form name=value; put quotes around values with spaces or signs")
        if name[0] in options:
            raise _bad(f"the option {name[0]} is given twice")
        options[name[0]] = value[0]
    if len(rest) % 3:
        raise _bad("the last option is not of the form name=value; several logins in one text are not understood")
    return JaasEntry(tokens[0][0].rpartition(".")[2], options)


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Words and signs, and whether it is a sign."""
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise _bad("a quotation mark is not closed")
        position = found.end()
        if found["comment"] is None:
            quoted = found["quoted"] if found["quoted"] is not None else found["single"]
            if quoted is not None:
                yield _ESCAPED.sub(r"\1", quoted), False
            else:
                yield found["sign"] or found["word"], found["sign"] is not None


def _bad(reason: str) -> ConfigError:
    return ConfigError(f"sasl_jaas_config cannot be read: {reason}; {_EXAMPLE}")
