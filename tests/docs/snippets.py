"""Python in pages and docstrings: found, looked at, and run against a Kafka in the process.

A snippet is a fenced block of Python in a page, or an indented one in a docstring. It may use what earlier ones of its
page have made, and the names in `snippet_world`. One that cannot run has a comment in front, `<!-- not run: why -->`.
It is compiled, and its names are looked up.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import re
import symtable
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from kwire import AsyncConsumer, Consumer
from kwire.config import SETTINGS
from kwire.config.names import FOREIGN

TOP = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("*/README.md"))
    if "_build" not in path.parts and not path.relative_to(TOP).parts[0].startswith(".")
)
_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<why>.+?) -->\n+)?^(?P<indent> *)```(?:python|py|pycon)\n(?P<code>.*?)^ *```$", re.M | re.S
)
_INDENTED = re.compile(r"(?:\A|\n)[ \t]*\n((?: {4,}.*\n?|[ \t]*\n)+)")
_TAKES_SETTINGS = ("Consumer", "AsyncConsumer", "read")
_OTHER_KEYWORDS = {"config"}
_OF_OTHERS = {"spark", "options", "checkpoint", "path", "client", "Order", "text"}  # sessions, and a user's own


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of Python, and where it stands.

    Attributes:
        why_not: Why it is not run; None for one that is.
    """

    path: Path
    line: int
    code: str
    why_not: str | None = None

    def __str__(self) -> str:
        return f"{self.path.relative_to(TOP)}:{self.line}"


def of_page(path: Path) -> Iterator[Snippet]:
    """Those of a page, in its order."""
    text = path.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Snippet(path, line, textwrap.dedent(found["code"]), found["why"])


def of_docstrings(path: Path) -> Iterator[Snippet]:
    """What is indented in docstrings of a module, and is Python that does something."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for found in _INDENTED.finditer(ast.get_docstring(node) or ""):
            code = textwrap.dedent(found[1]).strip("\n") + "\n"
            if _does_something(code):
                yield Snippet(path, getattr(node, "lineno", 1), code)


def _does_something(code: str) -> bool:
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a command, a picture, an answer
        return False
    kinds = (ast.Call, ast.Import, ast.ImportFrom)
    return any(isinstance(node, kinds) for node in ast.walk(tree))


# --- what is wrong with one that is not run --------------------------------------------------------------------------


def compiled(code: str, name: str) -> None:
    """Raises: SyntaxError."""
    compile(code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def problems(code: str, known: Collection[str]) -> Iterator[str]:
    """Names that nobody has, and settings that there are not.

    Args:
        code: The snippet.
        known: Names that it may use.
    """
    tree = ast.parse(code)
    for name in sorted(free_names(code) - set(known) - _OF_OTHERS - set(dir(builtins))):
        yield f"nobody says what {name} is"
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from _bad_imports(node.module, [alias.name for alias in node.names])
        if isinstance(node, ast.Call):
            yield from _bad_settings(node)
        if _is_of_consumer(node) and not hasattr(Consumer, node.attr) and not hasattr(AsyncConsumer, node.attr):
            yield f"a consumer has no {node.attr}"


def _is_of_consumer(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "consumer"


def free_names(code: str) -> set[str]:
    """Names that are used, and come from elsewhere."""
    # A block that awaits is put into a function; what it has of its own stays its own.
    body = textwrap.indent(code, "    ") or "    pass\n"
    table = symtable.symtable(f"async def snippet():\n{body}", "snippet", "exec")
    return {
        symbol.get_name()
        for scope in _scopes(table)
        for symbol in scope.get_symbols()
        if symbol.is_global() and scope is not table
    }


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)


def _bad_imports(module: str, names: list[str]) -> Iterator[str]:
    if not module.startswith("kwire") and importlib.util.find_spec(module.partition(".")[0]) is None:
        return  # it is optional, and not installed: the reason says so
    found = importlib.import_module(module)
    for name in names:
        if not hasattr(found, name) and importlib.util.find_spec(f"{module}.{name}") is None:
            yield f"{module} has no {name}"


def _bad_settings(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if name in _TAKES_SETTINGS:
        for keyword in call.keywords:
            if keyword.arg and keyword.arg not in {*SETTINGS, *_OTHER_KEYWORDS} and keyword.arg not in FOREIGN:
                yield f"there is no setting {keyword.arg}"
