"""What users import says what it is; its methods say what they take, and what they answer."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from types import FunctionType

import pytest

import kwire
from kwire import Consumer
from tools.site.borrowed_docs import borrow

Function = Callable[..., object]
REFERENCE = re.compile(r"As `Consumer\.(\w+)`")


def public_functions(module: str) -> Iterator[tuple[str, Function]]:
    """Functions of the module's `__all__`, and methods and properties of its classes that kwire has written."""
    for name in importlib.import_module(module).__all__:
        found = getattr(importlib.import_module(module), name)
        if inspect.isfunction(found):
            yield name, found
        elif isinstance(found, type):
            for method in dir(found):
                if not method.startswith("_") and (function := written_by_kwire(found, method)):
                    yield f"{name}.{method}", function


def written_by_kwire(owner: type, name: str) -> Function | None:
    found = inspect.getattr_static(owner, name)
    function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    is_kwires = inspect.isfunction(function) and function.__module__.startswith("kwire")
    return function if is_kwires and not isinstance(found, property) else None


def missing_sections(function: Function) -> Iterator[str]:
    """What a docstring does not say, though there is something to say."""
    text = inspect.getdoc(function) or ""
    if refers_to_a_whole_one(text):
        return
    signature = inspect.signature(function)
    parameters = [name for name in signature.parameters if name not in ("self", "cls")]
    if parameters and "Args:" not in text:
        yield "Args"
    yield from (name for name in parameters if "Args:" in text and f"    {name}: " not in text)
    if signature.return_annotation not in ("None", "NoReturn", inspect.Signature.empty) and "Returns:" not in text:
        yield "Returns"


def refers_to_a_whole_one(text: str) -> bool:
    found = REFERENCE.match(text)
    return found is not None and not list(missing_sections(getattr(Consumer, found[1])))


CALLS = dict(public_functions("kwire"))


@pytest.mark.parametrize("module", ["kwire", "kwire.processing", "kwire.testing", "kwire.errors"])
def test_each_public_name_has_a_docstring(module: str) -> None:
    names = getattr(importlib.import_module(module), "__all__", None) or kwire.__all__
    home = importlib.import_module(module)
    found = {name: getattr(home, name) for name in names if hasattr(home, name) and name != "__version__"}
    assert [name for name, value in found.items() if isinstance(value, type | FunctionType) and not value.__doc__] == []


@pytest.mark.parametrize("module", ["kwire", "kwire.processing", "kwire.testing"])
def test_each_public_method_has_a_docstring(module: str) -> None:
    assert [name for name, function in public_functions(module) if not inspect.getdoc(function)] == []


def test_each_public_property_has_a_docstring() -> None:
    owners = [value for name in kwire.__all__ if isinstance(value := getattr(kwire, name), type)]
    properties = [
        (owner.__name__, name, found)
        for owner in owners
        for name in dir(owner)
        if not name.startswith("_") and isinstance(found := inspect.getattr_static(owner, name), property)
    ]
    assert [(owner, name) for owner, name, found in properties if not found.__doc__] == []


@pytest.mark.parametrize("name", CALLS)
def test_each_public_call_says_what_it_takes_and_answers(name: str) -> None:
    assert list(missing_sections(CALLS[name])) == []


def test_there_are_no_few_of_them() -> None:
    assert len(CALLS) > 120


def test_what_a_docstring_refers_to_is_in_the_reference() -> None:
    lines = ["As `Consumer.seek`; and more."]
    borrow(lines)
    assert lines[0] == "As `Consumer.seek`; and more."
    assert lines[2].startswith("Go to this offset: the partition's next record is ")
    assert "Raises:" in lines


def test_a_docstring_of_its_own_stays_as_it_is() -> None:
    lines = ["Make this the next offset."]
    borrow(lines)
    assert lines == ["Make this the next offset."]
