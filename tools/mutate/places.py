"""Walks through a module's source and finds each mutant of it; what is changed into what says `changes.py`.

Left out is what no test should look at: annotations, docstrings, texts (a string with a blank in it), what is logged,
`__repr__` and `__str__`, `__slots__`, members of enums, and decorators.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tools.mutate.changes import Change, Members, changes_of_expression, changes_of_statement, changes_of_table
from tools.mutate.mutant import TOP, Mutant

UNSEEN_FUNCTIONS = frozenset({"__repr__", "__str__"})
UNSEEN_NAMES = frozenset({"__slots__", "__all__", "log"})
LOGS = frozenset({"log", "logger", "logging", "_logger"})
UNSEEN_CALLS = frozenset({"TypeVar", "NewType", "cast", "part_logger", "auto", "assert_never"})
UNSEEN_BASES = frozenset({"Protocol", "Enum", "IntEnum", "StrEnum", "TypedDict"})


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node stands."""

    function: str = ""
    outer: str = ""
    scope: str = ""
    lines: tuple[int, int] = (0, 0)
    is_bound: bool = False
    is_message: bool = False


def mutants_of(path: Path) -> list[Mutant]:
    return list(_Walk(path).module())


class _Walk:
    def __init__(self, path: Path) -> None:
        self._file = path.relative_to(TOP).as_posix() if path.is_relative_to(TOP) else path.as_posix()
        self._source = path.read_bytes()
        self._lines = self._source.splitlines(keepends=True)
        self._begins = [0]
        for line in self._lines:
            self._begins.append(self._begins[-1] + len(line))
        self._tree = ast.parse(self._source)
        self._members = Members.of(self._tree)

    def module(self) -> Iterator[Mutant]:
        """Each change once."""
        seen = set[tuple[int, int, str]]()
        alike = Counter[str]()
        for mutant in self._body(self._tree.body, _Place()):
            where = (mutant.start, mutant.end, mutant.new)
            if where not in seen:
                seen.add(where)
                yield replace(mutant, nth=alike[mutant.key])
                alike[mutant.key] += 1

    # --- statements ---------------------------------------------------------------------------------------------

    def _body(self, body: list[ast.stmt], place: _Place) -> Iterator[Mutant]:
        for statement in body:
            yield from self._statement(statement, place)

    def _statement(self, node: ast.stmt, place: _Place) -> Iterator[Mutant]:
        place = replace(place, lines=_own_lines(node))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._function(node, place)
            case ast.ClassDef():
                if not {_last_name(base) for base in node.bases} & UNSEEN_BASES:
                    yield from self._body(node.body, replace(place, scope=f"{place.scope}{node.name}.", is_bound=True))
            case _ if not _is_unseen(node, place):
                for change in changes_of_statement(node, is_init=place.function.endswith("__init__")):
                    if place.outer:
                        yield self._mutant(change, place)
                yield from self._parts(node, place)
            case _:
                pass

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place) -> Iterator[Mutant]:
        if node.name in UNSEEN_FUNCTIONS or any(
            _last_name(each) in ("overload", "abstractmethod") for each in node.decorator_list
        ):
            return
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)):
            yield from self._expression(default, replace(place, is_bound=True))
        name = f"{place.scope}{node.name}"
        inside = replace(place, function=name, outer=place.outer or name, is_bound=False, scope=f"{name}.<locals>.")
        yield from self._body(node.body, inside)

    def _parts(self, node: ast.AST, place: _Place) -> Iterator[Mutant]:
        """Expressions and statements below a node, in their order."""
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.stmt):
                    yield from self._statement(part, place)
                elif isinstance(part, ast.expr):
                    yield from self._expression(part, place)
                elif isinstance(part, ast.AST):
                    for change in changes_of_expression(part):
                        yield self._mutant(change, place)
                    yield from self._parts(part, place)

    # --- expressions --------------------------------------------------------------------------------------------

    def _expression(self, node: ast.expr, place: _Place) -> Iterator[Mutant]:
        match node:
            case ast.JoinedStr():
                return
            case ast.Call(func=called):
                if _is_log(node) or _last_name(called) in UNSEEN_CALLS:
                    return
                place = replace(place, is_message=place.is_message or _last_name(called).endswith("Error"))
            case ast.Subscript() if not place.outer:
                return  # `Table[S, E, F]`
            case _:
                pass
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and place.is_message):
            yield from (self._mutant(change, place) for change in changes_of_expression(node))
        if not place.outer:
            yield from (self._mutant(change, place) for change in changes_of_table(node, self._members))
        if isinstance(node, ast.Dict | ast.DictComp):
            yield from self._dict(node, place)
        else:
            yield from self._parts(node, place)

    def _dict(self, node: ast.Dict | ast.DictComp, place: _Place) -> Iterator[Mutant]:
        for key in node.keys if isinstance(node, ast.Dict) else [node.key]:
            if isinstance(key, ast.Tuple) and not place.outer:
                for each in key.elts:  # a pair that lacks one of its two is no key
                    yield from self._expression(each, place)
            elif key is not None:
                yield from self._expression(key, place)
        for value in node.values if isinstance(node, ast.Dict) else [node.value]:
            yield from self._expression(value, place)
        for generator in [] if isinstance(node, ast.Dict) else node.generators:
            yield from self._parts(generator, place)
            yield from (self._mutant(change, place) for change in changes_of_expression(generator))

    # --- a mutant -----------------------------------------------------------------------------------------------

    def _mutant(self, change: Change, place: _Place) -> Mutant:
        start = self._begins[change.first[0] - 1] + change.first[1]
        end = self._begins[change.last[0] - 1] + change.last[1]
        if change.token:
            start = self._source.index(change.token.encode(), start, end)
            end = start + len(change.token)
        if change.is_with_comma:
            rest = self._source[end:]
            end += len(rest) - len(rest.lstrip(b" \n").removeprefix(b","))
        return Mutant(
            file=self._file,
            function=place.function,
            outer=place.outer,
            is_bound=place.is_bound and not place.outer,
            kind=change.kind,
            lines=place.lines,
            line=change.first[0],
            start=start,
            end=end,
            old=self._source[start:end].decode(),
            new=change.new,
            text=" ".join(self._lines[change.first[0] - 1].decode().split()),
        )


def _is_unseen(node: ast.stmt, place: _Place) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True  # an assertion tells the type checker what is so
        case ast.Expr(value=ast.Constant()):
            return True  # a docstring
        case ast.Expr(value=ast.Call() as call):
            return _is_log(call) or _last_name(call.func) in UNSEEN_CALLS
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in UNSEEN_NAMES
        case ast.Assign(targets=[ast.Tuple()]):
            return not place.outer  # short names of enums
        case _:
            return False


def _own_lines(node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement, without those of the statements inside it."""
    body: list[ast.AST] = [*getattr(node, "body", []), *getattr(node, "cases", [])]
    if not body:
        return node.lineno, node.end_lineno or node.lineno
    first = body[0]
    line = first.pattern.lineno if isinstance(first, ast.match_case) else int(getattr(first, "lineno", node.lineno))
    return node.lineno, max(node.lineno, line - 1)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
        case _:
            return ""


def _is_log(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id=name)) | ast.Attribute(value=ast.Attribute(attr=name)):
            return name in LOGS
        case _:
            return False
