"""The user's function: how it is found, and what is said when it is not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from kwire.errors import ConfigError
from kwire.spark.callbacks import CallbackError
from kwire.spark.pipeline.targets import function_of


@pytest.fixture
def billing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working directory, which is on no path."""
    (tmp_path / "billing_module.py").write_text(
        "CALLS = []\nRATE = 3\ndef store(rows, number):\n    CALLS.append((rows, number))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "billing_module", raising=False)
    return "billing_module"


def test_a_function_of_the_working_directory_is_called_with_rows_and_the_number_of_the_batch(billing: str) -> None:
    function_of(f"{billing}:store")("rows", 7)  # type: ignore[arg-type]  # rows are handed on, whatever they are
    assert sys.modules[billing].CALLS == [("rows", 7)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("billing_module", "function is module:function, not 'billing_module'"),
        (":store", "function is module:function"),
        ("no_such_module_here:store", "there is no module no_such_module_here"),
        ("billing_module:charge", "billing_module has no function charge"),
        ("billing_module:RATE", "billing_module has no function RATE"),
    ],
)
def test_a_function_that_is_not_there_is_told(billing: str, name: str, said: str) -> None:
    assert billing
    with pytest.raises(ConfigError, match=said):
        function_of(name)


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(3)])
def test_a_function_that_would_end_the_program_fails_its_batch(
    raised: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Py4J answers the JVM when a function returns or raises an `Exception`. Of `sys.exit()` the JVM never heard: the
    pipeline stood still for ever."""
    module = ModuleType("ends_the_program")

    def store(_rows: object, _batch: int) -> None:
        raise raised

    module.store = store  # type: ignore[attr-defined]  # made for this test
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(CallbackError, match=rf"ends_the_program:store raised {type(raised).__name__}"):
        function_of("ends_the_program:store")(None, 0)  # type: ignore[arg-type]  # it looks at no rows


async def stored(_rows: object, _batch: int) -> None:
    raise AssertionError("nobody awaits this")


def yielded(_rows: object, _batch: int) -> Iterator[int]:
    yield 1


def module_with(monkeypatch: pytest.MonkeyPatch, store: object) -> str:
    module = ModuleType("does_nothing_yet")
    module.store = store  # type: ignore[attr-defined]  # made for this test
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return "does_nothing_yet:store"


@pytest.mark.parametrize("store", [stored, yielded, partial(stored)])
def test_a_function_that_has_done_nothing_when_it_returns_is_refused(
    monkeypatch: pytest.MonkeyPatch, store: object
) -> None:
    """Spark takes the batch for stored, so each record of it was lost."""
    with pytest.raises(ConfigError, match="does_nothing_yet:store: when it returns nothing is done"):
        function_of(module_with(monkeypatch, store))


@pytest.mark.parametrize("store", [stored, yielded])
def test_a_batch_of_which_something_is_still_to_be_awaited_fails(
    monkeypatch: pytest.MonkeyPatch, store: Callable[[object, int], object]
) -> None:
    def hidden(rows: object, batch: int) -> object:
        return store(rows, batch)

    found = function_of(module_with(monkeypatch, hidden))
    with pytest.raises(CallbackError, match=r"does_nothing_yet:store: it returned .*, and nobody"):
        found(None, 0)  # type: ignore[arg-type]  # it looks at no rows
