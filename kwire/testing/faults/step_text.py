"""One step of a schedule as words: `5s latency all 100ms jitter 20ms for 15s`, what stands behind `at`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kwire.testing.faults.catalogue import KINDS, strike
from kwire.testing.faults.kind import Amount, FaultKind, Parameter, Value
from kwire.testing.faults.quantities import Quantity
from kwire.testing.faults.schedule import Step, allowed_targets
from kwire.testing.faults.targets import KINDS as TARGETS
from kwire.testing.faults.targets import Target, parse_target, takes_argument
from kwire.testing.faults.words import Line

BEGINS_A_NUMBER = re.compile(r"-?\d", re.ASCII)
# The names of the same faults in simulated worlds.
SIMULATED = {kind.simulated_as: kind.name for kind in KINDS.values() if kind.simulated_as not in (None, *KINDS)}


def read_step(line: Line) -> Step:
    """`TIME FAULT TARGET PARAMETER... [for DURATION]`. Raises: WordError."""
    at_ms = line.quantity(Quantity.DURATION_MS)
    kind = _read_kind(line)
    target = _read_target(line, kind)
    values, lasts_ms = _read_rest(line, kind)
    try:
        return strike(at_ms, kind.name, target, lasts_ms=lasts_ms, **values)
    except ValueError as error:
        raise line.wrong(str(error)) from error


def render_step(step: Step) -> str:
    """The text of a step: the fault, its target, its main parameter, other parameters without their default, the
    duration."""
    words = [step.fault, str(step.target), *_value_words(step)]
    if step.lasts_ms is not None:
        words += ["for", Quantity.DURATION_MS.render(step.lasts_ms)]
    return " ".join(words)


def _read_kind(line: Line) -> FaultKind:
    if line.ahead in SIMULATED:
        word = line.next("a fault")
        raise line.wrong(f"that is a simulated world's name; here it is {SIMULATED[word]}")
    return KINDS[line.one_of(tuple(KINDS), "a fault")]


def _read_target(line: Line, kind: FaultKind) -> Target:
    words = {word: target for word, target in TARGETS.items() if target in kind.targets}
    wanted = f"what {kind.name} may strike: {allowed_targets(kind)}"
    word = line.next(wanted)
    if word not in words:
        raise line.wrong(f"allowed is {wanted}")
    argument = line.next(allowed_targets(kind)) if takes_argument(words[word]) else ""
    try:
        return parse_target(words[word], argument)
    except ValueError as error:
        raise line.wrong(str(error)) from error


def _read_rest(line: Line, kind: FaultKind) -> tuple[dict[str, Value], int | None]:
    """Parse the parameters, in any order, and the duration."""
    values, lasts_ms = dict[str, Value](), None
    while not line.is_over:
        if line.ahead == "for" and kind.lasting is not None and lasts_ms is None:
            line.next("for")
            lasts_ms = line.quantity(Quantity.DURATION_MS)
            continue
        parameter = _meant(line, kind)
        value = _read_value(line, parameter)
        if parameter.name in values:
            raise line.wrong(f"{parameter.name} is given already")
        values[parameter.name] = value
    return values, lasts_ms


def _meant(line: Line, kind: FaultKind) -> Parameter:
    """The parameter that the next word belongs to; if the word is its name, it is consumed."""
    word = line.ahead
    for parameter in kind.parameters:
        if isinstance(parameter, Amount) and parameter.word and parameter.word == word:
            line.next(word)
            return parameter
        if not isinstance(parameter, Amount) and word in parameter.words:
            return parameter
    unnamed = next((each for each in kind.parameters if isinstance(each, Amount) and not each.word), None)
    if unnamed is None or not BEGINS_A_NUMBER.match(word):
        line.next("a parameter")
        raise line.wrong(f"allowed is, for {kind.name}: {_allowed(kind)}")
    return unnamed


def _read_value(line: Line, parameter: Parameter) -> Value:
    word = line.next(f"{parameter.doc}, {parameter.allowed},")
    try:
        return parameter.parse(word)
    except ValueError as error:
        raise line.wrong(str(error)) from error


def _allowed(kind: FaultKind) -> str:
    """The words that are allowed after the target."""
    words = [_form(parameter) for parameter in kind.parameters]
    words += ["for DURATION"] if kind.lasting is not None else []
    return ", ".join(words) or "nothing more"


def _form(parameter: Parameter) -> str:
    if not isinstance(parameter, Amount):
        return parameter.allowed
    return f"{parameter.word} {parameter.quantity.example}".strip()


def _value_words(step: Step) -> Iterator[str]:
    for name, value in step.values:
        parameter = step.kind.parameter(name)
        is_main = isinstance(parameter, Amount) and not parameter.word
        if is_main or value != parameter.default:
            yield from _parameter_words(parameter, value)


def _parameter_words(parameter: Parameter, value: Value) -> Iterator[str]:
    if isinstance(parameter, Amount) and parameter.word:
        yield parameter.word
    yield parameter.render(value)
