"""Regular expressions of subscriptions: RE2's syntax (KIP-848), matched by Python's `re` after translation.

RE2 has no look-around and no back references, so a member that sends them is refused, although `re` could match them.
What RE2 has and `re` has not is written in other words. Topic names are ASCII, so classes of Unicode are their ASCII
part here. `consumer` refuses patterns by this, `consumer_patterns` looks topics up.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kwire.protocol.error_codes import ErrorCode
from kwire.testing.cluster.groups.refusal import GroupRefusal

POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
UNICODE_CLASSES = {
    "Any": r"\x00-\x7F",
    "L": "A-Za-z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
    "P": r"!-#%-*,-/:;?@\[-\]_{}",
    "Pc": "_",
    "Pd": r"\-",
    "Latin": "A-Za-z",
    "Greek": "",
    "Cyrillic": "",
}
"""Those that patterns of topic names have a use for."""

MAX_REPEATS = 1000
EVERYTHING = r"\x00-\U0010FFFF"
PERL_CLASSES = "dDsSwW"
SAME_ESCAPES = "aftrnv"
_FLAGS = re.compile(r"\?([imsU]*)(-[imsU]+)?([:)])")
_NAME = re.compile(r"\?P?<(\w+)>", re.ASCII)
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_UNICODE = re.compile(r"[pP](?:\{(\^?\w+)\}|([A-Z]))")
_HEX = re.compile(r"x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")


@lru_cache(maxsize=1000)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """What matches whole topic names.

    Raises:
        Refusal: INVALID_REGULAR_EXPRESSION.
    """
    try:
        return re.compile(_Translation(pattern).text(), re.ASCII)
    except (re.error, OverflowError, ValueError) as error:
        message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
        raise GroupRefusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


class _Translation:
    """One pattern, read from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._made: list[str] = []
        self._flags: list[list[str]] = [[]]
        """Flags that hold from here to the end of the group, `a(?i)b`, for each group that is open."""
        self._can_repeat = False

    def text(self) -> str:
        """The pattern for Python."""
        while self._at < len(self._pattern):
            self._step(self._pattern[self._at])
        if len(self._flags) > 1:
            raise ValueError("missing closing )")
        return "".join([*self._made, ")" * len(self._flags[0])])

    def _step(self, char: str) -> None:
        if char in "*+?":
            self._repeat(char)
        elif char == "{" and (repeat := _REPEAT.match(self._pattern, self._at)):
            if max(int(number) for number in (repeat[1], repeat[3] or "0")) > MAX_REPEATS:
                raise ValueError("invalid repeat count")
            self._repeat(repeat[0])
        elif char in "\\[":
            self._emit(self._class() if char == "[" else self._escape(), 0)
        elif char in "(|)":
            {"(": self._open, "|": self._alternative, ")": self._close}[char]()
        else:
            self._emit(char if char in "^$." else re.escape(char), 1)

    def _emit(self, text: str, length: int, *, can_repeat: bool = True) -> None:
        self._made.append(text)
        self._at += length
        self._can_repeat = can_repeat

    def _repeat(self, operator: str) -> None:
        # RE2 knows no possessive repeats: `a++` is one repeat of another.
        if not self._can_repeat:
            raise ValueError("invalid nested repetition operator, or nothing to repeat")
        self._emit(operator, len(operator), can_repeat=False)
        if self._pattern.startswith("?", self._at):
            self._emit("?", 1, can_repeat=False)

    # --- groups ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._at += 1
        if name := _NAME.match(self._pattern, self._at):
            self._flags.append([])
            # Names may begin with a digit in RE2, and are given only once in both.
            self._emit(f"(?P<n{name[1]}>", len(name[0]), can_repeat=False)
        elif flags := _FLAGS.match(self._pattern, self._at):
            self._set_flags(flags)
        elif self._pattern.startswith("?", self._at):
            raise ValueError("invalid or unsupported Perl syntax")
        else:
            self._flags.append([])
            self._emit("(", 0, can_repeat=False)

    def _set_flags(self, flags: re.Match[str]) -> None:
        # U swaps greedy and reluctant, which makes no difference to whether a whole name matches.
        on, off = flags[1].replace("U", ""), (flags[2] or "").replace("U", "")
        start = f"(?{on}{off if len(off) > 1 else ''}:"
        if flags[3] == ":":
            self._flags.append([])
        else:
            self._flags[-1].append(start)
        self._emit(start, len(flags[0]), can_repeat=False)

    def _alternative(self) -> None:
        flags = self._flags[-1]
        self._emit(")" * len(flags) + "|" + "".join(flags), 1, can_repeat=False)

    def _close(self) -> None:
        if len(self._flags) == 1:
            raise ValueError("unexpected )")
        self._emit(")" * len(self._flags.pop()) + ")", 1)

    # --- classes and escapes ---------------------------------------------------------------------------------

    def _class(self) -> str:
        self._at += 1
        is_negated = self._take("^")
        parts: list[str] = []
        while not parts or not self._pattern.startswith("]", self._at):
            if self._at >= len(self._pattern):
                raise ValueError("missing closing ]")
            parts.append(self._range())
        self._at += 1
        inside = "".join(parts)
        if not inside:
            return f"[{EVERYTHING}]" if is_negated else "(?!)"
        return f"[{'^' if is_negated else ''}{inside}]"

    def _range(self) -> str:
        """One sign, one class, or a range of signs inside of brackets."""
        if self._pattern.startswith("[:", self._at):
            end = self._pattern.find(":]", self._at)
            if end > 0:
                return self._posix(end)
        start = self._sign()
        if len(start) > 1 or not self._has_range():
            return re.escape(start) if len(start) == 1 else start[1:]
        self._at += 1
        end_sign = self._sign()
        if len(end_sign) > 1:
            raise ValueError("invalid character class range")
        return f"{re.escape(start)}-{re.escape(end_sign)}"

    def _has_range(self) -> bool:
        rest = self._pattern[self._at : self._at + 2]
        return len(rest) == 2 and rest[0] == "-" and rest[1] != "]"

    def _posix(self, end: int) -> str:
        name = self._pattern[self._at + 2 : end]
        self._at = end + 2
        inside = POSIX_CLASSES.get(name.removeprefix("^"))
        if inside is None:
            raise ValueError("invalid character class range")
        return _outside(inside) if name.startswith("^") else inside

    def _sign(self) -> str:
        """One sign; or, after a mark, the inside of a class."""
        if self._pattern.startswith("\\", self._at):
            escaped = self._escape(in_class=True)
            return escaped if len(escaped) == 1 else f"\0{escaped}"
        sign = self._pattern[self._at : self._at + 1]
        if not sign:
            raise ValueError("missing closing ]")
        self._at += 1
        return sign

    def _escape(self, *, in_class: bool = False) -> str:
        """The escape at this place: a sign or the inside of a class in brackets, what can stand alone outside."""
        self._at += 1
        rest = self._pattern[self._at : self._at + 1]
        if not in_class and (found := self._standing_alone(rest)) is not None:
            return found
        if rest and rest in PERL_CLASSES:
            self._at += 1
            return f"\\{rest}"
        if match := _UNICODE.match(self._pattern, self._at):
            self._at += len(match[0])
            inside = self._unicode(match)
            return inside if in_class else (f"[{inside}]" if inside else "(?!)")
        sign = self._one_sign(rest)
        return sign if in_class else re.escape(sign)

    def _standing_alone(self, rest: str) -> str | None:
        if rest == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at + 1 : end if end >= 0 else None]
            self._at = len(self._pattern) if end < 0 else end + 2
            return re.escape(quoted)
        alone = {"A": r"\A", "z": r"\Z", "b": r"\b", "B": r"\B"}.get(rest)
        self._at += alone is not None
        return alone

    def _unicode(self, match: re.Match[str]) -> str:
        name = match[1] or match[2]
        inside = UNICODE_CLASSES.get(name.removeprefix("^"))
        if inside is None:
            raise ValueError("invalid character class range")
        return _outside(inside) if name.startswith("^") != match[0].startswith("P") else inside

    def _one_sign(self, rest: str) -> str:
        if rest and rest in SAME_ESCAPES:
            self._at += 1
            return {"a": "\a", "f": "\f", "t": "\t", "r": "\r", "n": "\n", "v": "\v"}[rest]
        if match := _HEX.match(self._pattern, self._at):
            self._at += len(match[0])
            return chr(int(match[1] or match[2], 16))
        if match := _OCTAL.match(self._pattern, self._at):
            self._at += len(match[0])
            return chr(int(match[0], 8))
        if not rest or (rest.isascii() and rest.isalnum()):
            raise ValueError("invalid escape sequence" if rest else "trailing \\ at end of expression")
        self._at += 1
        return rest

    def _take(self, sign: str) -> bool:
        has = self._pattern.startswith(sign, self._at)
        self._at += has
        return has


@lru_cache(maxsize=100)
def _outside(inside: str) -> str:
    """The inside of the class of all other signs of ASCII, and everything beyond."""
    within = re.compile(f"[{inside}]") if inside else re.compile("(?!)")
    others = [re.escape(chr(code)) for code in range(128) if not within.match(chr(code))]
    return "".join(others) + r"\x80-\U0010FFFF"
