"""Rules about requests: a test can watch, drop, delay and edit requests and their responses.

    rule = cluster.control.on(OffsetCommitRequest, times=2).drop()
    ...
    assert rule.fired == 2

The newest rule that matches a request, and has not fired as often as it may, decides about it. `observe` rules see
every request that matches them and decide nothing. `connection` asks `decide` once for each request.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Generic, SupportsFloat, SupportsIndex, TypeVar

from kwire.errors import InvalidArgumentError
from kwire.protocol.schema import Message, Request

if TYPE_CHECKING:
    from kwire.testing.cluster.request_context import RequestContext

R = TypeVar("R", bound=Message)
Q = TypeVar("Q", bound=Request[Message])


class Action(Enum):
    """What happens to a request instead of, or beside, being handled."""

    OBSERVE = auto()
    DROP = auto()
    DELAY = auto()
    CUT = auto()
    CORRUPT = auto()
    EDIT = auto()
    ANSWER = auto()
    WRITE = auto()


@dataclass(slots=True, eq=False)
class Rule:
    """One rule. `fired` counts how often it has fired."""

    request: type[Request[Message]]
    times: int | None
    matches: Callable[[Request[Message], RequestContext], bool]
    action: Action
    is_handled: bool = False
    delay_ms: float = 0
    corrupt: Callable[[bytes], bytes] | None = None
    edit: Callable[[Message], None] | None = None
    answer: Callable[[Request[Message], RequestContext], Message] | None = None
    pieces: Callable[[bytes], Iterable[tuple[float, bytes]]] | None = None
    see: Callable[[Request[Message], RequestContext], None] | None = None
    fired: int = 0
    is_removed: bool = False

    @property
    def is_spent(self) -> bool:
        """Whether the rule will never fire again."""
        return self.is_removed or (self.times is not None and self.fired >= self.times)

    def remove(self) -> None:
        """Remove the rule: it does not fire any more."""
        self.is_removed = True


class Intent(Generic[Q]):
    """The requests that `control.on(...)` has selected; a method makes the rule that says what happens to them."""

    def __init__(
        self, rules: list[Rule], request: type[Q], times: int | None, where: Callable[[Q, RequestContext], bool] | None
    ) -> None:
        self._rules = rules
        self._request = request
        self._times = times
        self._where = where

    def observe(self, see: Callable[[Q, RequestContext], None] | None = None) -> Rule:
        """Count the requests, and call `see` with each."""
        if see is not None:
            _check_function("see", see)
        rule = self._rule(Action.OBSERVE)
        rule.see = see  # type: ignore[assignment]  # only requests of that type come
        return rule

    def drop(self, *, handled: bool = False) -> Rule:
        """Never answer. As brokers answer a connection's requests in order, nothing more comes on it either.

        Args:
            handled: Handle the request, and drop only the answer.
        """
        return self._rule(Action.DROP, is_handled=handled)

    def delay(self, delay_ms: float, *, handled: bool = False) -> Rule:
        """Handle the requests this many milliseconds later, or (`handled`) at once and answer later."""
        _check_delay(delay_ms)
        rule = self._rule(Action.DELAY, is_handled=handled)
        rule.delay_ms = delay_ms
        return rule

    def cut(self, *, handled: bool = False) -> Rule:
        """Close the connection instead of answering."""
        return self._rule(Action.CUT, is_handled=handled)

    def corrupt(self, change: Callable[[bytes], bytes]) -> Rule:
        """Change the bytes of the answer; `change` is given them without the frame's length."""
        _check_function("change", change)
        rule = self._rule(Action.CORRUPT, is_handled=True)
        rule.corrupt = change
        return rule

    def write(self, pieces: Callable[[bytes], Iterable[tuple[float, bytes]]]) -> Rule:
        """Handle the request, and write other bytes than the answer's frame: `pieces` makes of the frame pairs of a
        delay in milliseconds and the bytes to write after it. It may yield without end: writing ends when the
        client has gone."""
        _check_function("pieces", pieces)
        rule = self._rule(Action.WRITE, is_handled=True)
        rule.pieces = pieces
        return rule

    def edit(self, change: Callable[[Message], None]) -> Rule:
        """Handle the request, and answer with what `change` makes of the answer."""
        _check_function("change", change)
        rule = self._rule(Action.EDIT, is_handled=True)
        rule.edit = change
        return rule

    def answer(self, answer: Message | Callable[[Q], Message]) -> Rule:
        """Answer with this, or with what the function makes of the request, instead of handling the request.

        Raises:
            InvalidArgumentError: It is neither a function nor a response to requests of this type.
        """
        if isinstance(answer, Message):
            _check_answer(self._request, answer)
        else:
            _check_function("answer", answer)
        rule = self._rule(Action.ANSWER)
        make = (lambda _request: answer) if isinstance(answer, Message) else answer
        rule.answer = lambda request, _call: _check_answer(self._request, make(request))  # type: ignore[arg-type]  # as above
        return rule

    def _rule(self, action: Action, *, is_handled: bool = False) -> Rule:
        where = self._where
        rule = Rule(
            self._request,
            self._times,
            matches=lambda request, call: where is None or where(request, call),  # type: ignore[arg-type]  # as above
            action=action,
            is_handled=is_handled,
        )
        self._rules.append(rule)
        return rule


@dataclass(slots=True, eq=False)
class RequestControl:
    """The rules of one cluster."""

    rules: list[Rule] = field(default_factory=list)
    throttles_ms: dict[type[Request[Message]], int] = field(default_factory=dict)

    def on(
        self,
        request: type[Q],
        *,
        times: int | None = None,
        where: Callable[[Q, RequestContext], bool] | None = None,
    ) -> Intent[Q]:
        """Select requests of a type: the next `times`, or all; with `where`, only those for which it returns True.

        Raises:
            InvalidArgumentError: `request` is no type of requests, such as FetchRequest.
        """
        _check_type(request)
        _check_times(times)
        if where is not None:
            _check_function("where", where)
        return Intent(self.rules, request, times, where)

    def throttle(self, request: type[Request[Message]], throttle_ms: int) -> None:
        """Answer requests of this type with a throttle time; 0 for none. Raises: InvalidArgumentError."""
        _check_type(request)
        if throttle_ms < 0:
            raise InvalidArgumentError(f"a throttle time is 0 ms or more, not {throttle_ms}")
        self.throttles_ms[request] = throttle_ms

    def clear(self) -> None:
        """Remove all rules."""
        self.rules.clear()
        self.throttles_ms.clear()

    def decide(self, request: Request[Message], call: RequestContext) -> Rule | None:
        """The rule that decides about this request, which counts as fired; None to handle the request as usual."""
        if not self.rules:
            return None
        matching = [rule for rule in self.rules if self._applies(rule, request, call)]
        deciding = [rule for rule in matching if rule.action is not Action.OBSERVE][-1:]
        for rule in matching:
            if rule.action is Action.OBSERVE or rule in deciding:
                rule.fired += 1
                if rule.see is not None:
                    rule.see(request, call)
        return deciding[0] if deciding else None

    def _applies(self, rule: Rule, request: Request[Message], call: RequestContext) -> bool:
        return not rule.is_spent and type(request) is rule.request and rule.matches(request, call)


def _check_times(times: object) -> None:
    if times is not None and not (isinstance(times, SupportsIndex) and operator.index(times) >= 1):
        raise InvalidArgumentError(f"times is how often the rule fires, at least once; not {times!r}")


def _check_delay(delay_ms: object) -> None:
    if not isinstance(delay_ms, SupportsFloat) or not 0 <= float(delay_ms) < math.inf:
        raise InvalidArgumentError(f"a delay is a number of milliseconds, 0 or more; not {delay_ms!r}")


def _check_function(name: str, given: object) -> None:
    """Raises: InvalidArgumentError. When the rule fires, the test is somewhere else."""
    if not callable(given) or (isinstance(given, type) and issubclass(given, Message)):
        raise InvalidArgumentError(f"{name} is a function, not {given!r:.200}")


def _check_answer(request: type[Request[Message]], answer: Message) -> Message:
    """Raises: InvalidArgumentError."""
    if not isinstance(answer, request.response_type):
        raise InvalidArgumentError(
            f"{request.__name__} is answered by {request.response_type.__name__}, not {answer!r:.200}"
        )
    return answer


def _check_type(request: object) -> None:
    """Raises: InvalidArgumentError, of what no request is of: a test would pass without its fault."""
    if not (isinstance(request, type) and issubclass(request, Request)) or request is Request:
        raise InvalidArgumentError(f"name a type of requests, such as FetchRequest; not {request!r}")
