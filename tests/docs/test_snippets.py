"""Each piece of Python in a page, or in a docstring of what users call, runs; where it cannot, it says why."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kwire.processing import Processor, dead_letter_topic
from kwire.testing import Cluster

if TYPE_CHECKING:
    from tests.docs.snippet_world import World, run
    from tests.docs.snippets import PAGES, TOP, Snippet, compiled, free_names, of_docstrings, of_page, problems
else:
    from snippet_world import World, run
    from snippets import PAGES, TOP, Snippet, compiled, free_names, of_docstrings, of_page, problems

WITH_SNIPPETS = [page for page in PAGES if any(of_page(page))]
MODULES = sorted(path for path in (TOP / "kwire").rglob("*.py") if any(of_docstrings(path)))
# What users call. The others tell those who work on kwire how parts are put together; theirs are looked at.
OF_USERS = ("consumer/async_consumer.py", "processing/dead_letters.py", "processing/processor.py")


def page_id(path: Path) -> str:
    return str(path.relative_to(TOP))


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=page_id)
def test_the_python_of_a_page_runs(page: Path) -> None:
    known = World.names()
    with stopping_clusters() as names:
        for snippet in of_page(page):
            with telling(snippet):
                if snippet.why_not is None:
                    names.update(run(snippet, names))
                else:
                    compiled(snippet.code, str(snippet))
                    assert list(problems(snippet.code, known)) == []
                    names.update(imported(snippet.code))
                known |= top_names(snippet.code)


@pytest.mark.slow
@pytest.mark.parametrize("module", OF_USERS)
def test_the_python_in_docstrings_of_what_users_call_runs(module: str) -> None:
    found = list(of_docstrings(TOP / "kwire" / module))
    assert found
    for snippet in found:
        with telling(snippet):
            run(snippet, {"Processor": Processor, "dead_letter_topic": dead_letter_topic})


@pytest.mark.parametrize("module", MODULES, ids=page_id)
def test_the_python_in_docstrings_can_be_compiled(module: Path) -> None:
    """And classes and types that it names are kwire's."""
    for snippet in of_docstrings(module):
        with telling(snippet):
            compiled(snippet.code, str(snippet))
            assert {name for name in free_names(snippet.code) if name[0].isupper()} - names_of_kwire() == set()


def test_a_snippet_that_does_not_run_is_looked_at() -> None:
    code = "from kwire import Consummer\nConsumer('a', grup_id='b')\nconsumer.pol()\nbil(1)\n"
    assert list(problems(code, World.names())) == [
        "nobody says what bil is",
        "kwire has no Consummer",
        "there is no setting grup_id",
        "a consumer has no pol",
    ]


def test_no_page_with_python_is_passed_over() -> None:
    """And those that are not run are few."""
    found = [snippet for page in WITH_SNIPPETS for snippet in of_page(page)]
    fences = sum(page.read_text(encoding="utf-8").count("```py") for page in PAGES)
    assert len(found) == fences
    assert all(snippet.why_not is None or len(snippet.why_not) > 10 for snippet in found)


def test_the_serializer_for_dead_letters_keeps_tombstones_and_bytes() -> None:
    """A tombstone was written as the text null, which deletes nothing."""
    snippet = next(each for each in of_page(TOP / "docs/howto/dead-letters.md") if "def to_json" in each.code)
    to_json = cast("Callable[[object, object], bytes | None]", run(snippet, {})["to_json"])
    assert [to_json(value, None) for value in (None, b"{", {"cents": 5})] == [None, b"{", b'{"cents": 5}']


# --- helpers ----------------------------------------------------------------------------------------------------------


@contextmanager
def stopping_clusters() -> Iterator[dict[str, object]]:
    """The names of a page; clusters among them are stopped at the end."""
    names: dict[str, object] = {}
    try:
        yield names
    finally:
        for value in names.values():
            if isinstance(value, Cluster):
                value.stop()


@contextmanager
def telling(snippet: Snippet) -> Iterator[None]:
    """A failure says which snippet it is of."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the snippet at {snippet}:\n{snippet.code}")
        raise


def top_names(code: str) -> set[str]:
    """Names at the top of some code."""
    found: set[str] = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def imported(code: str) -> dict[str, object]:
    """What a snippet that is not run imports, for those behind it."""
    made: dict[str, object] = {}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            with suppress(ImportError):  # it is optional, and not installed
                exec(ast.unparse(node), made)
    return made


@cache
def names_of_kwire() -> frozenset[str]:
    """Of all modules: what stands at their top, messages and types of the protocol included."""
    return frozenset(
        name for path in (TOP / "kwire").rglob("*.py") for name in top_names(path.read_text(encoding="utf-8"))
    )
